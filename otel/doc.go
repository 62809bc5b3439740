// Package otel records the calls of servers and clients with OpenTelemetry, following the
// [semantic conventions for the Model Context Protocol], which are in development as of 2026.
//
// It is middleware for both roles:
//
//	s := &server.Server{Middleware: []call.Middleware{mcpotel.Server(mcpotel.Options{})}}
//	d := &client.Dialer{Middleware: []call.Middleware{mcpotel.Client(mcpotel.Options{TracerProvider: provider})}}
//
// A program that also uses go.opentelemetry.io/otel imports this package under another name, here mcpotel.
//
// Put it first in the list: it measures the middleware that follows. [Options] set the providers and the propagator;
// the default is OpenTelemetry's global ones. The global propagator does nothing unless the program sets it. See
// the example of the package on pkg.go.dev.
//
// # Spans
//
// A span is one request: "tools/call greet", "prompts/get review", "resources/read". A span of a client has the kind
// CLIENT and ends with the final result, after all rounds of input requests. A span of a server has the kind SERVER;
// each round has its own. Trace context travels in the _meta of requests, in every revision, in the fields of the
// configured propagators, so the spans of one call belong to one trace on any transport. A span of the transport, such
// as an HTTP server's span, becomes a link. Attributes are named as in the conventions, except for parley.outcome,
// which is "input_required" for a round that ended with input requests.
//
// A failed request has the attribute error.type and the status Error. A request fails if it ends with an error; on a
// server, errors that reject an invalid request do not count. A tool call also fails if its result says so
// ("tool_error"). The type of an error without a JSON-RPC code is cancelled, timeout, connection_lost, closed,
// invalid_response, revision, an HTTP status or _OTHER.
//
// # Metrics
//
// mcp.server.operation.duration and mcp.client.operation.duration are histograms in seconds. Error codes outside the
// range that JSON-RPC reserves are recorded as _OTHER. There are no metrics of sessions, because 2026-07-28 has no
// sessions.
//
// # What is not recorded
//
// Arguments, results, URIs and request ids are recorded only if [Options] enable them. Session ids are never recorded,
// because they grant access to sessions. The names of a span and of its metrics contain the name of a tool or prompt
// only after a call of it has succeeded, for at most 1,000 names, so that clients cannot create time series. An
// attribute of the span always contains the name, cut to 128 bytes. Notifications, and requests that a server sends to
// a client in a session, get no spans.
//
// # Cost
//
// Without providers, the middleware adds 1 allocation of 48 bytes to a call. With a provider whose trace is not
// sampled, it adds 5 allocations of about 500 bytes, most of them in OpenTelemetry. See BenchmarkServer.
//
// [semantic conventions for the Model Context Protocol]:
// https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
package otel
