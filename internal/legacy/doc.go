// Package legacy implements the revisions 2024-11-05 to 2025-11-25. A handshake agrees on a
// revision and on capabilities, and begins a session.
//
// [Server] and [Session] are the server side, [Client] is the client side. [Sessions]
// stores the sessions of transports whose connections are shorter than a session.
package legacy
