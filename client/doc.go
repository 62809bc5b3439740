// Package client calls MCP servers, in every revision of the protocol.
//
// [Dial] starts or reaches a server and finds out by itself which revision it
// speaks:
//
//	c, err := client.Dial(ctx, client.Command("npx", "-y", "@modelcontextprotocol/server-everything"))
//	c, err := client.Dial(ctx, client.URL("https://example.com/mcp"))
//
// A [Dialer] is a Dial with settings; its zero value works. The [Client] that they
// return lists and calls tools:
//
//	for tool, err := range c.Tools(ctx) { … }
//	res, err := c.CallTool(ctx, "greet", map[string]any{"name": "Ada"}, client.WithProgress(bar.Set))
//	out, err := client.CallTool[Weather](ctx, c, "weather", City{"Oslo"})
//
// and reads resources, makes prompts and completes their arguments:
//
//	res, err := c.ReadResource(ctx, "file:///project/README.md")
//	prompt, err := c.GetPrompt(ctx, "review", map[string]string{"language": "go"})
//	completion, err := c.Typeahead(ref).Complete(ctx, "language", "py", nil) // on each keystroke
//
// A Client watches what a server offers, in every revision and across reconnects:
//
//	for change, err := range c.Watch(ctx, client.WatchFilter{}) { … }
//
// What servers ask of a client is answered by functions of the [Dialer], and servers are
// told which of them there are:
//
//	d := client.Dialer{
//		Elicit: func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) { … },
//		Roots:  func(ctx context.Context) ([]mcp.Root, error) { … },
//		Auth:   &oauth.Client{Name: "My program", Interaction: &oauth.Loopback{}},
//	}
//
// Its Auth logs in where a server over HTTP wants that: see package auth/oauth. Its
// Middleware wraps every request, with the same type as a server's. A [SupportedExtension] adds
// methods to the protocol, which [CallExtension] calls.
//
// What a connection has learned of its server spares the next one the question: see
// [Discovery]. What a server says is fresh for a while is kept for that long, see [Cache], and asked
// for all the same with [WithRefresh].
//
// A Client outlives its connection. When a server's process has died, or its
// session is gone, the next call starts anew. A call that may have run is never
// sent twice: it ends with [ErrConnectionLost], and the caller decides.
//
// What a server reports is a *jsonrpc.Error, a failed tool is a result with
// IsError (a *[ToolError] from [CallTool]), and everything else is an error of this
// side.
package client
