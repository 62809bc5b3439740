// Package rpc serves requests, below the public package call.
//
// A [Call] is one request that this side serves. It embeds the public call.Call and adds what
// the implementation needs: the stream for notifications, input requests, subscriptions. The
// context of a handler carries it ([From]). An [Engine] serves calls: it runs the middleware,
// checks the scopes and finds the handler of the method. [Inflight] has the calls of one peer.
// A [Protocol] is a client by the rules of its era. Package outbound is the other direction.
//
// # The path of a request
//
// What decides what about a tools/call, in this order. First the binding, over HTTP
// (internal/serve/httpserver):
//
//  1. server.Server.ServeHTTP builds the server from its fields, at the first request (ready).
//  2. Server.ServeHTTP and admit: the host, the origin and CORS (Guard), the access token
//     (authenticate), the headers of a POST (checkPost).
//  3. Server.post and receive: the size of the body and its time, the number of requests.
//     jsonrpc.Message.Parse: whether it is one message. revision.Classify: of which era.
//  4. postModern counts the requests of the caller (limiterFor). postLegacy finds the session
//     (Sessions.Use). Both call serve, where the eras meet.
//
// On a byte stream (internal/serve/streamserver) a connection has one goroutine that reads:
//
//  1. turn.receive: one message or a batch, and its era.
//  2. turn.enqueue, awaitSlot and work: the order of requests, and how many run at once.
//
// Then the era, which implements [Protocol]: modern.Peer or legacy.Session.
//
//  5. NewCall: the revision, the client and its capabilities, from _meta or from the session.
//     Over HTTP, binding.Check compares them with the headers.
//  6. Begin: the id is not in flight ([Inflight.Accept]). In 2026-07-28 over HTTP it restores
//     the answers of the previous round.
//  7. AppendReply calls [Engine.AppendReply], unless the era answers by itself.
//
// Then the engine:
//
//  8. [Engine.Serve]: panics and Goexit; the context of the handler; the middleware of the
//     program, and inside of it the limits of calls (call.LimitRate).
//  9. dispatch and resolve: whether the revision has the method, the scopes of the method.
//     Feature.Resolve (server.features) finds the target: resolveTool checks the names of the
//     params and finds the tool that the caller can see, with its scopes. auth.Require decides.
//  10. The target serves the call: callTool checks the arguments that headers repeat, and
//     whether the call becomes a task or may wait. undecodedResult runs the handler of the tool,
//     which validates and decodes the arguments (schema.Schema.Decode), and checks the result.
//  11. InputRequester.Finish: the result, or the questions for the client.
//
// And back:
//
//  12. appendOutcome encodes the result, or the error, for the revision (revision.AppendResult).
//  13. Server.respond and answerStream.respond send it: as JSON with the status of outcomeOf, or
//     as the last event of the stream. On a byte stream, connection.serve writes one line.
package rpc
