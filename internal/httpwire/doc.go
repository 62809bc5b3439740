// Package httpwire is the HTTP binding of the protocol, for servers and clients. A
// [Server] serves all revisions on one endpoint: stateless requests of 2026-07-28, sessions
// of 2025-03-26 to 2025-11-25, and the HTTP+SSE pair of 2024-11-05. A [Client] connects to
// Streamable HTTP servers, a [PairClient] to those of 2024-11-05.
package httpwire
