// Package host runs the clients of several MCP servers.
//
// A [Host] starts or dials all of its servers at the same time and keeps one client
// for each. [Host.Tools] returns the tools of all servers in one list, with unique
// names, and [Host.Call] calls a tool by its name in that list:
//
//	h := &host.Host{Servers: []host.ServerConfig{
//		{Name: "files", Target: client.Command("npx", "-y", "@modelcontextprotocol/server-filesystem", dir)},
//		{Name: "search", Target: client.URL("https://example.com/mcp")},
//	}}
//	if err := h.Start(); err != nil { … }
//	defer h.Close()
//	if err := h.WaitReady(ctx); err != nil {
//		log.Print(err) // the servers that failed; the others can be used
//	}
//	for _, tool := range h.Tools() {
//		fmt.Println(tool.Name, tool.Definition.Description)
//	}
//	result, err := h.Call(ctx, "files__read_text_file", map[string]any{"path": "notes.txt"})
//
// A server that fails does not affect the others. [Host.WaitReady], [Host.Status],
// [Host.Watch] and the log report it. The Host starts or dials it again until it is
// ready. After each failure in a row it waits longer before the next attempt, from one
// second up to one minute, or up to five seconds if the server is over HTTP and was ready.
// Calls made in that time fail with a [DownError]; for ten seconds after the loss of a
// server they wait for it.
//
// By default a Host sends every request. [Host.Policy] decides which requests are sent, and which only if
// [Host.Approve] approves them. [Host.OnRequest] and [Host.OnResult] can change requests and results, [Host.Review]
// withholds definitions that are new or have changed, and [Host.Audit] handles a record of each decision. They apply
// to the methods of the Host and to the requests that a gateway forwards.
package host

// The path of Host.Call, in this order; other requests are like it:
//
//   - catalog.go: the server and its name of the tool, from the name in the merged list (naming.go makes them).
//     offer.go: what each server offers, and to whom; which names are withheld because two servers offer them.
//   - review.go: whether the definition is accepted. What was accepted before, the program knows: Host.Review of parley
//     compares with its lock file.
//   - guard.go, policy.go, approval.go, audit.go: whether the policy and the approver let it pass, and its record.
//     hide.go: what the policy always denies, which gateways leave out of lists.
//   - hooks.go: what Host.OnRequest and Host.OnResult may change; the webhooks of parley are two such functions.
//   - supervisor.go: the server, how long it may take to start (connect), and when it is idle. retry.go: whether it
//     starts again after a failure, and how soon: at once if it was stable. await.go: whether a request waits for a
//     server that is starting, or was lost up to ten seconds ago.
//   - sharing.go: whose connection it uses. pool.go: that connection, which is dialled, bounded, and closed when idle.
//   - client.go: the request on the client of that connection. results.go: a result that is too large for a model.
//
// A message of the server on the way: attribution.go decides whose request it belongs to, question.go passes it on to
// the caller of that request or answers it with an error, roots.go and inputrequest.go limit what is asked. Lists of
// servers that depend on the caller are in callerlists.go; callerlistwatch.go keeps them up to date.
