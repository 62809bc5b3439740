// Package rpc serves requests, below the public package call.
//
// A [Call] is one request that this side serves. It embeds the public call.Call and adds what the implementation needs:
// the stream for notifications, input requests, subscriptions. The context of a handler carries it ([From]). An
// [Engine] serves calls: it runs the middleware, checks the scopes and finds the handler of the method. [Inflight]
// keeps the calls of one peer. A [Protocol] represents the client by the rules of its era. Package outbound is the
// other direction.
//
// # The path of a request
//
// What decides what about a tools/call, in this order. What is not named here is an accessor, writes an error, or does
// what its name says. First the binding, over HTTP (internal/serve/httpserver):
//
//  1. server.Server.ServeHTTP: builds the server from its fields at the first request (ready).
//  2. Server.ServeHTTP, admit: the host, the origin and the type of the body (httpguard.Guard.Check), CORS
//     (addCORSHeaders), who asks (authenticate), the HTTP method, Accept and Content-Encoding. The body is not yet
//     read.
//  3. post, receive: the time for the body (tracker.begin), its size (httpcodec.AppendBody), the number of requests on
//     this server and whether it is shutting down (tracker.enter).
//  4. jsonrpc.Message.Parse: whether the body is one message. revision.Classify: of which era. This is the only place
//     that knows both.
//  5. postModern: the number of requests of the caller (limiterFor, acquire). postLegacy: whose session it is
//     (sessionOf, legacy.Sessions.Use; Release ends the use).
//  6. serve: calls the methods of [Protocol] in their order. Before, open: whether the handler can send messages,
//     which makes the response an event stream. After, respond, below.
//
// On a byte stream (internal/serve/streamserver) one goroutine reads at a time:
//
//  1. turn.read, turn.next: the next message, after what is buffered was sent.
//  2. turn.receive: whether it is one message, and its era; calls the methods of [Protocol] up to Begin.
//  3. turn.enqueue: how many requests run at once, and what waits (awaitSlot). A request that is quick as a rule
//     (pace.isQuick) is served by the goroutine that reads (turn.serve); others by a worker (work, connection.serve).
//
// Then the era, a [Protocol]: modern.Server or legacy.Session.
//
//  7. NewCall: the revision, the client and its capabilities. In 2026-07-28 from _meta (metadata), and the headers
//     must repeat what is in the body (Binding.Check). In a session from its handshake (describe).
//  8. Begin: the id is not in flight, and not too many are (Inflight.Accept). A request over HTTP in 2026-07-28 has
//     its own ids.
//  9. AppendReply: in 2026-07-28 the answers of the rounds before (restore). Then [Engine.AppendReply]: ends the
//     request for [Inflight], and appends nothing if the client has cancelled it.
//
// Then the engine:
//
//  10. [Engine.Serve]: panics and Goexit, the context of the handler, and the end of the call (Finish). It calls the
//     middleware of the program, and inside of it the limits of calls (call.LimitRate).
//  11. dispatch: the call belongs to the request. resolve: the revision has the method (available), and which scopes
//     all requests, the method and the target need. auth.Require decides, before any error of the target.
//  12. features.Resolve (server): the server or an extension has the method. resolveTool: the tool that the caller can
//     see (findFor). This target is authorized and serves the call; nobody looks the name up again.
//  13. callTool (server/toolcall.go): the arguments are an object (argumentsOf) and equal to what headers repeat
//     (CheckMirror). From here code of the program may run (Call.Ran). Whether the call becomes a task (callTask,
//     server/taskcall.go) or may wait (callParked, server/parked.go).
//  14. undecodedResult (server/toolcall.go): panics and Goexit of the tool. Its handle validates and decodes the
//     arguments (schema.Schema.Decode), runs the handler, and makes its value a result. An error is a result for the
//     model, or one of the protocol (IsProtocolError). The result fits the output schema (checkOutput), and may have
//     this _meta (checkMeta).
//  15. InputRequester.Finish: the result, or the questions for the client.
//
// And back:
//
//  16. appendOutcome, appendResult: the encoding of the result (revision.AppendResult) or of the error, in the
//     revision of the client.
//  17. Over HTTP, outcomeOf: the status. respond: as JSON (respondJSON, reply), as the only event (respondOnly), or as
//     the last event of a stream that has begun; then the response ends (eventStream.end), and the request is no
//     longer in flight (tracker.leave). On a byte stream, connection.serve writes one line; turn.respond buffers it.
package rpc
