package otel

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// ending is how a call ended.
type ending struct {
	errorType string // empty: it has not failed
	code      string // of the error that was answered with; empty for none
	unbounded bool   // code is of a range without bounds
	message   string // that goes with it
	question  bool   // input is required
	proves    bool   // there is what the call named
}

// maxMessage bounds a status's description, and maxContent arguments and results, in bytes.
const (
	maxMessage = 256
	maxContent = 4 << 10
)

// panicked is what a call ends with that does not return: see call.Engine.
var panicked = ending{errorType: internalError, code: internalError, message: "internal error"}

var internalError = strconv.FormatInt(jsonrpc.CodeInternalError, 10)

// judge says how a call ended.
func (i *instrument) judge(ctx context.Context, c *call.Call, result any, err error) ending {
	var e ending
	switch {
	case err != nil && i.kind == trace.SpanKindClient:
		e.failedThere(err)
	case err != nil:
		e.failedHere(c, err)
	default:
		e.proves = true
		e.question = asks(result)
		if c.Method() == mcp.MethodCallTool && !e.question && toolFailed(result) {
			e.errorType = "tool_error"
		}
	}
	if e.errorType != "" && ctx.Err() != nil { // whatever came of it
		e.errorType = givenUp(context.Cause(ctx))
	}
	return e
}

// failedHere is for what a server answers with: not all of it is the server's failure.
func (e *ending) failedHere(c *call.Call, err error) {
	var reported *jsonrpc.Error
	var missing *call.CapabilityError
	code, message := int64(jsonrpc.CodeInternalError), "internal error" // as call.Engine says of others
	switch {
	case errors.As(err, &reported) && reported != nil:
		code, message = reported.Code, reported.Message
	case errors.As(err, &missing):
		code, message = jsonrpc.CodeInvalidRequest, missing.Error()
		if c.Revision().Modern() {
			code = mcp.CodeMissingCapability
		}
	}
	e.answered(code)
	switch code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, mcp.CodeResourceNotFound:
	default:
		e.errorType, e.message = e.code, shortened(message, maxMessage)
	}
}

// failedThere is for what a client is left with.
func (e *ending) failedThere(err error) {
	var reported *jsonrpc.Error
	var status *call.StatusError
	switch {
	case errors.As(err, &reported) && reported != nil:
		e.answered(reported.Code)
		e.errorType, e.message = e.code, shortened(reported.Message, maxMessage)
	case errors.As(err, &status):
		e.errorType = strconv.Itoa(status.Status)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e.errorType = givenUp(err)
	case errors.Is(err, call.ErrClosed):
		e.errorType = "closed"
	case errors.Is(err, call.ErrConnectionLost), errors.Is(err, call.ErrNotSent):
		e.errorType = "connection_lost"
	case errors.Is(err, call.ErrInvalidResponse):
		e.errorType = "invalid_response"
	case errors.Is(err, call.ErrRevision):
		e.errorType = "revision"
	default:
		e.errorType = "_OTHER"
	}
}

// answered notes the code of an error. Outside of the range that JSON-RPC reserves, a peer
// can have any number of them.
func (e *ending) answered(code int64) {
	e.code = strconv.FormatInt(code, 10)
	e.unbounded = code < -32768 || code > -32000
}

func givenUp(cause error) string {
	if errors.Is(cause, context.DeadlineExceeded) {
		return "timeout"
	}
	return "cancelled"
}

func (e *ending) attributes() []attribute.KeyValue {
	var all []attribute.KeyValue
	if e.code != "" {
		all = append(all, statusCode.String(e.code))
	}
	if e.errorType != "" {
		all = append(all, errorType.String(e.errorType))
	}
	if e.question {
		all = append(all, outcome.String(mcp.ResultTypeInputRequired))
	}
	return all
}

// measured is what of an ending is told apart in a metric.
func (e *ending) measured() []attribute.KeyValue {
	told := *e
	if told.unbounded {
		if told.errorType == told.code {
			told.errorType = "_OTHER"
		}
		told.code = "_OTHER"
	}
	return told.attributes()
}

func asks(result any) bool {
	_, ok := result.(*mcp.InputRequiredResult)
	return ok
}

// toolFailed reports whether a tool says that it has failed.
func toolFailed(result any) bool {
	switch result := result.(type) {
	case *mcp.CallToolResult:
		return result != nil && result.IsError
	case json.RawMessage:
		failed, _ := jsonrpc.Get(result, "isError")
		return string(failed) == "true"
	}
	return false
}

// describe records what is known of a call when it begins, beside its operation.
func (i *instrument) describe(span trace.Span, c *call.Call, asked asked) {
	if asked.key.name != "" && !asked.known {
		span.SetAttributes(named(c.Method(), shortened(asked.key.name, maxName)))
	}
	if i.RequestIDs && !c.ID().IsZero() {
		span.SetAttributes(requestID.String(shortened(strings.Trim(c.ID().String(), `"`), maxName)))
	}
	if i.ResourceURIs {
		switch c.Method() {
		case mcp.MethodReadResource, mcp.MethodSubscribe, mcp.MethodUnsubscribe:
			if uri, ok := c.Params().Get("uri"); ok {
				span.SetAttributes(resourceURI.String(shortened(jsonrpc.Unquote(uri), maxContent)))
			}
		}
	}
	if i.Content && c.Method() == mcp.MethodCallTool {
		if arguments, ok := c.Params().Get("arguments"); ok && len(arguments) <= maxContent {
			span.SetAttributes(callArguments.String(string(arguments)))
		}
	}
}

// recordResult records what a tool has answered, if it has succeeded.
func recordResult(span trace.Span, result any) {
	var raw []byte
	switch result := result.(type) {
	case *mcp.CallToolResult:
		if result != nil {
			raw, _ = json.Marshal(result)
		}
	case json.RawMessage:
		raw = result
	}
	if len(raw) > 0 && len(raw) <= maxContent && !toolFailed(result) {
		span.SetAttributes(callResult.String(string(raw)))
	}
}

// shortened is s, up to a bound, as valid UTF-8.
func shortened(s string, bound int) string {
	return strings.ToValidUTF8(s[:min(len(s), bound)], "")
}
