// Package legacy is the era of the handshake, 2024-11-05 to 2025-11-25: a client
// and a server agree on a revision and on capabilities first, and what follows
// belongs to that session.
//
// [Server] and [Session] are the serving half, [Client] is the calling half.
// [Sessions] keeps the sessions of transports whose connections do not last as
// long as a session does.
package legacy
