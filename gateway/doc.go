// Package gateway serves the servers of a host as one server.
//
//	h := &host.Host{Servers: servers}
//	s := &server.Server{Name: "gateway"}
//	g, err := gateway.New(h, s)
//	if err != nil { … }
//	err = g.Serve(ctx, func(ctx context.Context) error { return s.ListenAndServe(ctx, "127.0.0.1:8080") })
//
// Host.Policy decides on the calls. Tools that it always denies to a caller do not appear in the caller's lists.
//
// Tools and prompts are registered under their names in the merged list of the host, such as files__read_text_file for
// the tool read_text_file of the server files; see [host.Tool]. Resources and resource templates keep their URIs, which
// may be any text, unless two servers list the same URI, or have templates that may match the same URIs. In that case,
// the URIs of both get the prefix server:NAME/, as in server:files/file:///notes.txt, or ui://server/NAME/ for pages
// (MCP Apps), and the gateway logs a warning. A template does not serve a URI that another server lists, and a template
// for any scheme, such as {+uri}, serves only URIs that no other template may match. Links, embedded resources,
// contents and pages in the results of a server, and the pages of its tools, are changed in the same way, so that they
// never lead to another server. Resources that a server does not list cannot be read, except for pages and for files of
// skills. Completion requests go to the server of the prompt or template.
//
// With [Gateway.ListBudget], a model searches for tools instead of receiving all definitions, if there are too many.
//
// Everything else in definitions and results is forwarded as the server sends it, including fields that the protocol
// does not define; see mcp.Tool.Source. White space may change. Schemas are used for validation as far as possible, but
// no tool is rejected because of its schema. Subschemas that are true or false become objects, because many clients
// reject a whole list that contains one; see schema.WithoutBooleans. The instructions of the gateway contain the
// servers' instructions.
//
// Lists, and calls of unknown tools, wait for starting servers, until 10 seconds after the start of a server. The
// instructions name the servers whose lists are missing, and the error of a call names its server.
//
// Tools are registered when their server becomes ready. They stay registered when it goes down: a call then starts the
// server again, or returns an error with the name of the server. When the lists of a server change, the lists of the
// gateway change. Clients that subscribe to a resource receive its updates. A single subscription at the server serves
// all clients, and host.Host.Policy decides on the subscription of each client when it begins. With a policy, clients
// can subscribe only to resources that are registered.
//
// The gateway forwards results, errors about the arguments or with a code of the server's own, required URL
// elicitations, progress, cancellation and the program's entries of _meta. Each side may use another revision of the
// protocol.
//
// A server may ask for input while it serves a call: for a form, a URL, a message of the model or the roots. The client
// of that call receives the question, as its revision requires. A client of 2026-07-28 receives it as the result of its
// request; meanwhile the call of a tool waits, see server.Parked, and the request for a prompt or resource is repeated
// with the answer. Messages for the user name the server. The server receives an error if the client does not support
// the question, or if nothing identifies the call: for example, in a session over a byte stream or HTTP+SSE that
// several callers share. A server of 2026-07-28 sees the capabilities of the client of each call. Log messages are
// forwarded in the same way, at the level of the client.
//
// Tools that a server may run as tasks can run as tasks of the gateway, which keeps them for up
// to 24 hours and cancels the server's task with its own.
//
// Every message is checked. A result whose content is text is decoded only if middleware or
// the revision of the client requires it. The ids of requests, sessions and servers on one
// side are never visible on the other.
package gateway

// Where the rules are. The host decides on requests; see host/doc.go:
//
//   - gateway.go: the fields, and what a Toolset selects. view.go and registrations.go decide what is registered at the
//     server for everybody, and under which name; callers.go does so for one caller, and limits the lists and logins of
//     callers.
//   - routes.go decides which server a URI belongs to, when it gets a prefix, and which template wins. hide.go hides
//     what the policy denies to a caller. instructions.go: how long instructions may be.
//   - forward.go forwards a call with its options and its time-out, and decides which calls are tasks. errors.go
//     decides which errors the client sees unchanged. ask.go decides whom a server's question goes to, and approve.go
//     asks for approvals and counts each once.
//   - lazy.go decides how long a call waits for a server that is starting. discovery.go lets models search for tools,
//     and decides when the list is too long.
//   - resource.go, subscription.go, skills.go, apps.go and extension.go do what is special about each: updates, the
//     policy on subscriptions, files of skills that Review rejects, pages, and methods that two servers offer.
