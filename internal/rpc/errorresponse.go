package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// errInternal is the response for errors whose text is private to the program.
var errInternal = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}

// ErrorOf returns the error that the peer receives for err. It logs an error that is not for the peer, because that can
// contain anything.
func (e *Engine) ErrorOf(ctx context.Context, c *Call, err error) *jsonrpc.Error {
	if IsStoreFailure(err) || errors.Is(err, ErrStoreUnavailable) {
		// of Memory; other stores log their failures
		if errors.Is(err, store.ErrFull) && !errors.As(err, new(*StoreError)) {
			e.overloads.Log(ctx, e.logger(), slog.LevelError, "the store is full", slog.String("method", c.Method()),
				slog.Any("error", err))
		}
		c.Overload = ErrStoreUnavailable
		return StoreFailure
	}
	var overload *call.OverloadError
	if errors.As(err, &overload) {
		c.Overload = overload
		return e.Overloaded(ctx, c.Method(), overload)
	}
	var protocol *jsonrpc.Error
	if errors.As(err, &protocol) {
		switch {
		case protocol == nil:
			err = errors.New("the handler returned a nil *jsonrpc.Error as an error")
		case protocol.Data != nil && jsonrpc.Check(protocol.Data, jsonrpc.Limits{}) != nil:
			data, err := jsonscan.Marshal(protocol.Data)
			if err != nil && len(protocol.Data) > 0 {
				e.logger().WarnContext(ctx, "ignoring the data of an error: it must be JSON", "method", c.Method(),
					"error", protocol.Message)
			}
			return &jsonrpc.Error{Code: protocol.Code, Message: protocol.Message, Data: data}
		default:
			return protocol
		}
	}
	var urls *call.URLRequiredError
	if errors.As(err, &urls) {
		return c.urlRequiredResponse(ctx, urls)
	}
	var capability *call.CapabilityError
	if errors.As(err, &capability) {
		return capabilityResponse(capability, c.Revision())
	}
	var scopes *auth.ScopeError
	if errors.As(err, &scopes) {
		challenge.AddMissing(ctx, scopes.Needed)
		return scopeResponse(scopes)
	}
	if ctx.Err() == nil {
		e.logger().ErrorContext(ctx, "call failed", "method", c.Method(), "error", err)
	}
	return errInternal
}

// rejection returns the response to a call that an Inflight does not accept because of err.
func (e *Engine) rejection(ctx context.Context, c *Call, err error) *jsonrpc.Error {
	if overload, ok := errors.AsType[*call.OverloadError](err); ok {
		c.Overload = overload
		return e.Overloaded(ctx, c.Method(), overload)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
}

// Overloaded returns the response to a request that a limit rejects, and logs the limit.
func (e *Engine) Overloaded(ctx context.Context, method string, limit *call.OverloadError) *jsonrpc.Error {
	e.overloads.Log(ctx, e.logger(), slog.LevelWarn, "overload: request rejected", slog.String("limit", limit.Limit),
		slog.String("method", method))
	return Rejection(limit)
}

// Rejection returns the response to a request that a limit rejects.
func Rejection(limit *call.OverloadError) *jsonrpc.Error {
	wire, _ := errors.AsType[*jsonrpc.Error](&call.OverloadError{Limit: limit.Limit, RetryAfter: limit.RetryAfter})
	return wire
}

// IsProtocolError reports whether the peer receives a handler's error as an error of the
// protocol, not as an internal error.
func (c *Call) IsProtocolError(err error) bool {
	var protocol *jsonrpc.Error
	var capability *call.CapabilityError
	var urls *call.URLRequiredError
	var scopes *auth.ScopeError
	return errors.As(err, &protocol) || errors.As(err, &scopes) ||
		c.Revision().Modern() && errors.As(err, &capability) ||
		revision.URLElicitation.In(c.Revision()) && errors.As(err, &urls)
}

// scopeResponse returns the error for missing scopes. The protocol defines no code for it: over
// HTTP, clients use the challenge of the response.
func scopeResponse(e *auth.ScopeError) *jsonrpc.Error {
	data, _ := json.Marshal(struct {
		RequiredScopes []string `json:"requiredScopes"`
	}{e.Needed})
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: e.Error(), Data: data}
}

// capabilityResponse returns the error for a missing capability. 2026-07-28 defines a code for it (basic, _meta).
func capabilityResponse(e *call.CapabilityError, r mcp.Revision) *jsonrpc.Error {
	if !r.Modern() {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: e.Error()}
	}
	data, _ := json.Marshal(mcp.MissingCapabilityData{RequiredCapabilities: e.Required})
	return &jsonrpc.Error{Code: mcp.CodeMissingCapability, Message: e.Error(), Data: data}
}

// MessageTooLarge returns the error for a message that exceeds the limit of the server, in bytes.
func MessageTooLarge(limit int64) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
		"message too large: the limit is %d bytes: send less, or raise Limits.MaxMessage of the server", limit)
}

// urlRequiredResponse returns the error that the client receives for e. Only 2025-11-25 has an error for it; in
// 2026-07-28 input requests have taken its place unless they could not be sent.
func (c *Call) urlRequiredResponse(ctx context.Context, e *call.URLRequiredError) *jsonrpc.Error {
	err := c.CheckURLs(e)
	var missing *call.CapabilityError
	switch {
	case errors.As(err, &missing):
		return capabilityResponse(missing, c.Revision())
	case errors.Is(err, ErrUnsupported), err == nil && !revision.ElicitationIDs.In(c.Revision()):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: e.Error()}
	case err != nil:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	all := elicitations(e, c.Revision())
	c.notifyWhenDone(ctx, e, all)
	data, _ := json.Marshal(mcp.URLElicitationRequiredData{Elicitations: all})
	return &jsonrpc.Error{Code: mcp.CodeURLElicitationRequired, Message: "the user must open a URL first", Data: data}
}

// notifyWhenDone notifies the client of each URL when its user has finished there.
func (c *Call) notifyWhenDone(ctx context.Context, e *call.URLRequiredError, elicitations []mcp.ElicitParams) {
	if c.SessionNotifier == nil {
		return
	}
	for i, u := range e.URLs {
		if u.Done == nil {
			continue
		}
		within := u.Within
		if within <= 0 {
			within = defaultURLTime
		}
		// has only strings
		params, _ := json.Marshal(mcp.ElicitationCompleteParams{ElicitationID: elicitations[i].ElicitationID})
		c.SessionNotifier.NotifyWhenDone(ctx, DeferredNotification{
			Method: mcp.NotificationElicitationComplete, Params: params, Done: u.Done, Timeout: min(within, MaxURLTime),
		})
	}
}
