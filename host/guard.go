package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// guards reports whether requests must pass guard.
func (h *Host) guards() bool {
	return h.Policy != nil || h.Audit != nil || h.Review != nil || h.OnRequest != nil || h.OnResult != nil
}

// argumentsOf returns the arguments of a tool or prompt as a JSON object.
func argumentsOf(arguments any) (json.RawMessage, error) {
	switch a := arguments.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case map[string]string:
		if a == nil {
			return json.RawMessage("{}"), nil
		}
	case json.RawMessage:
		if checkObject(a) == nil {
			return a, nil
		}
	}
	raw, err := schema.MarshalArguments(arguments)
	if err == nil {
		err = checkObject(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot encode the arguments: %w", err)
	}
	return raw, nil
}

// guard sends a request if the review, the hooks, the policy and the approver let it pass, and records it.
// send sends the request with its arguments, which a hook may have changed. arguments is nil for a request
// without arguments.
func guard[Result any](ctx context.Context, h *Host, s *supervisor, request Request, arguments any,
	send func(arguments any) (*Result, error)) (*Result, error) {
	if !h.guards() {
		return send(arguments)
	}
	r := new(Request)
	*r = request
	if r.Arguments == nil && r.Kind != KindResource {
		var err error
		if r.Arguments, err = argumentsOf(arguments); err != nil {
			return nil, fmt.Errorf("%s: %w", r.text(), err)
		}
	}
	p := h.newPassage(ctx, r)
	if err := p.admit(ctx, s); err != nil {
		return nil, err
	}
	if r.Arguments != nil {
		arguments = r.Arguments
	}
	result, err := send(arguments)
	if err != nil {
		err = s.admitURLs(ctx, r, err)
	}
	if err == nil && h.OnResult != nil {
		result, err = replaced(ctx, h, r, result)
	}
	if h.Audit != nil {
		outcome := ""
		if tool, ok := any(result).(*mcp.CallToolResult); ok && err == nil && tool.IsError {
			outcome = "tool error"
		}
		h.recordLater(ctx, p.end("done", outcome, len(sourceOf(result)), err))
	}
	return result, err
}

// replaced returns the result that the hooks return for a result.
func replaced[Result any](ctx context.Context, h *Host, r *Request, result *Result) (*Result, error) {
	source := sourceOf(result)
	if source == nil { // a completion
		var err error
		if source, err = schema.Marshal(result); err != nil {
			return nil, err
		}
	}
	// hooks may keep the bytes, but the memory of a forwarded result is reused
	raw, err := h.afterResponse(ctx, r, bytes.Clone(source))
	if err != nil || bytes.Equal(raw, source) {
		return result, err
	}
	result = new(Result)
	if err := schema.Decode(raw, result); err != nil {
		return nil, r.denied("the result of a hook is invalid", err)
	}
	switch r := any(result).(type) {
	case *json.RawMessage:
		*r = raw
	case *mcp.CallToolResult:
		r.Source = raw
	case *mcp.ReadResourceResult:
		r.Source = raw
	case *mcp.GetPromptResult:
		r.Source = raw
	}
	return result, nil
}

// sourceOf returns the JSON of a result, or nil for a completion.
func sourceOf(result any) json.RawMessage {
	switch r := result.(type) {
	case *json.RawMessage:
		if r != nil {
			return *r
		}
	case *mcp.CallToolResult:
		if r != nil {
			return r.Source
		}
	case *mcp.ReadResourceResult:
		if r != nil {
			return r.Source
		}
	case *mcp.GetPromptResult:
		if r != nil {
			return r.Source
		}
	}
	return nil
}

// sourced adds the option that sets the Source of a result, if guard needs it.
func (h *Host) sourced(options []client.CallOption) []client.CallOption {
	if h.Audit == nil && h.OnResult == nil {
		return options
	}
	return append([]client.CallOption{client.WithSource()}, options...)
}

// silent reports whether users are never asked about a request.
func (r *Request) silent() bool {
	return r.Method == mcp.MethodComplete || r.Method == mcp.MethodSubscribe
}

// completionRequest describes a completion as a request about its prompt or template.
func completionRequest(server string, params *mcp.CompleteParams) Request {
	r := Request{Method: mcp.MethodComplete, Server: server, Kind: KindPrompt, Name: params.Ref.Name}
	known := make(map[string]string)
	if params.Context != nil {
		maps.Copy(known, params.Context.Arguments)
	}
	if params.Ref.Type == mcp.RefResource {
		r.Kind, r.Name = KindResource, params.Ref.URI
	}
	known[params.Argument.Name] = params.Argument.Value
	r.Arguments, _ = schema.Marshal(known) // strings always encode
	return r
}

// setCompletion sets the values of a completion that a hook may have changed.
func (r *Request) setCompletion(params *mcp.CompleteParams, arguments json.RawMessage) error {
	if bytes.Equal(arguments, r.Arguments) {
		return nil
	}
	var values map[string]string
	if err := schema.Decode(arguments, &values); err != nil {
		return r.denied("the arguments of a hook are invalid", err)
	}
	params.Argument.Value = values[params.Argument.Name]
	if delete(values, params.Argument.Name); len(values) > 0 || params.Context != nil {
		params.Context = &mcp.CompleteContext{Arguments: values}
	}
	return nil
}

// passage carries one request through the checks.
type passage struct {
	host     *Host
	request  *Request
	begin    time.Time
	number   uint64
	decision Decision
	decided  bool
	approval string
	headers  []string // names of the caller's headers that the server receives
}

func (h *Host) newPassage(ctx context.Context, r *Request) *passage {
	r.Caller = callerOf(ctx)
	p := &passage{host: h, request: r, begin: time.Now(), number: h.requests.Add(1)}
	if s := h.find(r.Server); s != nil && h.Audit != nil && !r.ofServer() {
		p.headers = s.passedHeaders(callerFrom(ctx))
	}
	return p
}

// admit returns nil if the request may be sent, and records the decision.
func (p *passage) admit(ctx context.Context, s *supervisor) error {
	return p.conclude(ctx, p.check(ctx, s))
}

// conclude records the decision about a request: err is nil if the request may be sent. It returns err, or an error if
// the decision cannot be recorded.
func (p *passage) conclude(ctx context.Context, err error) error {
	h := p.host
	if err == nil {
		if h.Audit == nil {
			return nil
		}
		if err = h.record(ctx, p.record("allowed")); err == nil {
			return nil
		}
		h.logger().Error("cannot write the audit log: request rejected", "server", p.request.Server, "error", err)
		return p.request.denied("it cannot be recorded in the audit log", nil)
	}
	if h.Audit != nil {
		h.recordLater(ctx, p.rejected(err))
	}
	return err
}

// rejected returns the record of a request that is not sent.
func (p *passage) rejected(err error) slog.Record {
	if errors.Is(err, call.ErrInputRequired) {
		return p.record("asked")
	}
	event := "done" // the server is down, or the caller has cancelled the request
	if errors.As(err, new(*DeniedError)) || errors.As(err, new(*inputLimitError)) || p.approval != "" {
		event = "denied"
	}
	return p.end(event, "", 0, err)
}

// check returns nil if the request may be sent.
func (p *passage) check(ctx context.Context, s *supervisor) error {
	h, r := p.host, p.request
	if r.Method != mcp.MethodSubscribe { // a subscription does not start a server
		if _, err := s.await(ctx); err != nil { // then its definitions are known
			return err
		}
	}
	if r.Method != mcp.MethodSubscribe {
		s.learn(ctx)
	}
	tool, err := s.definition(ctx, r)
	if err != nil {
		return err
	}
	r.Tool = tool
	if err := h.beforeRequest(ctx, r); err != nil {
		return err
	}
	if p.decision, err = h.decide(ctx, r); h.Policy != nil {
		p.decided = true
	}
	if err != nil || p.decision.Action == Allow {
		return err
	}
	if r.silent() {
		return r.denied("users are not asked about it", nil)
	}
	session, version := s.sessionApproval(ctx, r, p.decision), s.approvals.current()
	if s.approvals.has(session) {
		p.approval = inSession
		return nil
	}
	if p.approval, err = h.approve(ctx, r, p.decision, session); err != nil {
		return err
	}
	if err := p.unchanged(ctx, s); err != nil {
		return err
	}
	if p.approval == inSession {
		s.approvals.add(session, version)
	}
	return nil
}

// unchanged returns an error if the definition or the decision changed while the user was asked.
func (p *passage) unchanged(ctx context.Context, s *supervisor) error {
	r := p.request
	tool, err := s.definition(ctx, r)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(tool, r.Tool) {
		return r.denied("its definition has changed since the approval was requested", nil)
	}
	return p.sameDecision(ctx)
}

// sameDecision returns an error if the policy has changed while the user was asked.
func (p *passage) sameDecision(ctx context.Context) error {
	r := p.request
	now, err := p.host.decide(ctx, r)
	if err != nil {
		p.decision = now
		return err
	}
	if now.Version != p.decision.Version {
		return r.denied("the policy has changed since the approval was requested", nil)
	}
	return nil
}

// permit checks a request that has no result: a subscription.
func (h *Host) permit(ctx context.Context, s *supervisor, r *Request) error {
	if !h.guards() {
		return nil
	}
	return h.newPassage(ctx, r).admit(ctx, s)
}
