// Package httpclient is the client's side of the HTTP binding. A [Client] connects to Streamable HTTP servers of every
// revision, and a [PairClient] to servers of 2024-11-05, which use a pair of HTTP and SSE. Package client uses it.
//
// client.go and stream.go are Streamable HTTP, pair.go is the pair; options.go, authorize.go and transport.go make the
// requests of both, failure.go the errors.
package httpclient
