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

// Where the rules are. internal/outbound/doc.go follows a request through them:
//
//   - dialer.go: the fields, time-outs and their defaults. option.go: which option applies to which request. dial.go:
//     how a target is dialled; when a process is started again. dialerror.go: what a user is advised.
//   - Which era a server has: fallback.go over HTTP, probe.go on a byte stream (how long it waits for an answer, and
//     which older revision is offered). discovery.go: what is remembered of it, and when that is given up.
//   - client.go: whether a request is repeated, and when a session counts as lost. link.go: the connection, when a new
//     one is made, keep-alive, and when a silent server counts as lost.
//   - tools.go: calls of tools. mirror.go: parameters that headers repeat. resources.go: resources, prompts,
//     completions and roots. extension.go: methods of extensions. logging.go: the level of a session.
//   - list.go: when a list ends although it has a cursor, which entries are left out, and its limits. cache.go: what is
//     cached, for how long and for whom, and what a change drops (dropChanged). watch.go: when a watch begins again,
//     and which resources a server refuses.
//   - decode.go: what is dropped from a wrong result, and which icons. output.go: whether a result fits its output
//     schema, and when the tools are listed again for that.
//   - answer.go: which capabilities the client declares, and its answers to questions. contain.go: panics in functions
//     of the program. How many questions are answered at a time is limited in internal/outbound/inputlimit.go, and how
//     many wait in a session in internal/dial/legacy/questions.go.
//   - task.go: tasks, and the limit of their questions. taskwait.go: waits for one: when it polls next (pollInterval),
//     which failures it outlasts, and the progress. taskwire.go: the requests about a task and the notifications of
//     changes. taskchoice.go: which calls the client makes tasks (2025-11-25).
//
// What an HTTP status means is decided in internal/dial/httpclient/failure.go, and whether it proves that a request was
// not served in internal/outbound/unserved.go; how an event stream is resumed, in internal/dial/httpclient/stream.go.
