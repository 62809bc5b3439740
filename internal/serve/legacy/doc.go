// Package legacy is the server's side of the revisions 2024-11-05 to 2025-11-25. A handshake agrees on a
// revision and on capabilities, and begins a session.
//
// A [Server] has a [Session] for each client. [Sessions] stores the sessions of transports whose connections are
// shorter than a session.
package legacy

// Where the rules are:
//
//   - server.go: which requests are valid before and after the handshake, pings, and how much of a client is stored.
//     handshake.go: which revision is agreed on, and the log level. batch.go: batches, and which are rejected.
//   - sessions.go: which session exists, whose it is, and how long it lives idle. quota.go: how many one owner may
//     have, and which one ends if there are too many (displace). sessioncache.go: which stay in memory, and when those
//     in use are renewed. storedsession.go: writes at several replicas, and sessions that expire soon. state.go: what
//     is stored, and how much.
//   - inputrequests.go: how long a client may take to answer a question, which questions are tasks of the client, and
//     when these are polled. pinger.go: when a client counts as lost, over every transport.
//   - notifications.go: notifications without a request: how many wait, and which are dropped. subscriptions.go: what a
//     session subscribes to. replicas.go: what the other replicas are told, and which one has the stream.
