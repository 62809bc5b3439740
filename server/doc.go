// Package server offers tools, resources and prompts to MCP clients, in every
// revision of the protocol.
//
// A [Server] is a struct with a useful zero value:
//
//	s := &server.Server{Name: "greeter", Version: "1.0.0"}
//	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Say hello"},
//		func(ctx context.Context, in Greeting) (string, error) {
//			return "Hello, " + in.Name + "!", nil
//		})
//	log.Fatal(s.Run(context.Background()))
//
// # Serving
//
// [Server.Run] serves standard input and output, for clients that start the program.
// A Server is also an http.Handler: one endpoint for the stateless requests of
// 2026-07-28, the sessions of the revisions before it and the event stream of the
// first. [Server.ServeConn] serves any other connection. All of them may be used at
// the same time, and [Server.Shutdown] ends them gracefully.
//
// # Offering
//
// [AddTool] takes a handler with types: the input schema is inferred from its
// argument, which is validated before the handler sees it, and a struct that it
// returns becomes structured content with an output schema. [AddResource],
// [AddStatic], [AddTemplate] and [AddFS] offer data, [AddPrompt] offers prompts, and
// [CompletePrompt] and [CompleteTemplate] suggest what a user may type for them.
// These panic on a programming error, which shows at the start of the program. Each
// has a counterpart for what is not known before, which returns errors:
// [Server.RegisterTool], [Server.RegisterResource], [Server.RegisterTemplate],
// [Server.RegisterPrompt] and [Server.RegisterCompleter]. Everything may come and go
// while the server serves; clients that want to know are told. What only the program can
// know has changed is told by [Server.ResourceUpdated] and [Directory]. Anything may be for
// some callers only: see [VisibleTo].
//
// # Handling
//
// A handler's context belongs to one call. [Progress] and [Logger] tell the client
// how it is going, [PeerOf] and [PrincipalOf] tell who is asking. [Elicit],
// [ElicitURL], [Sample] and [Roots] ask the client, and the handler need not know
// how: on a session it waits for the answer, in 2026-07-28 it runs again with the
// answer in hand, so that whatever must happen once belongs in [Once]. [Ask] asks several
// things at the same time. The context ends when the client cancels the call. Losing the connection cancels it in 2026-07-28
// only: on a session the call goes on, and what it sends is held for a client that comes
// back. [CloseStream] sends the client away meanwhile.
//
// A tool's error is for the model to read; a *jsonrpc.Error is one of the protocol.
// A panic ends the call and not the program, and what it says stays in
// [Server.Logger].
//
// # Around the handlers
//
// Server.Middleware wraps every call, of whatever method; package call has some: logs,
// timing, limits on rates. Server.ListCache, Server.DiscoverCache and [Cached] tell
// clients how long to keep what they get. [AddExtension] adds methods of your own to the
// protocol, for clients that declare them.
//
// Processes with the same Server.Keys can go on with each other's lists, and with calls of
// 2026-07-28 that wait for input.
//
// # Safety
//
// The zero value is the cautious one. What clients send is bounded ([Limits]), web
// pages of other origins are refused over HTTP, and nothing is remembered of a
// client that it has not said in the same request or session.
//
// [Server.Auth] asks for access tokens over HTTP, on every way in alike; whatever the
// server keeps for a caller then belongs to who the token says it is. [RequireScopes]
// says what a tool, prompt or resource needs beyond that, and [VisibleTo] to whom it is
// shown at all. On standard input the program decides what its client may:
// [Server.LocalScopes].
package server
