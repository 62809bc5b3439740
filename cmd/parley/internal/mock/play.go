package mock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

// play selects the response to a request, does its steps, and returns its result, or an error for the client. Given
// is the object of the arguments as the client has sent it.
func (m *Mock) play(ctx context.Context, s *script, arguments map[string]json.RawMessage,
	given json.RawMessage) (json.RawMessage, error) {
	r, err := m.choose(ctx, s, arguments)
	if err != nil {
		return nil, err
	}
	for i := range r.steps {
		step := &r.steps[i]
		if step.wait > 0 && answered(ctx, r.steps[i:]) {
			continue // a run before this one has waited
		}
		if step.task {
			if ctx, err = server.Detach(ctx); err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return nil, err
			}
			continue
		}
		if err := m.do(ctx, step, r.template, arguments); err != nil {
			return nil, err
		}
	}
	latency := m.latency
	if r.latency != nil {
		latency = *r.latency
	}
	if err := sleep(ctx, latency); err != nil {
		return nil, err
	}
	if r.echo {
		return echoed(given), nil
	}
	o := r.outcome
	if r.template {
		o = o.expanded(arguments)
	}
	if o.result == nil {
		return nil, endAs(ctx, &o)
	}
	return o.result, nil
}

// choose returns the next response of a script. In 2026-07-28 the handler of a call runs again after a question,
// and gets the same response then.
func (m *Mock) choose(ctx context.Context, s *script, arguments map[string]json.RawMessage) (*response, error) {
	next := func(context.Context, string) (int, error) {
		r, err := s.next(arguments)
		if err != nil {
			m.logger.Warn("no response to a request", "request", s.subject, "arguments", describe(arguments))
		}
		return s.index(r), err
	}
	if !s.asks() {
		i, err := next(ctx, "")
		if err != nil {
			return nil, err
		}
		return s.responses[i], nil
	}
	i, err := server.Once(ctx, "mock", next)
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= len(s.responses) {
		return nil, fmt.Errorf("mock: %s has no response %d", s.subject, i)
	}
	return s.responses[i], nil
}

// asks reports whether a response has questions.
func (s *script) asks() bool {
	for _, r := range s.responses {
		for i := range r.steps {
			if step := &r.steps[i]; step.elicit != nil || step.sample != "" || step.roots || step.requests != nil {
				return true
			}
		}
	}
	return false
}

// answered reports whether the first questions of some steps were answered in an earlier run of the handler.
func answered(ctx context.Context, steps []step) bool {
	for i := range steps {
		if requests := steps[i].requests; len(requests) > 0 {
			return rpc.From(ctx).Answered(requests[0])
		}
	}
	return false
}

// do does one step.
func (m *Mock) do(ctx context.Context, s *step, template bool, values map[string]json.RawMessage) error {
	c := rpc.From(ctx)
	switch {
	case s.wait > 0:
		return sleep(ctx, s.wait)
	case s.progress != nil:
		ignoreEnded(server.Progress(ctx, s.progress.done, s.progress.total,
			m.text(s.progress.message, template, values)))
	case s.log != nil:
		data := s.log.data
		if template {
			data = expand(data, values)
		}
		ignoreEnded(c.Log(ctx, mcp.LoggingLevel(s.log.level), s.log.logger, data))
	case s.elicit != nil:
		content, err := server.ElicitForm(ctx, m.text(s.elicit.message, template, values), s.elicit.schema)
		if err != nil {
			return err
		}
		for name, value := range jsonrpc.All(content) {
			values[name] = value
		}
	case s.sample != "":
		//lint:ignore SA1019 sampling is deprecated, but still supported
		answer, err := server.Sample(ctx, mcp.CreateMessageParams{
			MaxTokens: 1000,
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
				Content: []mcp.Content{mcp.Text(m.text(s.sample, template, values))}}},
		})
		if err != nil {
			return err
		}
		values["sample"] = jsonrpc.AppendString(nil, firstText(answer.Content))
	case s.roots:
		//lint:ignore SA1019 roots are deprecated, but still supported
		roots, err := server.Roots(ctx)
		if err != nil {
			return err
		}
		if values["roots"], err = json.Marshal(roots); err != nil {
			return err
		}
	case s.requests != nil:
		return request(ctx, c, s.requests)
	case s.changed != "":
		return m.change(s.changed)
	case s.updated != "":
		m.server.ResourceUpdated(s.updated)
	case s.closeStream != nil:
		ignoreEnded(server.CloseStream(ctx, *s.closeStream))
	}
	return nil
}

// ignoreEnded ignores the error of a message that the client does not get, because it does not want it or has gone.
func ignoreEnded(error) {}

// text returns a text with its references replaced.
func (m *Mock) text(text string, template bool, values map[string]json.RawMessage) string {
	if !template {
		return text
	}
	left := maxExpanded
	return expandText(text, values, &left)
}

func firstText(content []mcp.Content) string {
	for _, c := range content {
		if t, ok := c.(*mcp.TextContent); ok {
			return t.Text
		}
	}
	return ""
}

// request sends recorded input requests. The answers do not count, but an invalid one is requested again.
func request(ctx context.Context, c *rpc.Call, requests []rpc.InputRequest) error {
	for _, q := range requests {
		if err := declared(c, q); err != nil {
			return err
		}
	}
	for again := 0; ; again++ {
		answers, err := c.RequestInput(ctx, requests...)
		if _, rejected := errors.AsType[*call.AnswerError](err); rejected {
			return nil // an answer, too
		}
		if err != nil {
			return err
		}
		var open []rpc.InputRequest
		for i, q := range requests {
			if isAnswer(q.Method, answers[i]) {
				continue
			}
			if q.Key != "" {
				q.Key = fmt.Sprintf("%s~%d", q.Key, again+1)
			}
			open = append(open, q)
		}
		if open == nil {
			return nil
		}
		if again == maxReasks {
			return server.ErrBadAnswer
		}
		requests = open
	}
}

// maxReasks is how often a question is repeated after an invalid answer.
const maxReasks = 2

// isAnswer reports whether an answer is a response to a method.
func isAnswer(method string, answer json.RawMessage) bool {
	var err error
	switch method {
	case mcp.MethodElicit:
		var result mcp.ElicitResult
		if err = schema.Decode(answer, &result); err == nil && result.Action == "" {
			return false
		}
	case mcp.MethodCreateMessage:
		err = schema.Decode(answer, new(mcp.CreateMessageResult))
	case mcp.MethodListRoots:
		err = schema.Decode(answer, new(mcp.ListRootsResult))
	}
	return err == nil
}

// declared returns an error unless the client supports an input request.
func declared(c *rpc.Call, q rpc.InputRequest) error {
	capabilities := c.Peer().Capabilities
	var missing mcp.ClientCapabilities
	switch q.Method {
	case mcp.MethodElicit:
		if mode, _ := jsonrpc.Get(q.Params, "mode"); jsonrpc.Unquote(mode) == mcp.ElicitModeURL {
			return c.CheckElicitURL()
		}
		if !c.Can(revision.FormElicitation) {
			return errors.ErrUnsupported
		}
		if capabilities.Elicitation.SupportsForm() {
			return nil
		}
		missing.Elicitation = &mcp.ElicitationCapability{}
	case mcp.MethodCreateMessage:
		if capabilities.Sampling != nil {
			return nil
		}
		missing.Sampling = &mcp.SamplingCapability{}
	case mcp.MethodListRoots:
		if capabilities.Roots != nil {
			return nil
		}
		missing.Roots = &mcp.RootsCapability{}
	default:
		return fmt.Errorf("mock: cannot send %s", q.Method)
	}
	return &call.CapabilityError{Required: missing}
}

// expanded returns an outcome with its references replaced.
func (o outcome) expanded(values map[string]json.RawMessage) outcome {
	o.result = expand(o.result, values)
	o.raw = expand(o.raw, values)
	if o.err != nil {
		left := maxExpanded
		e := *o.err
		e.Message = expandText(e.Message, values, &left)
		e.Data = expand(e.Data, values)
		o.err = &e
	}
	return o
}

// echoed returns the result of a tool without responses: its arguments.
func echoed(arguments json.RawMessage) json.RawMessage {
	text, err := jsonv2.Marshal(&mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))},
		StructuredContent: arguments})
	if err != nil { // the arguments are valid JSON
		return json.RawMessage(`{"content":[]}`)
	}
	return text
}

// describe returns arguments for the log.
func describe(arguments map[string]json.RawMessage) string {
	return (&response{when: arguments, exactly: true}).arguments()
}

// sleep waits for a time, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
