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
// Every function that decides something about an ordinary tools/call, in the order in which they are called: 42 over
// HTTP in 2026-07-28, 43 in a session, and over a byte stream 32 and 28. What is not named is an accessor, writes an
// error, or does what its name says.
//
// Over HTTP:
//
//  1. ServeHTTP (server/serve.go): builds the server from its fields at the first request (ready).
//  2. ServeHTTP, readAccept, admit (internal/serve/httpserver/endpoint.go, internal/serve/httpserver/header.go): the
//     host, the origin and the type of the body (httpguard.Guard.Check), CORS (addCORSHeaders), the HTTP method, Accept
//     and Content-Encoding. The body is not yet read.
//  3. authenticate (internal/serve/httpserver/authorize.go): who asks.
//  4. post, receive (internal/serve/httpserver/endpoint.go): the size of the body (httpcodec.AppendBody), whether it is
//     one message (jsonrpc.Message.Parse), and of which era (revision.Classify). Only post knows both eras.
//  5. tracker.begin, tracker.enter (internal/serve/httpserver/tracker.go): the time for the body, the number of
//     requests on this server, and whether it is shutting down.
//
// Over HTTP in 2026-07-28:
//
//  6. postModern, acquire (internal/serve/httpserver/modern.go, internal/serve/httpserver/limit.go): the number of
//     requests of the caller.
//
// Over HTTP in a session:
//
//  7. postLegacy, sessionOf (internal/serve/httpserver/session.go): the headers of a session.
//  8. Sessions.Use, adopt (internal/serve/legacy/sessions.go): whose session it is, and what other replicas have
//     changed.
//
// Over HTTP, which calls the methods of [Protocol] in their order:
//
//  9. serve, open (internal/serve/httpserver/response.go): whether the handler can send messages, which makes the
//     response an event stream.
//  10. tracker.watch (internal/serve/httpserver/tracker.go): who keeps the stream alive, and cancels the call in the
//     end.
//
// Over a byte stream, where one goroutine reads at a time:
//
//  11. turn.read, next, receive (internal/serve/streamserver/requests.go): the next message, after what is buffered was
//     sent. Whether it is one message, and its era. Receive calls the methods of [Protocol] up to Begin.
//  12. enqueue (internal/serve/streamserver/queue.go): how many requests run at once, and what waits (awaitSlot). A
//     request that is quick as a rule (isQuick) is served by the goroutine that reads (turn.serve); others by a worker:
//  13. work, connection.serve (internal/serve/streamserver/queue.go): serves a request and writes the response.
//
// Then the era. In 2026-07-28:
//
//  14. NewCall, metadata (internal/serve/modern/server.go): the revision, the client and its capabilities, from _meta.
//  15. PeerCache.Decode (internal/rpc/peercache.go): what the client says about itself, which it repeats.
//  16. Begin, AppendReply (internal/serve/modern/server.go): the call has its context, and over a byte stream its id.
//  17. restore (internal/serve/modern/replay.go): the answers of the rounds before.
//
// Over HTTP in 2026-07-28, called by NewCall:
//
//  18. binding.Check (internal/serve/httpserver/modern.go): the headers must repeat what is in the body.
//
// In a session:
//
//  19. NewCall, Begin, AppendReply (internal/serve/legacy/server.go): the revision and the client are those of the
//     handshake (describe).
//
// In a session or over a byte stream, called by Begin:
//
//  20. Accept, add (internal/rpc/inflight.go): the id is not in flight, and not too many are.
//
// Then the engine, on all paths:
//
//  21. Engine.AppendReply, Serve (internal/rpc/engine.go): panics and Goexit, the context of the handler, and the end
//     of the call. Serve calls the middleware of the program, and inside of it the limits of calls:
//  22. LimitRate, take (call/ratelimit.go): whether the caller has a token.
//  23. dispatch, resolve (internal/rpc/engine.go): the call belongs to the request. The revision has the method
//     (revision.FromClient), and which scopes all requests, the method and the target need. auth.Require decides,
//     before any error of the target.
//  24. features.Resolve (server/methods.go): the server or an extension has the method.
//  25. resolveTool (server/toolcall.go), by findFor: the tool that the caller can see. This target is authorized and
//     serves the call; nobody looks the name up again.
//  26. findFor (server/catalogs.go): looks in all catalogs of the caller.
//  27. callTool (server/toolcall.go): the arguments are an object (argumentsOf) and equal to what headers repeat
//     (CheckMirror). From here code of the program may run (Call.Ran). Whether the call becomes a task (callTask,
//     server/taskcall.go) or may wait (callParked, server/parked.go).
//  28. undecodedResult (server/toolcall.go): panics and Goexit of the tool. An error is a result for the model, or one
//     of the protocol (IsProtocolError). The result fits the output schema, and may have this _meta (checkMeta).
//  29. addTool (server/tool.go): the function in it decodes the arguments and validates them (schema.Schema.Decode),
//     runs the handler, and makes its value a result.
//  30. Finish (internal/rpc/notify.go): nothing more is sent for the call.
//  31. appendOutcome, appendResult (internal/rpc/engine.go): the encoding of the result (revision.AppendResult) or of
//     the error, in the revision of the client.
//
// In 2026-07-28, called by dispatch:
//
//  32. Finish (internal/serve/modern/replay.go): the result, or the questions for the client.
//
// In a session or over a byte stream, called by AppendReply:
//
//  33. End (internal/rpc/inflight.go): the request is no longer in flight; it has no response if the client has
//     cancelled it.
//
// And back. Over HTTP:
//
//  34. outcomeOf, respond (internal/serve/httpserver/response.go): the status. The response is JSON, the only event
//     (respondOnly), or the last event of a stream that has begun.
//  35. reply (internal/serve/httpserver/reply.go): writes the body.
//  36. eventStream.end (internal/serve/httpserver/events.go): the response ends.
//  37. tracker.leave (internal/serve/httpserver/tracker.go): the request is no longer one of this server.
//
// Over HTTP in a session:
//
//  38. Release (internal/serve/legacy/sessioncache.go): the use of the session ends.
//
// Over a byte stream:
//
//  39. written (internal/serve/streamserver/connection.go): whether the client still receives anything.
package rpc

// Where the rules are that the path does not show:
//
//   - protocol.go: what transports call, in which order. feature.go: how methods are found. engine.go: middleware,
//     scopes, panics. call.go: one call, its context, and who may still send for it.
//   - inflight.go: how many requests and subscriptions one peer may have; ids in use. abandoned.go: what is displaced
//     if a limit is reached (the users: internal/tasks/places.go, internal/dial/legacy).
//   - errorresponse.go: which error a peer receives, and which texts stay private. storefailure.go: time-outs of the
//     store, how long a call waits for it, and what clients are told.
//   - caller.go: what a client can be asked. inputrequest.go: which methods may ask, the keys of questions, and
//     questions that are forwarded together. round.go: state between the rounds of a call. requiredurl.go: URLs that a
//     handler requires, and how often Done is polled. Questions to a client of this program are limited in
//     internal/outbound/inputlimit.go.
//   - notify.go: notifications, progress that must increase, and the limit of log messages. mirror.go: headers that
//     repeat parameters. peercache.go: what is cached of clients.
//   - encoded.go: results that middleware shares. forwarding.go: results of other servers, and buffers (race.go,
//     norace.go).
