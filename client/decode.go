package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/contain"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// decode decodes the result of a request, as strictly as all protocol data: keys are case-sensitive and must not
// repeat. It drops entries, blocks and optional fields that cannot be decoded, and returns raw without them. It logs
// what it drops, except for a cached result, which has been logged before. name may be empty.
func (c *Client) decode(method, name string, raw json.RawMessage, cached bool, into any) (json.RawMessage, error) {
	kept, faults, err := contain.Decode(raw, into)
	if kind := resultType(into); err == nil && (kind == mcp.ResultTypeInputRequired || kind == mcp.ResultTypeTask) {
		err = fmt.Errorf("its resultType is %q, which the revision of the connection does not define", kind)
	}
	if err == nil && faults == nil {
		return kept, nil
	}
	if name != "" {
		method += " " + name
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: cannot decode the result: %w", call.ErrInvalidResponse, method, err)
	}
	if !cached {
		faults.Log(c.dialer.Logger, method, "server", c.target.String())
	}
	return kept, nil
}

// resultType returns the type that a result declares. In 2026-07-28, types other than "complete" are handled
// elsewhere. In a session they are invalid: without this check, such a result would look complete and empty.
func resultType(result any) string {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		return r.ResultType
	case *mcp.GetPromptResult:
		return r.ResultType
	case *mcp.ReadResourceResult:
		return r.ResultType
	case *mcp.CompleteResult:
		return r.ResultType
	case *mcp.ListToolsResult:
		return r.ResultType
	case *mcp.ListPromptsResult:
		return r.ResultType
	case *mcp.ListResourcesResult:
		return r.ResultType
	case *mcp.ListResourceTemplatesResult:
		return r.ResultType
	}
	return ""
}

// decodeResult decodes raw, as decode does, into a new Result.
func decodeResult[Result any](c *Client, method string, raw json.RawMessage,
	cached bool) (*Result, json.RawMessage, error) {
	result := new(Result)
	raw, err := c.decode(method, "", raw, cached, result)
	if err != nil {
		return nil, nil, err
	}
	return result, raw, nil
}

// unusable returns why an entry of a list cannot be used, or "". name identifies the entry.
func unusable(name string, replaced map[string]bool) string {
	switch {
	case name == "":
		return "its name or URI must not be empty"
	case replaced[name]:
		return "its name or URI must be valid Unicode"
	}
	return ""
}

// replacedValues returns the values of a field of a list's entries in which a lone surrogate was replaced.
// After the replacement, different names may look the same.
func replacedValues(page json.RawMessage, member string) map[string]bool {
	mark := []byte(jsonscan.Replacement)
	if !bytes.Contains(page, mark) {
		return nil
	}
	values := make(map[string]bool)
	for _, entry := range elementsOf(page, member) {
		for _, raw := range jsonrpc.All(entry) {
			if raw[0] == '"' && bytes.Contains(raw, mark) {
				values[jsonrpc.Unquote(raw)] = true
			}
		}
	}
	return values
}

// The client calls some functions of a Dialer from its own goroutines, where a panic would end the program. It recovers
// and logs panics, and returns an error where one is expected.

// contained returns a copy of the Dialer whose functions recover from panics.
// answerContained wraps the functions that answer input requests.
func (d Dialer) contained() *Dialer {
	if f := d.Trace; f != nil {
		d.Trace = func(sent bool, message []byte) {
			defer d.contain("Trace", nil)
			f(sent, message)
		}
	}
	if f := d.OnLog; f != nil {
		d.OnLog = func(ctx context.Context, message mcp.LoggingMessageParams) {
			_ = d.isolate("OnLog", func() { f(ctx, message) })
		}
	}
	if f := d.OnConnectionLost; f != nil {
		d.OnConnectionLost = func(err error) {
			_ = d.isolate("OnConnectionLost", func() { f(err) })
		}
	}
	d.sending = outbound.NewChain(d.containedMiddleware()...)
	return &d
}

// containedMiddleware returns Dialer.Middleware behind a middleware that turns panics
// into errors.
func (d *Dialer) containedMiddleware() []call.Middleware {
	if len(d.Middleware) == 0 {
		return nil
	}
	contained := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (result any, err error) {
			defer d.contain("Middleware", &err)
			return next(ctx, c)
		}
	}
	return append([]call.Middleware{contained}, d.Middleware...)
}

// progressContained returns f with panics recovered, or nil if f is nil.
func (d *Dialer) progressContained(f func(done, total float64, message string)) func(outbound.Progress) {
	if f == nil {
		return nil
	}
	return func(p outbound.Progress) {
		defer d.contain("WithProgress", nil)
		f(p.Done, p.Total, p.Message)
	}
}

// contain recovers from a panic, logs it and stores it in err, unless err is nil. It must be
// deferred.
func (d *Dialer) contain(name string, err *error) {
	v := recover()
	if v == nil {
		return
	}
	d.Logger.Error("a function of the program panicked", "function", name, "panic", v, "stack", string(debug.Stack()))
	if err != nil {
		*err = fmt.Errorf("the program's function for %s panicked: %v", name, v)
	}
}

// isolate calls f in a new goroutine and waits for it. If f panics or calls runtime.Goexit,
// isolate logs it and returns an error, and the caller continues.
func (d *Dialer) isolate(name string, f func()) error {
	done := make(chan error, 1)
	go func() {
		var err error
		returned := false
		defer func() {
			if err == nil && !returned {
				d.Logger.Error("a function of the program called runtime.Goexit", "function", name, "stack",
					string(debug.Stack()))
				err = fmt.Errorf("the program's function for %s called runtime.Goexit", name)
			}
			done <- err
		}()
		defer d.contain(name, &err)
		f()
		returned = true
	}()
	return <-done
}

// answerContained answers an input request under isolate. Its errors are for the program: the
// server only learns that there is no answer.
func (d *Dialer) answerContained(ctx context.Context, method string,
	params json.RawMessage) (answer json.RawMessage, err error) {
	failure := d.isolate(method, func() {
		var value any
		if value, err = d.answer(ctx, method, params); err == nil {
			answer, err = schema.Marshal(value)
		}
	})
	if failure != nil {
		return nil, failure
	}
	return answer, err
}

// filterIcons removes icons from origins other than the server's (2025-11-25, basic, icons):
// fetching them would tell a third party about the user. A server on a byte stream has no
// origin. Package mcp has already removed icons with schemes other than https and data.
func (c *Client) filterIcons(icons *mcp.Icons) {
	t, ok := c.target.(*HTTPTarget)
	if !ok || len(*icons) == 0 {
		return
	}
	server, err := url.Parse(t.URL)
	*icons = slices.DeleteFunc(slices.Clone(*icons), func(icon mcp.Icon) bool {
		if !strings.HasPrefix(strings.ToLower(icon.Src[:min(len(icon.Src), len("https:"))]), "https:") {
			return false
		}
		source, err2 := url.Parse(icon.Src)
		return err != nil || err2 != nil || !httpurl.SameOrigin(server, source)
	})
}

// filterLinks removes icons of resource links, as filterIcons does.
func (c *Client) filterLinks(content []mcp.Content) {
	for _, one := range content {
		if link, ok := one.(*mcp.ResourceLink); ok {
			c.filterIcons(&link.Icons)
		}
	}
}
