// Package sampler has what the adapters for language models share. An adapter answers the sampling requests of
// servers (2026-07-28, client/sampling) with the API of a model provider:
//
//   - [github.com/parley-mcp/parley/sampler/anthropicsampler] uses the Messages API of Anthropic.
//   - [github.com/parley-mcp/parley/sampler/openaisampler] uses the Chat Completions API, which many providers and
//     local servers have.
//
// The method Sample of an adapter is for client.Dialer.Sample. In a host.Host, the policy, the approvals and the limits
// of the host precede it. An agent can use it as its own model, too: see examples/agent. The adapters are in a module
// of their own, so that other programs do not depend on the libraries of the providers.
//
// An adapter ignores the key metadata of a request, because it is for the provider and comes from a server, and
// includeContext, because the adapter knows no context of other servers.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Servers use the API of a model provider.
package sampler
