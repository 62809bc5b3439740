package client

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/parley-mcp/parley/mcp"
)

// The functions of a Dialer run in goroutines of the client's, where a panic would end
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
	if f := d.OnLost; f != nil {
		d.OnLost = func(err error) {
			defer d.contain("OnLost", nil)
			f(err)
		}
	}
	return &d
}

// contain is deferred. It makes an error of a panic, if there is somebody to have it.
func (d *Dialer) contain(what string, err *error) {
	v := recover()
	if v == nil {
		return
	}
	d.Logger.Error("a function of the Dialer panicked", "function", what, "panic", v, "stack", string(debug.Stack()))
	if err != nil {
		*err = fmt.Errorf("the function of the Dialer for %s panicked: %v", what, v)
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
