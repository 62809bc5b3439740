package client

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// The functions of a Dialer run, some of them, in goroutines of the client's, where a panic would end
// the program. It is logged instead, and whoever waits for an answer gets an error.

// contained is the Dialer with functions whose panics stay with them. Those that answer
// a server's questions are contained where they are called: see answerer.
func (d Dialer) contained() *Dialer {
	if f := d.Trace; f != nil {
		d.Trace = func(sent bool, message []byte) {
			defer d.contain("Trace", nil)
			f(sent, message)
		}
	}
	if f := d.OnLog; f != nil {
		d.OnLog = func(message mcp.LoggingMessageParams) {
			defer d.contain("OnLog", nil)
			f(message)
		}
	}
	if f := d.OnConnectionLost; f != nil {
		d.OnConnectionLost = func(err error) {
			defer d.contain("OnConnectionLost", nil)
			f(err)
		}
	}
	d.sending = rpc.NewSending(d.containedMiddleware()...)
	return &d
}

// containedMiddleware is Dialer.Middleware inside of what makes an error of a panic. A
// connection may be dialled, and kept alive, in a goroutine of the client's.
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

// progressContained is f, which reports progress, with its panics staying with it: the
// call goes on. It is nil if f is.
func (d *Dialer) progressContained(f func(done, total float64, message string)) func(rpc.Progress) {
	if f == nil {
		return nil
	}
	return func(p rpc.Progress) {
		defer d.contain("WithProgress", nil)
		f(p.Done, p.Total, p.Message)
	}
}

// contain is deferred. It makes an error of a panic, if there is somebody to have it.
func (d *Dialer) contain(what string, err *error) {
	v := recover()
	if v == nil {
		return
	}
	d.Logger.Error("a function of the program panicked", "function", what, "panic", v, "stack", string(debug.Stack()))
	if err != nil {
		*err = fmt.Errorf("the program's function for %s panicked: %v", what, v)
	}
}

// answerContained answers a question of a server's. What it says of a panic is for this
// side: the server is only told that there is no answer.
func (d *Dialer) answerContained(ctx context.Context, method string, params json.RawMessage) (answer json.RawMessage, err error) {
	defer d.contain(method, &err)
	value, err := d.answer(ctx, method, params)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}
