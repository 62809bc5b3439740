// Package httpclient is the client's side of the HTTP binding. A [Client] connects to Streamable HTTP servers of every
// revision, and a [PairClient] to servers of 2024-11-05, which use a pair of HTTP and SSE. Package client uses it.
//
// Streamable HTTP is in client.go and stream.go, the pair in pair.go. Both send their requests with options.go,
// authorize.go and transport.go; failure.go contains the errors.
package httpclient
