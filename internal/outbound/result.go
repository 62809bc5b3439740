package outbound

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/contain"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// newResult returns a new result of a request that a client sends in revision r, or nil if the
// protocol does not define the method.
func newResult(method string, r mcp.Revision) any {
	switch method {
	case mcp.MethodInitialize:
		return new(mcp.InitializeResult)
	case mcp.MethodDiscover:
		return new(mcp.DiscoverResult)
	case mcp.MethodListTools:
		return new(mcp.ListToolsResult)
	case mcp.MethodCallTool:
		return new(mcp.CallToolResult)
	case mcp.MethodListResources:
		return new(mcp.ListResourcesResult)
	case mcp.MethodListResourceTemplates:
		return new(mcp.ListResourceTemplatesResult)
	case mcp.MethodReadResource:
		return new(mcp.ReadResourceResult)
	case mcp.MethodListPrompts:
		return new(mcp.ListPromptsResult)
	case mcp.MethodGetPrompt:
		return new(mcp.GetPromptResult)
	case mcp.MethodComplete:
		return new(mcp.CompleteResult)
	case mcp.MethodListen:
		return new(mcp.ListenResult)
	case mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodSubscribe, mcp.MethodUnsubscribe, mcp.MethodUpdateTask:
		return new(mcp.EmptyResult)
	case mcp.MethodGetTask:
		if r.Modern() {
			return new(mcp.GetTaskResult)
		}
		return new(mcp.LegacyGetTaskResult)
	case mcp.MethodCancelTask:
		if r.Modern() {
			return new(mcp.EmptyResult)
		}
		return new(mcp.LegacyGetTaskResult)
	case mcp.MethodTaskResult: // the client sends no other request as a task
		return new(mcp.CallToolResult)
	}
	return nil
}

// decodeResult decodes the result of a request that a client has sent in revision r. It returns
// nil for the results of extensions, except for those of tasks.
func decodeResult(req *Request, r mcp.Revision, raw json.RawMessage) (any, error) {
	result := newResult(req.Method, r)
	if req.AnyResultType || result == nil {
		return nil, nil
	}
	if req.AcceptTask && !r.Modern() {
		if _, ok := jsonrpc.MembersOf(raw).Get("task"); ok {
			result = new(mcp.LegacyCreateTaskResult)
		}
	}
	if kind, ok := jsonrpc.Get(raw, "resultType"); ok {
		switch jsonrpc.Unquote(kind) {
		case mcp.ResultTypeComplete:
		case mcp.ResultTypeTask:
			result = new(mcp.CreateTaskResult)
		default:
			return nil, nil
		}
	}
	if _, _, err := contain.Decode(raw, result); err != nil { // the client logs what was left out
		return nil, fmt.Errorf("%w: %s: cannot decode the result: %w", call.ErrInvalidResponse, req.Method, err)
	}
	return result, nil
}

// DecodeTool decodes the result of a tool that has not failed: the structured content if there is any, otherwise the
// text. If structured content {"result": …} does not fit Out, DecodeTool decodes the inner value: before 2026-07-28,
// a value that was not an object was wrapped like this.
func DecodeTool[Out any](name string, result *mcp.CallToolResult) (Out, error) {
	var out Out
	if text, ok := any(&out).(*string); ok && result.StructuredContent == nil {
		*text = TextOf(result)
		return out, nil
	}
	raw := []byte(result.StructuredContent)
	if raw == nil {
		raw = []byte(TextOf(result))
	}
	if err := schema.Decode(raw, &out); err != nil {
		if value, ok := revision.UnwrapValue(result.StructuredContent); ok {
			var unwrapped Out
			if schema.Decode(value, &unwrapped) == nil {
				return unwrapped, nil
			}
		}
		return out, fmt.Errorf("%w: tools/call %s: cannot decode the result into %T: %w", call.ErrInvalidResponse, name,
			out,
			err)
	}
	return out, nil
}

// TextOf joins the text contents of a result with line breaks.
func TextOf(result *mcp.CallToolResult) string {
	var texts []string
	for _, content := range result.Content {
		if t, ok := content.(*mcp.TextContent); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// unanswered is the error of a request for which the peer asked for input that this side could not give.
type unanswered struct {
	text string
	err  error // error of the handler on this side
}

// Unanswered returns the error of a request for which the peer asked a question, as text says, that could not be
// answered because of err. It wraps err, except for errors about other requests: the caller must not conclude that
// its own connection was lost, or its own request not sent.
func Unanswered(text string, err error) error { return &unanswered{text, err} }

// Error implements the error interface.
func (e *unanswered) Error() string { return e.text + ": " + e.err.Error() }

// Is compares target with the error of the handler.
func (e *unanswered) Is(target error) bool {
	for _, other := range []error{call.ErrNotSent, call.ErrConnectionLost, call.ErrClosed, call.ErrUnauthorized,
		ErrUnserved} {
		if errors.Is(target, other) {
			return false
		}
	}
	return errors.Is(e.err, target)
}

// As finds the error of the handler.
func (e *unanswered) As(target any) bool {
	switch target.(type) {
	case **jsonrpc.Error, **call.StatusError, **call.TimeoutError, **call.OverloadError, **Rejected:
		return false
	}
	return errors.As(e.err, target)
}
