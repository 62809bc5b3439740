// Package outbound sends requests to the peer of one connection. [Requests] keeps the requests in flight, with their
// ids, time-outs, progress and cancellation. Clients use it, and so do servers of the handshake era when they ask their
// clients. A [Chain] is the middleware of a client's requests, a [Wire] carries the messages.
//
// # The path of a client's request
//
// Dialing, in package client: Dialer.Dial; which era the server has (client/fallback.go over HTTP, client/probe.go on a
// byte stream); what is remembered about it (client/discovery.go); the process of a command, whose environment
// internal/childenv decides.
//
// A request, in this order:
//
//  1. Client.request (client/client.go): the connection (Client.connected, client/link.go), which is made again if it
//     was lost, and whether the request may be repeated.
//  2. The middleware of the program ([Chain]), then the era: internal/dial/modern (params._meta; the rounds of
//     questions in internal/dial/modern/mrtr.go) or internal/dial/legacy (the session). client/answer.go answers
//     the questions of either, at most 16 at the same time ([LimitInput]).
//  3. [Requests.Do]: the id, the time-outs, the progress, notifications/cancelled when the context ends, and whether an
//     error, or an HTTP status, proves that the peer has not acted on the request (provesUnserved in unserved.go).
//  4. The [Wire]: internal/dial/streamclient writes a line. internal/dial/httpclient posts
//     (internal/dial/httpclient/client.go), with credentials (internal/dial/httpclient/authorize.go), and reads a body
//     or an event stream, which it resumes if it breaks off (internal/dial/httpclient/stream.go).
//  5. A response above Dialer.MaxMessage is skipped where it is read: a body in httpcodec.AppendBody, an event in
//     httpcodec.EventReader, a line in package transport. The request fails with a [TooLargeError] or, over HTTP, with
//     the error that responseError (internal/dial/httpclient/failure.go) returns.
//  6. client/decode.go and client/output.go: whether the result is what its revision and the output schema promise.
//
// A message of the peer that belongs to a request is found by [Requests.OriginOf]; handlers of questions and log
// messages get the context of that request.
package outbound

// Where the rules are:
//
//   - requests.go: sends, and gives up; messages that arrive. request.go: what one request says, and messages that are
//     invalid or too large. pending.go: its time-outs, what extends them, and queued progress. timeouts.go: the timer,
//     and pauses while a user is asked.
//   - unserved.go: which errors prove that the peer has not acted on a request (provesUnserved), with HTTP statuses.
//     overload.go: which errors report overload, and how long a client waits. Whether a request is then repeated:
//     client/client.go.
//   - cancel.go: how long a client tries to send notifications/cancelled. subscription.go: to which subscription a
//     notification belongs, and its end.
//   - inputlimit.go: how many questions of a server may be open and are answered at a time.
//   - origin.go: to which request a message of the peer belongs, on connections that people share, too. chain.go:
//     middleware. result.go: results for middleware and for Go types. taskchanges.go: changes of tasks that arrive too
//     early.
