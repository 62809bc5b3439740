// Package streamserver is the server of a byte stream: standard input and output, a socket, memory. One stream carries
// messages of both eras. [Server.Serve] serves one connection.
package streamserver

// Where the rules are:
//
//   - server.go: how long requests may run after the end of the input, and in a shutdown. connection.go: what is
//     written after an error. requests.go: messages that are malformed or too large, batches and pings.
//   - queue.go: how many requests run and wait, and which are rejected while the client is asked. pace.go: which are
//     quick enough for the goroutine that reads. turn.go: when another goroutine goes on reading, and when responses
//     are flushed.
//   - notifications.go: notifications of the session, and when pings are sent (internal/serve/legacy/pinger.go decides
//     who is lost).
