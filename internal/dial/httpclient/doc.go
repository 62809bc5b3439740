// Package httpclient is the client's side of the HTTP binding. A [Client] connects to Streamable HTTP servers of every
// revision, and a [PairClient] to servers of 2024-11-05, which use a pair of HTTP and SSE. Package client uses it.
package httpclient

// Where the rules are:
//
//   - failure.go: what a status and the text of an error response mean, and which ones may name a lost session;
//     client/client.go asks with a ping whether it is lost (rejectsAll). That a status proves that a call has not run
//     is decided in internal/outbound/unserved.go.
//   - client.go: which responses are valid, and the session id. stream.go: which streams are resumed, how often, and
//     after which pause; the standalone stream. pair.go: the pair of 2024-11-05: its endpoint, and messages in flight
//     when the stream ends.
//   - authorize.go: which requests get credentials, and how often one is sent again with others. cookies.go: which
//     cookies a session keeps. coding.go: compressed responses. transport.go: how long connections stay idle, redirects
//     of POST, and that net/http repeats no request. options.go: redirects, and URLs in errors.
