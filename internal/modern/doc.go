// Package modern implements 2026-07-28, the stateless era of the protocol. The _meta of
// every request declares the revision and the capabilities of the client, and the server
// keeps no state between requests.
//
// [Server] turns messages into calls. [Client] sends requests. The packages
// internal/httpwire and internal/streamwire bind both to a transport.
package modern
