package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// CallTool calls a tool. arguments is a value that encodes to a JSON object, or nil for
// none; a json.RawMessage is sent unchanged. The time-out is Timeouts.Tool.
//
// A tool that failed is a result with IsError, not an error. An error that the server
// reports is a *jsonrpc.Error, for instance for an unknown tool. After the time-out the error
// is a *call.TimeoutError, after the end of ctx its cause, and the server is notified of the
// cancellation. If the connection is lost, the error is call.ErrConnectionLost, and the tool may
// have run.
//
// If the server runs the tool as a task, CallTool waits for its end, as [Task.Wait] does, but no
// longer than Timeouts.Max. The time-out then limits how long the requests about the task may
// fail. If CallTool gives up, it cancels the task; [Task.Wait] does not. In 2025-11-25 it waits
// for up to one second for the response that creates the task, whose id it needs; in 2026-07-28 it
// cancels the request. The error is a *[TaskError] if the outcome of a task is unknown. See
// [WithProgress] for the progress of a task.
//
// CallTool does not repeat a call that may have run. It repeats a call that the server
// rejected because of its headers, if the tool's schema has changed, and one that requires a
// URL elicitation, after Dialer.ElicitURL has reported the user's consent. In 2025-11-25 it also
// repeats a call that was rejected because the tool must run as a task, or must not.
//
// If the tool was listed, CallTool validates the structured content against the tool's output schema; see
// [Client.Tools]. If they do not match, the error is an *[OutputError], which contains the result. Before that, it
// lists the tools again if the last list is older than a minute. It logs a schema that is invalid or takes too long,
// and then does not check the result.
func (c *Client) CallTool(ctx context.Context, name string, arguments any,
	options ...CallOption) (*mcp.CallToolResult, error) {
	o, err := optionsOf(options, toolRequest, c.dialer.Timeouts.Tool)
	if err != nil {
		return nil, fmt.Errorf("tools/call %s: %w", name, err)
	}
	raw, task, err := c.sendToolCall(ctx, name, arguments, o, o.taskCreated != nil)
	if err == nil && task != nil {
		if o.taskCreated != nil {
			o.taskCreated()
		}
		if raw, err = task.awaitCall(ctx); err != nil {
			err = withMethod(mcp.MethodCallTool, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return c.toolResult(ctx, name, raw, o)
}

// sendToolCall sends a call. It returns the result, or the task that will produce it.
// preferTask reports whether the program prefers a task.
func (c *Client) sendToolCall(ctx context.Context, name string, arguments any, o callOptions,
	preferTask bool) (json.RawMessage, *Task, error) {
	params, err := callParams(name, arguments)
	if err != nil {
		return nil, nil, err
	}
	mirror, err := c.mirror(name, params)
	if err != nil {
		return nil, nil, fmt.Errorf("tools/call %s: %w", name, err)
	}
	if c.choosesTasks() && c.supports.of(name) == "" && !c.relist(ctx, name) && ctx.Err() == nil {
		c.supports.learn([]mcp.Tool{{Name: name}}) // an unlisted tool cannot run as a task
	}
	asTask, acceptTask := c.runsAsTask(name, preferTask), preferTask || c.dialer.waitsForTasks()
	var forwarding *rpc.Forwarding // nil if the caller or a middleware may keep the result
	if o.undecodedText && c.dialer.sending == nil {
		forwarding = rpc.ForwardingOf(ctx)
	}
	progress := c.newTaskProgress(o)
	var req *outbound.Request
	var on *link
	send := func() (json.RawMessage, error) {
		sending, stop := ctx, context.CancelFunc(func() {})
		if asTask || preferTask { // the response may contain the ID of a task to cancel
			sending, stop = outlast(ctx, abandonTimeout)
		}
		defer stop()
		return c.request(sending, func(l *link) *outbound.Request {
			on = l
			req = &outbound.Request{
				Method: mcp.MethodCallTool, Params: params, Name: name, Mirror: mirror, Meta: o.meta,
				Capabilities: o.capabilities,
				LogLevel:     o.logLevel, AcceptTask: acceptTask && l.revision.Modern(),
				Timeout: o.timeout, MaxTimeout: c.dialer.Timeouts.Max, OnProgress: progress.reporter(),
				Forwarding: forwarding,
			}
			if asTask && revision.CoreTasks.In(l.revision) {
				req.AcceptTask, req.Params = true, withTask(params)
				// tasks/cancel must be used instead of notifications/cancelled (2025-11-25,
				// basic/utilities/cancellation).
				req.Uncancellable = true
			}
			return req
		}, false)
	}
	raw, err := send()
	if req != nil && !req.MayHaveRun && isHeaderMismatch(err) {
		var changed bool
		if mirror, changed = c.mirrorAnew(ctx, name, params, mirror); changed {
			raw, err = send()
		}
	}
	if isTaskMismatch(err) {
		c.supports.forget(name) // the tool may have changed; the next call lists it
	}
	switch {
	case err != nil && (asTask || preferTask) && ctx.Err() != nil:
		return nil, nil, withMethod(mcp.MethodCallTool, context.Cause(ctx))
	case err != nil:
		return nil, nil, err
	}
	r, created := on.revision, req.TaskCreated
	if req.AcceptTask && !r.Modern() { // a server that does not support tasks ignores params.task
		_, created = jsonrpc.MembersOf(raw).Get("task")
	}
	if !created {
		return raw, nil, nil
	}
	saving, stop := outlast(ctx, abandonTimeout)
	defer stop()
	task, err := c.createdTask(saving, name, raw, r, o)
	if err == nil && progress != nil {
		progress.link, progress.token, task.progress = on, req.Token, progress
	}
	if err == nil && ctx.Err() != nil { // the response came after the end of ctx
		task.abandon(ctx)
		return nil, nil, withMethod(mcp.MethodCallTool, &TaskError{task.id, context.Cause(ctx)})
	}
	return nil, task, err
}

// outlast returns a context that ends grace after ctx does.
func outlast(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(context.Cause(ctx))
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		cancel(nil)
	}
}

// withTask adds the request for a task to the params of tools/call (2025-11-25).
func withTask(params []byte) []byte {
	return append(append(make([]byte, 0, len(params)+12), params[:len(params)-1]...), `,"task":{}}`...)
}

// toolResult decodes and validates the result of a tool.
func (c *Client) toolResult(ctx context.Context, name string, raw json.RawMessage,
	o callOptions) (*mcp.CallToolResult, error) {
	result, err := c.decodeToolResult(name, raw, o)
	if err != nil {
		return nil, err
	}
	if err := c.checkOutput(ctx, name, result); err != nil {
		return nil, err
	}
	return result, nil
}

// decodeToolResult decodes the result of a tool. raw must be valid JSON.
func (c *Client) decodeToolResult(name string, raw json.RawMessage, o callOptions) (*mcp.CallToolResult, error) {
	if o.undecodedText {
		if result, ok := revision.DecodeExceptText(raw); ok {
			return result, nil
		}
	}
	result := new(mcp.CallToolResult)
	raw, err := c.decode(mcp.MethodCallTool, name, raw, false, result)
	if err != nil {
		return nil, err
	}
	c.filterLinks(result.Content)
	if o.keepSource {
		result.Source = raw
	}
	return result, nil
}

// callParams encodes the params of tools/call.
func callParams(name string, arguments any) ([]byte, error) {
	params := jsonrpc.AppendString(append(make([]byte, 0, 128), `{"name":`...), name)
	if arguments != nil {
		raw, isRaw := arguments.(json.RawMessage)
		if !isRaw || !isValidObject(raw) {
			var err error
			if raw, err = schema.MarshalArguments(arguments); err != nil {
				return nil, fmt.Errorf("tools/call %s: cannot encode the arguments: %w", name, err)
			}
		}
		if len(raw) == 0 || raw[0] != '{' {
			return nil, fmt.Errorf("tools/call %s: the arguments must encode to a JSON object, not %.20s", name, raw)
		}
		params = append(append(params, `,"arguments":`...), raw...)
	}
	return append(params, '}'), nil
}

// isValidObject reports whether raw can be sent as it is. The scan costs less than encoding.
func isValidObject(raw []byte) bool {
	return len(raw) > 0 && raw[0] == '{' && jsonrpc.Check(raw, jsonrpc.Limits{}) == nil
}

// ToolError is the error of the function [CallTool] for a tool that failed.
type ToolError struct {
	Tool   string
	Result *mcp.CallToolResult // with IsError set
}

// Error returns the text of the result.
func (e *ToolError) Error() string {
	return fmt.Sprintf("tool %s failed: %s", e.Tool, outbound.TextOf(e.Result))
}

// CallTool calls a tool, as [Client.CallTool] does, and decodes its result into Out: the
// structured content if there is any, otherwise the text. If Out is string, it receives the
// text unchanged; otherwise the text must be JSON. If the tool failed, the error is a
// *[ToolError].
func CallTool[Out any](ctx context.Context, c *Client, name string, arguments any, options ...CallOption) (Out, error) {
	var out Out
	result, err := c.CallTool(ctx, name, arguments, options...)
	if err != nil {
		return out, err
	}
	if result.IsError {
		return out, &ToolError{Tool: name, Result: result}
	}
	return outbound.DecodeTool[Out](name, result)
}
