// Package server offers tools, resources and prompts to MCP clients of every revision of the
// protocol.
//
// A [Server] is a struct with a useful zero value:
//
//	s := &server.Server{Name: "greeter", Version: "1.0.0"}
//	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Greet a person by name"},
//		func(ctx context.Context, in Greeting) (string, error) {
//			return "Hello, " + in.Name + "!", nil
//		})
//	server.Main(s)
//
// The guide to this package is in docs/guide of the repository.
//
// # Serving
//
// [Main] is the main function of a program that is one server. It serves the client that started
// the program on standard input and output, or HTTP when the program runs at a terminal or with
// the flag -http. [Server.Run] serves standard input and output, [Server.ListenAndServe] serves HTTP, and
// [Server.ServeConn] serves any other connection. A Server is also an [http.Handler]: one MCP
// endpoint for all revisions. All of these may be used at the same time. [Server.Shutdown] ends
// them gracefully. [Server.Check] reports errors in the fields of a Server.
//
// # Tools, resources and prompts
//
// [AddTool] adds a tool with a typed handler. The input schema is inferred from the handler's
// argument type, and arguments are validated before the handler runs. Tags of its fields, such as
// enum:"red,blue" and minimum:"1", refine the schema: see package schema. A returned struct becomes
// structured content with an output schema. [AddResource], [AddStatic], [AddTemplate] and
// [AddFS] add resources, and [AddPrompt] adds prompts. These functions panic on a programming
// error, so that it shows when the program starts. An [Option] says who sees an entry, whether a
// tool runs as a task, and how arguments are completed.
//
// Each has a counterpart with an untyped handler, for definitions that are known only at run
// time. The counterparts return errors instead of panicking: [Catalog.RegisterTool],
// [Catalog.RegisterResource], [Catalog.RegisterTemplate] and [Catalog.RegisterPrompt].
//
// Tools, resources, templates and prompts can be added and removed while the server serves, and
// subscribed clients are notified. [Catalog.ResourceUpdated] and [Directory] notify them of
// changed contents. [VisibleTo] hides a tool, resource or prompt from some callers.
//
// # Handlers
//
// Handlers run concurrently, even for one client, so they must protect what they share. The context of a handler
// belongs to one call. It ends when the client cancels the call. [Progress] and [Logger] report to the client.
// [PrincipalOf] and [call.From] describe the caller.
//
// [Elicit], [ElicitURL], [Sample] and [Roots] ask the client a question, and return the answer. [Ask] asks several
// questions at once. In a session the server sends a request to the client, and the handler waits for the response. In
// 2026-07-28 the call ends with the question as its result, and the client sends the call again with the answer. The
// handler then runs again from its beginning, and receives the answer at once. Use [Once] for work that must not be
// repeated.
//
// When a connection is lost, its calls are cancelled, with one exception: over HTTP, a call of a
// session since 2025-03-26 continues, and its messages are stored until the client reconnects.
//
// # Errors of handlers
//
// The client receives the error of a handler in one of these forms:
//
//   - A *jsonrpc.Error, wrapped or not, is sent unchanged.
//   - A *[call.CapabilityError], an *auth.ScopeError and a *[call.URLRequiredError], wrapped or
//     not, become the protocol's errors for a missing capability, missing scopes and a
//     required URL. If a revision has no such error, the client receives the text.
//   - Any other error of a tool becomes a tool error: a result with isError, whose text the
//     model reads.
//   - Any other error of a prompt, a resource or an extension becomes an internal error
//     without text. The text is logged.
//
// A panic ends the call and not the program. Its value is logged. The client receives a tool
// error or an internal error that does not contain the value.
//
// # Middleware, caching and extensions
//
// Server.Middleware wraps every call, whatever its method. Package call has middleware for logs,
// timing and rate limits. Server.ListCache and [Cached] set how long
// clients may cache responses. [AddExtension] adds methods to the protocol for clients that
// declare the extension.
//
// # Catalogs
//
// A [Catalog] contains what a server offers. A Server embeds one for all callers, and Server.Catalogs returns further
// ones for some callers, such as those of one tenant, session or plug-in. [AddTool] and the other functions add to a
// Server or to a Catalog. Nobody else learns what such a catalog contains. [VisibleTo] and [RequireScopes] restrict
// single entries of a catalog.
//
// # Several replicas
//
// Replicas of a server that receive requests of the same clients must share some fields. With
// the same Server.Keys, a client can continue a list, or a call of 2026-07-28 that waits for an
// answer, on any replica. With the same Server.Store, it can continue a session, [Once] works across
// replicas, and the clients of every replica are notified of changes of lists and resources.
//
// # Security
//
// The defaults are the safe choices. [Limits] bounds the messages, requests and sessions of
// clients. Over HTTP, a request from a web page of another origin is rejected.
//
// Server.Auth requires access tokens over HTTP, in every revision. A session, and any other
// state that the server stores for a caller, can then be used only by the same principal.
// [RequireScopes] sets the scopes that a tool, prompt or resource needs. Callers on standard
// input have the scopes in Server.LocalScopes.
package server

// Where the rules are. internal/rpc/doc.go follows a tools/call through them:
//
//   - server.go: the fields and their limits, with the defaults. core.go: what is built from them, and the rate limits.
//     serve.go: how clients connect, and how long a shutdown waits. terminal.go: when Main serves HTTP.
//   - methods.go: which methods there are. toolcall.go, prompt.go, resource.go, completion.go: how each is served. In
//     toolcall.go, arguments and results must fit their schemas, and an error is a result or one of the protocol.
//     context.go: what handlers may call.
//   - tool.go: which tools can be added, and how Go values become results. conform.go: nulls and quoted JSON in
//     arguments and forms. notsecret.go: which parameters look like secrets, so that no header may repeat them.
//     forwardtool.go: tools of other servers, whose schemas may be wrong.
//   - resource.go: URIs, contents, and who learns of an update. template.go: which of several templates serves a URI
//     (compareSpecific). uritemplate.go: whether one matches, and its limits. parameter.go: the types of its variables,
//     and of the arguments of prompts. files.go: the files of a directory: which paths are rejected, sizes, types.
//   - params.go: misspelled fields of params, null for nothing, and the keys that a program may send in _meta.
//   - catalog.go, entries.go: what is offered, and who is told of a change. catalogs.go: which catalogs a caller has,
//     and which one wins. options.go: to whom an entry is visible, scopes, and caching. describe.go: the capabilities,
//     per caller.
//   - lists.go: which entries a list has, in which order, its pages and cursors (for whom they are valid).
//   - ask.go, elicit.go: questions of handlers: how often one is repeated, and how long a user may take at a URL.
//     relay.go: questions and messages that a gateway passes on. logging.go: levels, and records that are too long. The
//     time-outs of questions in sessions are in internal/serve/legacy/inputrequests.go, the rounds in
//     internal/serve/modern/replay.go.
//   - longcall.go: calls that outlive their request, and once.go: work that must not be repeated. parked.go: calls that
//     wait for an answer. task.go: which tools are tasks, for how long, and which run again in another process.
//     taskcall.go: which calls become tasks. taskmethods.go: who may read, list and cancel one. Limits: internal/tasks.
//   - subscribe.go: who may subscribe. follow.go: how many resources are followed. Limits: internal/changes/limits.go.
//     extension.go: methods of extensions, and for which clients.
//   - replicas.go, replicamessages.go: what replicas tell each other, which messages are repeated, and what follows if
//     some are lost.
//
// The limits of requests and sessions apply elsewhere: internal/serve/httpserver/limit.go (HTTP),
// internal/rpc/inflight.go (a session or stream), internal/serve/legacy/quota.go (sessions), call/ratelimit.go (rates).
// The HTTP status of an error is chosen in internal/serve/httpserver/response.go.
