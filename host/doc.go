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
