package main

import (
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/recording"
	"github.com/parley-mcp/parley/transport"
)

// observer prints and records what clients send to a server of this program, and what it sends to them.
type observer struct {
	tracer   *tracer   // nil without --trace
	recorder *recorder // nil without --record
}

// observer returns the observer for the flags --trace and --record. Target names the server in a recording.
func (f *httpFlags) observer(cmd *cobra.Command, target string) (*observer, error) {
	o := new(observer)
	if f.trace {
		o.tracer = newTracer(cmd.ErrOrStderr())
	}
	var err error
	o.recorder, err = f.record.start(target)
	return o, err
}

// report prints and records an event of a client.
func (o *observer) report(client string, e recording.Event) {
	o.recorder.report(e)
	if o.tracer != nil {
		o.tracer.event(recording.Server, client, e)
	}
}

// handlers returns a function that observes the handlers of the server at a URL.
func (o *observer) handlers(url string) func(http.Handler) http.Handler {
	if o.tracer == nil && o.recorder == nil {
		return func(h http.Handler) http.Handler { return h }
	}
	observed := &recording.Observer{
		Origin: strings.TrimSuffix(url, endpoint),
		Report: func(r *http.Request, e recording.Event) { o.report(r.RemoteAddr, e) },
	}
	return observed.Handler
}

// conn observes the connection of a server on standard input and output.
func (o *observer) conn(conn transport.Conn) transport.Conn {
	if o.tracer == nil && o.recorder == nil {
		return conn
	}
	return recording.ServerConn(conn, func(e recording.Event) { o.report("client", e) })
}
