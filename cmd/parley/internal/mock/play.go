//lint:file-ignore SA1019 Deprecated features are still supported.

package mock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
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
	for i := range r.Steps {
		if err := m.do(ctx, &r.Steps[i], r.recorded, arguments); err != nil {
			return nil, err
		}
	}
	latency := m.latency
	if r.Latency != nil {
		latency = *r.Latency
	}
	if err := sleep(ctx, latency); err != nil {
		return nil, err
	}
	if r.echo {
		return jsonv2.Marshal(&mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(given))},
			StructuredContent: given})
	}
	o := r.outcome
	if !r.recorded {
		o = o.expanded(arguments)
	}
	switch {
	case o.result != nil:
		return o.result, nil
	case o.Fault == noResponse:
		return nil, silence(ctx)
	}
	return nil, &endedError{&o}
}

// choose returns the next response of a script. In 2026-07-28 the handler of a call runs again after a question,
// and gets the same response then.
func (m *Mock) choose(ctx context.Context, s *script, arguments map[string]json.RawMessage) (*response, error) {
	next := func(context.Context, string) (int, error) {
		i, err := s.next(arguments)
		if err != nil {
			m.logger.Warn("no response to a request", "request", s.subject, "arguments", describe(arguments))
		}
		return i, err
	}
	var i int
	var err error
	if s.asks() {
		i, err = server.Once(ctx, "mock", next)
	} else {
		i, err = next(ctx, "")
	}
	switch {
	case err != nil:
		return nil, err
	case i < 0 || i >= len(s.responses):
		return nil, fmt.Errorf("mock: %s has no response %d", s.subject, i)
	}
	return s.responses[i], nil
}

// do does one step. Values are those of references, which a recording does not have.
func (m *Mock) do(ctx context.Context, s *step, recorded bool, values map[string]json.RawMessage) error {
	expand, expandText := expand, expandText
	if recorded {
		expand = func(text json.RawMessage, _ map[string]json.RawMessage) json.RawMessage { return text }
		expandText = func(text string, _ map[string]json.RawMessage) string { return text }
	}
	var options []server.AskOption
	if s.key != "" {
		options = append(options, server.Key(s.key))
	}
	switch {
	case s.Wait != nil:
		return sleep(ctx, *s.Wait)
	case s.Progress != nil:
		ignoreEnded(server.Progress(ctx, *s.Progress, s.Total, expandText(s.Message, values)))
	case s.Log != nil:
		ignoreEnded(rpc.From(ctx).Log(ctx, cmp.Or(s.Level, mcp.LevelInfo), s.Logger, expand(s.Log, values)))
	case s.url != "":
		return answered(server.ElicitURL(ctx, s.url, *s.Elicit, nil, options...), recorded)
	case s.Elicit != nil:
		content, err := server.ElicitForm(ctx, expandText(*s.Elicit, values), s.Schema, options...)
		for name, value := range jsonrpc.All(content) {
			values[name] = value
		}
		return answered(err, recorded)
	case s.sample != nil:
		var params mcp.CreateMessageParams
		if err := jsonv2.Unmarshal(expand(s.sample, values), &params); err != nil {
			return fmt.Errorf("mock: invalid request for sampling: %w", err)
		}
		answer, err := server.Sample(ctx, params, options...)
		if err != nil {
			return answered(err, recorded)
		}
		text := ""
		for _, c := range answer.Content {
			if t, ok := c.(*mcp.TextContent); ok && text == "" {
				text = t.Text
			}
		}
		values["sample"] = jsonrpc.AppendString(nil, text)
	case s.Roots:
		roots, err := server.Roots(ctx, options...)
		if err != nil {
			return answered(err, recorded)
		}
		values["roots"], err = json.Marshal(roots)
		return err
	case s.Changed != "":
		return m.change(s.Changed)
	case s.Updated != "":
		m.server.ResourceUpdated(s.Updated)
	}
	return nil
}

// answered returns the error of a question. After any answer, a recording has the recorded result.
func answered(err error, recorded bool) error {
	isAnswer := errors.Is(err, server.ErrDeclined) || errors.Is(err, server.ErrDismissed) ||
		errors.Is(err, server.ErrBadAnswer) || errors.As(err, new(*call.AnswerError))
	if recorded && isAnswer {
		return nil
	}
	return err
}

// ignoreEnded ignores the error of a message that the client does not get, because it does not want it or has gone.
func ignoreEnded(error) {}

// endedError is the error of a handler whose request ends with an outcome that the middleware causes. A task has no
// request to end, and fails with the error of the protocol.
type endedError struct{ outcome *outcome }

func (e *endedError) Error() string { return e.Unwrap().Error() }

// Unwrap returns the error of the protocol.
func (e *endedError) Unwrap() error {
	if e.outcome.Error != nil {
		return e.outcome.Error
	}
	return errTask
}

var errTask = jsonrpc.Errorf(jsonrpc.CodeInternalError,
	"mock: a task can end with a result, an error or no response only")

// end ends a request.
func end(ctx context.Context, c *call.Call, o *outcome) (any, error) {
	switch {
	case o.Error != nil:
		return nil, o.Error
	case o.Result != nil:
		return o.Result, nil
	case o.Fault == rateLimit:
		return nil, &call.OverloadError{Limit: "requests", RetryAfter: o.RetryAfter}
	case o.Fault == noResponse:
		return nil, silence(ctx)
	}
	if w, ok := ctx.Value(wireKey{}).(wire); ok {
		w.spoil(c.ID().String(), o)
	}
	if o.Status != 0 {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "%s", statusText(o.Status))
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "mock: %s", o.Fault)
}

// statusText describes the status of an HTTP response.
func statusText(status int) string { return fmt.Sprintf("mock: HTTP status %d", status) }

// maxSilence is the longest time for which a request has no response, if the client does not cancel it and stays
// connected.
const maxSilence = 10 * time.Minute

// silence waits until the client cancels the request or disconnects.
func silence(ctx context.Context) error {
	if err := sleep(ctx, maxSilence); err != nil {
		return err
	}
	return jsonrpc.Errorf(jsonrpc.CodeInternalError,
		"mock: the client has neither cancelled the request nor disconnected")
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
