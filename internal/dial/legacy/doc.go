// Package legacy is the client's side of the revisions 2024-11-05 to 2025-11-25: the handshake, the questions of the
// server, subscriptions, and tasks that the client runs for the server. [Client] sends requests over any wire.
package legacy
