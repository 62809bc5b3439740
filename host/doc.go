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

// What happens in a Host.Call, in this order. Other requests take the same path:
//
//   - host.go has the fields, and roster.go the servers: what a configuration may say, and which changes of it a server
//     survives without a restart (sameConfig).
//   - merged.go finds the server, and the server's name for the tool, by the name in the merged list (naming.go makes
//     these names; lists.go selects and renames, and requests the lists). It waits for servers that may have the name.
//     offer.go knows what each server offers, and to whom, and withholds names that two servers offer.
//   - review.go checks whether the definition is accepted, and which of its fields do not count (declared). The program
//     remembers which ones it has accepted: Host.Review of parley compares them with its lock file.
//   - guard.go, policy.go and approval.go check whether the policy and the approver let the call pass. policy.go
//     decides which rule matches, and what follows if the groups of the caller are not known; approval.go, how long an
//     approval counts. audit.go records it without values. hide.go determines what the policy always denies; gateways
//     leave that out of lists.
//   - hooks.go runs Host.OnRequest and Host.OnResult, which may change the call; the webhooks of parley are two such
//     functions.
//   - supervisor.go starts the server, limits how long that may take (connect), and stops it when it is idle. retry.go
//     decides whether it starts again after a failure, and how soon: at once if it was stable, up to an hour if it
//     rejects the credentials. await.go decides whether a request waits for a server that is starting, or that was lost
//     up to ten seconds ago, and whether it is sent again.
//   - sharing.go decides whose connection serves the call; caller.go, who the caller is. callerheader.go decides which
//     headers of the caller go along. pool.go dials that connection, limits how many there are, and closes it when it
//     is idle or another user needs the place (evict).
//   - client.go sends the request on the client of that connection, and extension.go those of extensions. results.go
//     stores a result that is too large for a model, and says who may read it, and for how long.
//
// When the server sends a message during a call, attribution.go finds the request that it belongs to, and question.go
// passes a question on to the caller of that request or answers it with an error. It says which server asks
// (Attribute), and asks again if a form does not fit. questionguard.go limits what a server may ask, and how often,
// and decides which questions the policy and the approver see. roots.go notifies servers of new roots.
//
// watch.go decides how soon a changed list is requested again, how often one is polled, and whether a server still
// answers; and it limits the subscriptions to resources. callerlists.go keeps lists of servers that depend on the
// caller, and callerlistwatch.go updates them and limits these watches. status.go has the states of a server; search.go
// ranks the tools for a query.
