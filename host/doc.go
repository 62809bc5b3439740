// Package host keeps many MCP servers at once, each behind a client.
//
// A [Host] dials all of its servers when it starts, at the same time. One that
// does not start, or dies, is reported ([Host.Status], [Host.Watch], the log) and
// does the others no harm:
//
//	h := &host.Host{Servers: []host.Server{
//		{Name: "files", Target: client.Command("npx", "-y", "@modelcontextprotocol/server-filesystem", dir)},
//		{Name: "search", Target: client.URL("https://example.com/mcp")},
//	}}
//	if err := h.Start(); err != nil { … }
//	defer h.Close()
//	result, err := h.CallTool(ctx, "files", "read_text_file", map[string]any{"path": "notes.txt"})
//
// A server that is down is started or dialled again when somebody calls one of its
// tools, and not for nothing: between attempts that fail, and after a server that
// dies soon after each start, a pause grows from one second to one minute, during
// which calls fail at once with a [DownError].
package host
