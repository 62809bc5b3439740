// Package httpserver is the server's side of the HTTP binding. A [Server] serves all revisions on one endpoint:
// stateless requests of 2026-07-28, sessions of 2025-03-26 to 2025-11-25, and the HTTP+SSE pair of 2024-11-05.
package httpserver

// Where the rules are:
//
//   - server.go: the fields; what counts as one address. endpoint.go: which requests are rejected before the era is
//     known, with which status. header.go: Accept, and headers that handlers may read. cors.go: web pages.
//     authorize.go: who the caller is, and when a stream ends because its token does.
//   - tracker.go: requests on this server, the time for a body, and keep-alive comments. limit.go: stateless requests
//     of one caller, and 429 or 503. modern.go: headers that must repeat the body. session.go: requests, batches and
//     the handshake of a session; which errors of sessions are 404. How many sessions there may be:
//     internal/serve/legacy/quota.go.
//   - response.go: the status of a response (outcomeOf), and whether it is JSON or an event stream. reply.go: bodies,
//     Retry-After, and time-outs for reading and writing. answer.go: the stream of a call that outlives its connection,
//     and when its client has left. events.go: event streams, and when a writer waits for a slow reader. connection.go:
//     streams that end before their handler.
//   - sessionstream.go: how much is logged for clients that resume, and for how long. streams.go: which streams can be
//     resumed. getstream.go: Last-Event-ID, pings, and errors of resuming. standalone.go: the stream of a session
//     without requests, and replicas that take it over. follow.go: streams of calls at another replica. logentry.go:
//     the entries. logfailure.go: events that could not be logged.
//   - pair.go: HTTP with SSE of 2024-11-05: its limits, and the time for the handshake.
