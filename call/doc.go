// Package call is for middleware: code that runs around every request that a server handles or
// a client sends.
//
// A [Handler] takes a [Call], which describes one request, and returns its typed result, such
// as *mcp.CallToolResult, or an error. A [Middleware] wraps a Handler. Servers and clients use
// the same types: see Server.Middleware of package server and Dialer.Middleware of package
// client.
//
// [ParamsOf] decodes the params of a call. [LogCalls], [LimitRate] and [RetryRequests] are ready to use.
// Package otel contains middleware for OpenTelemetry.
//
// The package also defines the errors of a client's requests and of a server's handlers.
package call

// Where the rules are:
//
//   - call.go: what middleware may change in a call. errors.go: the errors of clients and of handlers, and what each
//     proves.
//   - log.go: what LogCalls writes. retry.go: which requests RetryRequests repeats, and after which pause.
//     ratelimit.go: who counts as one caller, what is counted, and how replicas count together.
