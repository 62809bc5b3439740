// Package httpserver is the server's side of the HTTP binding. A [Server] serves all revisions on one endpoint:
// stateless requests of 2026-07-28, sessions of 2025-03-26 to 2025-11-25, and the HTTP+SSE pair of 2024-11-05.
package httpserver
