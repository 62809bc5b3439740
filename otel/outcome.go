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

// outcome is the outcome of a call.
type outcome struct {
	errorType     string // empty for a call that did not fail
	code          string // the JSON-RPC code of the error, or empty
	unbounded     bool   // the code is outside the range that JSON-RPC reserves, where a peer can use any number
	message       string // the description of the status
	inputRequired bool   // the result is input_required
	nameExists    bool   // the peer knows the tool or prompt that the call names
}

const (
	maxMessage = 256     // the limit for the description of a status, in bytes
	maxContent = 4 << 10 // the limit for arguments and results, in bytes
)

// panicked is the outcome of a call that panics; the response is an internal error.
var panicked = outcome{errorType: internalError, code: internalError, message: "internal error"}

var internalError = strconv.FormatInt(jsonrpc.CodeInternalError, 10)

func (i *instrument) outcomeOf(ctx context.Context, c *call.Call, result any, err error) outcome {
	var o outcome
	switch {
	case err != nil && i.kind == trace.SpanKindClient:
		o.clientError(err)
	case err != nil:
		o.serverError(c, err)
	default:
		o.nameExists = true
		o.inputRequired = isInputRequired(result)
		if c.Method() == mcp.MethodCallTool && !o.inputRequired && toolFailed(result) {
			o.errorType = "tool_error"
		}
	}
	if o.errorType != "" && ctx.Err() != nil { // the end of the context caused the error
		o.errorType = contextErrorType(context.Cause(ctx))
	}
	return o
}

// serverError sets the outcome of a call that a server answers with an error. An error that rejects an invalid request
// is not a failure of the server.
func (o *outcome) serverError(c *call.Call, err error) {
	var reported *jsonrpc.Error
	var missing *call.CapabilityError
	code, message := int64(jsonrpc.CodeInternalError), "internal error" // the response for an error of any other type
	switch {
	case errors.As(err, &reported) && reported != nil:
		code, message = reported.Code, reported.Message
	case errors.As(err, &missing):
		code, message = jsonrpc.CodeInvalidRequest, missing.Error()
		if c.Revision().Modern() {
			code = mcp.CodeMissingCapability
		}
	}
	o.setCode(code)
	switch code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams,
		mcp.CodeResourceNotFound:
	default:
		o.errorType, o.message = o.code, shortened(message, maxMessage)
	}
}

// clientError sets the outcome of a call that returns an error to its caller.
func (o *outcome) clientError(err error) {
	var reported *jsonrpc.Error
	var status *call.StatusError
	switch {
	case errors.As(err, &reported) && reported != nil:
		o.setCode(reported.Code)
		o.errorType, o.message = o.code, shortened(reported.Message, maxMessage)
	case errors.As(err, &status):
		o.errorType = strconv.Itoa(status.Status)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		o.errorType = contextErrorType(err)
	case errors.Is(err, call.ErrClosed):
		o.errorType = "closed"
	case errors.Is(err, call.ErrConnectionLost), errors.Is(err, call.ErrNotSent):
		o.errorType = "connection_lost"
	case errors.Is(err, call.ErrInvalidResponse):
		o.errorType = "invalid_response"
	case errors.Is(err, call.ErrRevision):
		o.errorType = "revision"
	default:
		o.errorType = "_OTHER"
	}
}

func (o *outcome) setCode(code int64) {
	o.code = strconv.FormatInt(code, 10)
	o.unbounded = code < -32768 || code > -32000
}

func contextErrorType(cause error) string {
	if errors.Is(cause, context.DeadlineExceeded) {
		return "timeout"
	}
	return "cancelled"
}

// attributes returns the attributes of the span.
func (o *outcome) attributes() []attribute.KeyValue {
	var all []attribute.KeyValue
	if o.code != "" {
		all = append(all, statusCode.String(o.code))
	}
	if o.errorType != "" {
		all = append(all, errorType.String(o.errorType))
	}
	if o.inputRequired {
		all = append(all, parleyOutcome.String(mcp.ResultTypeInputRequired))
	}
	return all
}

// metricAttributes returns the attributes of the measurement. The number of their values is bounded.
func (o *outcome) metricAttributes() []attribute.KeyValue {
	bounded := *o
	if bounded.unbounded {
		if bounded.errorType == bounded.code {
			bounded.errorType = "_OTHER"
		}
		bounded.code = "_OTHER"
	}
	return bounded.attributes()
}

func isInputRequired(result any) bool {
	_, ok := result.(*mcp.InputRequiredResult)
	return ok
}

// toolFailed reports whether isError is set in the result of a tool.
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

// describe adds the attributes that are specific to the request, not shared by its operation.
func (i *instrument) describe(span trace.Span, c *call.Call, req request) {
	if req.key.name != "" && !req.hasName {
		span.SetAttributes(nameAttribute(c.Method(), shortened(req.key.name, maxName)))
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

// recordResult adds the result of a tool that succeeded.
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

// shortened cuts s to at most limit bytes of valid UTF-8.
func shortened(s string, limit int) string {
	return strings.ToValidUTF8(s[:min(len(s), limit)], "")
}
