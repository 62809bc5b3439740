// Package gateway shows the servers of a host to the world as one server.
//
// Every tool of every server is offered under the server's name and its own, with
// two underscores between them:
//
//	h := &host.Host{Servers: servers}
//	s := &server.Server{Name: "gateway"}
//	g := gateway.New(h, s)
//	if err := h.Start(); err != nil { … }
//	go g.Run(ctx)
//	http.ListenAndServe("127.0.0.1:8080", s)
//
// Prompts are named likewise. A resource, or template, keeps its URI, and a read goes to
// the server that has it; where another server has that URI already, it is the URI
// behind "server:", the server's name and a slash, as in server:files/file:///notes.txt.
// What prompts and templates take is completed by their server. What a server does not
// list cannot be read.
//
// Tools appear as their servers come up, and stay when one goes down: a call then
// says which server that is, and has it started again. When a server's lists change, so
// do those here; who is subscribed to a resource hears of its updates. Results, progress
// and cancellation pass through in the revision of either side. Log messages of servers
// do not: most do not say whose call they belong to. Nothing is forwarded as it came:
// each message is decoded, checked and encoded anew, so that what identifies a request,
// a session or a server on one side is never seen on the other.
package gateway
