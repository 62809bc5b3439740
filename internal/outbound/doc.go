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
//     the questions of either.
//  3. [Requests.Do]: the id, the time-outs, the progress, and notifications/cancelled when the context ends.
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
