// Package sampler contains the shared parts of adapters for language models. An adapter answers the sampling requests
// of servers (2026-07-28, client/sampling) with the API of a model provider:
//
//   - [github.com/parley-mcp/parley/sampler/anthropicsampler] uses the Messages API of Anthropic.
//   - [github.com/parley-mcp/parley/sampler/openaisampler] uses the Chat Completions API, which many providers and
//     local servers offer.
//
// Set client.Dialer.Sample to the method Sample of an adapter. In a host.Host, the policy, the approvals and the limits
// of the host apply first. An agent can use an adapter as its own model, too: see examples/agent. The adapters are in a
// separate module, so that other programs do not depend on the libraries of the providers.
//
// An adapter ignores the key metadata of a request, because it is for the provider and comes from a server, and
// includeContext, because the adapter knows no context of other servers.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
package sampler
