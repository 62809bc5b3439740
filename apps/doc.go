// Package apps implements MCP Apps, the extension io.modelcontextprotocol/ui: pages of a server, HTML documents that
// show the results of its tools in a host.
//
// A server adds a page with [AddPage], and connects tools with it by [Show]. The host reads the page, shows it in a
// sandboxed frame, and sends it the arguments and the result of each call. Hosts without the extension show the text of
// the result, so a tool with a page also returns text, or a struct, whose JSON is the text.
//
//	apps.AddPage(s, apps.Page{URI: "ui://weather/map", Name: "map"}, html)
//	server.AddTool(s, apps.Show(mcp.Tool{Name: "weather"}, "ui://weather/map"), weather)
//
// A host in Go declares [Extension], asks for the page of a tool with [PageOf], reads it with [Read], and serves it
// with the header that [CSP.Policy] returns. [mcp.Tool.VisibleTo] decides whether it offers a tool to its model, and
// whether a page may call it. The host itself provides the frame, and exchanges messages with the page: see the
// specification at modelcontextprotocol/ext-apps, specification/2026-01-26.
package apps
