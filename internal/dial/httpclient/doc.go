// Package httpclient is the client's side of the HTTP binding. A [Client] connects to servers of Streamable HTTP, of
// every revision, and a [PairClient] to those of 2024-11-05, which have an HTTP+SSE pair. Package client uses it.
//
// client.go and stream.go are Streamable HTTP, pair.go is the pair; options.go, authorize.go and transport.go make the
// requests of both, failure.go the errors.
package httpclient
