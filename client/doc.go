// Package client calls MCP servers, in every revision of the protocol.
//
// [Dial] starts a server or connects to one, and discovers which revision it supports:
//
//	c, err := client.Dial(ctx, client.Command("npx", "-y", "@modelcontextprotocol/server-everything"))
//	c, err := client.Dial(ctx, client.URL("https://example.com/mcp"))
//
// A [Client] lists and calls tools:
//
//	for tool, err := range c.Tools(ctx) { … }
//	result, err := c.CallTool(ctx, "greet", map[string]any{"name": "Ada"})
//	weather, err := client.CallTool[Weather](ctx, c, "weather", City{"Oslo"})
//
// A server may run a tool as a task, which outlives the connection. CallTool waits for it.
// [Client.StartTool] returns at once, and [Client.Task] finds the task after the program was
// restarted:
//
//	task, err := c.StartTool(ctx, "build", args)
//	result, err := task.Wait(ctx)
//
// It reads resources, gets prompts and completes their arguments:
//
//	result, err := c.ReadResource(ctx, "file:///project/README.md")
//	prompt, err := c.GetPrompt(ctx, "review", map[string]string{"language": "go"})
//	completion, err := c.Complete(ctx, mcp.CompleteParams{Ref: ref, Argument: argument})
//
// It watches the server's lists and resources:
//
//	for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) { … }
//
// # Settings
//
// The fields of a [Dialer] are the settings of a client. Its zero value works. Some fields are functions that answer
// questions from servers; the client declares a capability for each one that is set:
//
//	d := client.Dialer{
//		Elicit: func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) { … },
//		Auth:   &oauth.Client{Name: "My program", Interaction: &browser.Loopback{}},
//	}
//	c, err := d.Dial(ctx, client.URL("https://example.com/mcp"))
//
// A [CallOption] is a setting of one request:
//
//	result, err := c.CallTool(ctx, "build", args, client.WithProgress(bar.Set), client.WithTimeout(time.Hour))
//
// # Errors
//
// An error that the server reports is a *jsonrpc.Error. If the server did not serve the request because it has reached
// a limit, the error is also a *call.OverloadError, which states how long to wait. A tool that failed is a result with
// IsError, and a *[ToolError] from the function [CallTool]. All other errors arise on the client's side; Dial returns a
// *[DialError].
//
// A Client reconnects: after the server's process has exited or a session has ended, the next
// request starts a new one. The client does not repeat a tool call that may have run. Such a
// call fails with call.ErrConnectionLost.
package client
