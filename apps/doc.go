// Package apps implements MCP Apps, the extension io.modelcontextprotocol/ui: pages of a server, HTML documents that
// show the results of its tools in a host.
//
// A server adds a page with [AddPage], and connects tools with it by [Show]. The host reads the page, shows it in a
// sandboxed frame, and sends it the arguments and the result of each call. Hosts without the extension show the text of
// the result, so a tool of a page returns text, too, or a struct, whose JSON is the text.
//
//	apps.AddPage(s, apps.Page{URI: "ui://weather/map", Name: "map"}, html)
//	server.AddTool(s, apps.Show(mcp.Tool{Name: "weather"}, "ui://weather/map"), weather)
//
// A host that is written in Go declares [Extension], asks for the page of a tool with [PageOf], reads it with [Read],
// and serves it with the header that [CSP.Policy] returns. It offers a tool to its model, and lets a page call it, if
// [mcp.Tool.VisibleTo] says so. The frame, and the messages between the page and the host, are the host's own: see the
// specification, which is at modelcontextprotocol/ext-apps, specification/2026-01-26.
package apps
