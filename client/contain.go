package client

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// The client calls some functions of a Dialer from its own goroutines, where a panic would end the program. It recovers
// and logs panics, and returns an error where one is expected.

// contained returns a copy of the Dialer whose functions recover from panics, except those that answer input requests:
// see answerContained.
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
