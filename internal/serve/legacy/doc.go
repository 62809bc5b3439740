// Package legacy is the server's side of the revisions 2024-11-05 to 2025-11-25. A handshake agrees on a
// revision and on capabilities, and begins a session.
//
// A [Server] has a [Session] for each client. [Sessions] stores the sessions of transports whose connections are
// shorter than a session.
package legacy
