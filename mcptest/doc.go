// Package mcptest helps to test MCP servers.
//
// [Dial] connects a client to a server in memory, for as long as a test lasts:
//
//	func TestGreet(t *testing.T) {
//		c := mcptest.Dial(t, newServer())
//		text, err := client.CallTool[string](t.Context(), c, "greet", map[string]string{"name": "Ada"})
//		…
//	}
//
// A function given to it changes how it dials, to speak an older revision
// ([Revision]) or to answer what the server asks:
//
//	c := mcptest.Dial(t, newServer(), mcptest.Revision(mcp.V20250618), func(d *client.Dialer) {
//		d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
//			return mcp.AcceptElicit(map[string]any{"day": "tue"})
//		}
//	})
//
// [Everywhere] runs a test on every transport of every revision, which is what keeps
// a server working for clients that are not the newest. [OverHTTP] and [OverSocket]
// are two of these transports by themselves, [Transports] is the list.
package mcptest
