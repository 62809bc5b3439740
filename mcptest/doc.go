// Package mcptest helps to test MCP servers.
//
// [Dial] connects a client to a server in memory for the duration of a test:
//
//	func TestGreet(t *testing.T) {
//		c := mcptest.Dial(t, newServer())
//		text, err := client.CallTool[string](t.Context(), c, "greet", map[string]string{"name": "Ada"})
//		…
//	}
//
// Functions configure the client's Dialer. They can select an older revision
// ([WithRevision]) or answer the questions of the server:
//
//	c := mcptest.Dial(t, newServer(), mcptest.WithRevision(mcp.V20250618), func(d *client.Dialer) {
//		d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
//			return mcp.AcceptElicit(map[string]any{"day": "tue"})
//		}
//	})
//
// The caller is principal.Local, even if Auth of the server is set. Over HTTP, such a server requires a token: set
// Dialer.Header or Dialer.Auth.
//
// [Everywhere] runs a test in every revision on every transport, which shows that older clients work, too. [DialHTTP]
// connects over HTTP alone, and [Transports] lists the transports.
package mcptest
