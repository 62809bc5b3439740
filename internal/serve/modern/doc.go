// Package modern is the server's side of 2026-07-28, the stateless era of the protocol. The _meta of every request
// declares the revision and the capabilities of the client, and the server keeps no state between requests.
//
// [Server] turns messages into calls. The packages internal/serve/httpserver and internal/serve/streamserver bind it to
// a transport.
package modern

// Where the rules are:
//
//   - server.go: what _meta must contain, and which of several faults is reported first.
//   - replay.go: the rounds of a call that asks: how many there may be, which answers count, and to which request a
//     state belongs. statestore.go: states that are too large for a client: sizes, how many, and how long.
//   - listen.go: subscriptions: what is acknowledged, and what ends one.
//
// The HTTP status of an error is chosen in internal/serve/httpserver/response.go.
