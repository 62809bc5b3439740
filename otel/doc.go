// Package otel traces and measures the calls of servers and clients with OpenTelemetry,
// by its [semantic conventions for the Model Context Protocol], which are in development
// as of 2026.
//
// It is middleware, the same for both roles:
//
//	s := &server.Server{Middleware: []call.Middleware{otel.Server(otel.Options{})}}
//	d := &client.Dialer{Middleware: []call.Middleware{otel.Client(otel.Options{})}}
//
// Put it first: what is inside of it is what it measures. Providers and propagators are
// the global ones, or those of [Options].
//
// # Spans
//
// A span is one request: "tools/call greet", "prompts/get review", "resources/read". A
// client's is of kind CLIENT and lasts until the result is there, with all rounds of
// questions and answers that this takes; a server's is of kind SERVER, one for each round.
// Context travels in the _meta of requests, in every revision, by whatever propagators are
// configured, so that the spans of one call are one trace over any transport; a span of
// the transport below, such as that of an HTTP server, becomes a link. What follows the
// conventions has their names; one attribute is our own: parley.outcome is
// "input_required" where a round ended with a question.
//
// A request has failed (error.type, and the status of the span) if it ended with an error,
// but for those with which a server refuses what it was asked, or with a tool's own failure
// ("tool_error"). Without a code of JSON-RPC, the type is cancelled, timeout,
// connection_lost, closed, invalid_response, revision, an HTTP status or _OTHER.
//
// # Metrics
//
// mcp.server.operation.duration and mcp.client.operation.duration are histograms in
// seconds, in which error codes outside of the range that JSON-RPC reserves are _OTHER. The
// durations of sessions are not measured: 2026-07-28 has none.
//
// # What is left out
//
// Arguments, results, URIs and the ids of requests are recorded only where [Options] ask
// for them, the ids of sessions, which are keys to them, never. Names of tools and prompts
// are part of a span's name and of a metric once a call of them has succeeded, at most
// 1,000 of them, so that nobody can make up time series; as an attribute of a span they
// always are, up to 128 bytes. Notifications, and the questions that a server of the
// handshake era puts to its client, have no spans of their own.
//
// # Cost
//
// Where no provider is set, a call costs the middleware 1 allocation of 48 bytes; where
// there is one, and the trace is not sampled, 5 of some 500 bytes, mostly OpenTelemetry's
// own, measured or not. See BenchmarkServer.
//
// [semantic conventions for the Model Context Protocol]: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
package otel
