// Package server offers tools, resources and prompts to MCP clients of every revision of
// the protocol.
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
// # Serving
//
// [Main] is the main function of a program that is one server: it serves standard input and
// output for the client that started the program, or HTTP when it runs at a terminal.
// [Server.Run] serves standard input and output, [Server.ListenAndServe] HTTP, and
// [Server.ServeConn] any other connection. A Server is also an [http.Handler]: one endpoint
// for the stateless requests of 2026-07-28, the sessions of the revisions before it, and the
// event stream of 2024-11-05. All of these may be used at the same time.
// [Server.Shutdown] ends them gracefully. [Server.Check] finds errors in the configuration.
//
// # Tools, resources and prompts
//
// [AddTool] adds a typed handler. The input schema is inferred from the handler's argument
// type, and arguments are validated before the handler runs. A returned struct becomes
// structured content with an output schema. [AddResource], [AddStatic], [AddTemplate] and
// [AddFS] add resources, [AddPrompt] adds prompts, and [CompletePrompt] and
// [CompleteTemplate] add completion for their arguments. These functions panic on a
// programming error, so that it shows when the program starts.
//
// Each has a counterpart that takes a schema and a handler of raw JSON and returns an error:
// [Server.RegisterTool], [Server.RegisterResource], [Server.RegisterTemplate],
// [Server.RegisterPrompt] and [Server.RegisterCompleter]. Entries can be added and removed
// while the server serves, and subscribed clients are notified. [Server.ResourceUpdated] and
// [Directory] notify them of changes to the contents. [VisibleTo] hides an entry from some
// callers.
//
// # Handlers
//
// The context of a handler belongs to one call, and ends when the client cancels the call.
// [Progress] and [Logger] report to the client. [PeerOf] and [PrincipalOf] describe the
// caller. [Elicit], [ElicitURL], [Sample] and [Roots] send a request to the client and return
// its answer; [Ask] sends several at once. In a session the handler waits for the answer. In
// 2026-07-28 the call ends with the question, and the handler runs again when the client
// retries the call with the answer, so put work that must be done only once into [Once].
//
// When the connection is lost, the call is cancelled in 2026-07-28. In a session it goes on,
// and its messages are kept until the client reconnects. [CloseStream] disconnects the client
// of a long call on purpose.
//
// The error of a tool is text for the model. A *jsonrpc.Error is a protocol error. A panic
// ends the call and not the program; its text is written to Server.Logger only.
//
// # Middleware, caching and extensions
//
// Server.Middleware wraps every call, whatever its method. Package call has middleware for
// logs, timing and rate limits. Server.ListCache, Server.DiscoverCache and [Cached] set how
// long clients may cache responses. [AddExtension] adds methods to the protocol for clients
// that declare the extension.
//
// Servers that share Server.Keys accept each other's list cursors and each other's calls of
// 2026-07-28 that wait for input.
//
// # Security
//
// The zero value is the safe one. [Limits] bounds the messages, requests and sessions of
// clients. Over HTTP, requests of web pages of other origins are rejected.
//
// Server.Auth requires access tokens over HTTP, in every revision. What the server stores for
// a caller then belongs to the principal of the token. [RequireScopes] sets the scopes that a
// tool, prompt or resource needs. Clients on standard input have Server.LocalScopes.
package server
