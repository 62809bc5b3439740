// Package modern is the server's side of 2026-07-28, the stateless era of the protocol. The _meta of every request
// declares the revision and the capabilities of the client, and the server keeps no state between requests.
//
// [Server] turns messages into calls. The packages internal/serve/httpserver and internal/serve/streamserver bind it to
// a transport.
package modern
