package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/transport"
)

// tracer prints messages, one per line: → for sent or ← for received, the name of the peer,
// and the JSON of the message. It does not print headers, because they contain secrets.
type tracer struct {
	mu sync.Mutex
	w  io.Writer
}

func newTracer(w io.Writer) *tracer { return &tracer{w: w} }

func (t *tracer) print(sent bool, peer string, message []byte) {
	arrow := "←"
	if sent {
		arrow = "→"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "%s %s %s\n", arrow, peer, oneLine(message))
}

// oneLine returns a message as one sanitised line.
func oneLine(message []byte) string {
	var compact bytes.Buffer
	if json.Compact(&compact, message) == nil {
		return terminal.JSON(compact.String())
	}
	return terminal.Line(string(message))
}

// peer returns a function for client.Dialer.Trace.
func (t *tracer) peer(name string) func(sent bool, message []byte) {
	return func(sent bool, message []byte) { t.print(sent, name, message) }
}

// conn returns a connection that prints its messages.
func (t *tracer) conn(conn transport.Conn, peer string) transport.Conn {
	return &tracedConn{Conn: conn, tracer: t, peer: peer}
}

type tracedConn struct {
	transport.Conn
	tracer *tracer
	peer   string
}

// Read implements transport.Conn.
func (c *tracedConn) Read(ctx context.Context) ([]byte, error) {
	msg, err := c.Conn.Read(ctx)
	if err == nil {
		c.tracer.print(false, c.peer, msg)
	}
	return msg, err
}

// Write implements transport.Conn.
func (c *tracedConn) Write(ctx context.Context, msg []byte) error {
	c.tracer.print(true, c.peer, msg)
	return c.Conn.Write(ctx, msg)
}

// handler returns an HTTP handler that prints the messages of next.
func (t *tracer) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &tracedBody{ReadCloser: r.Body, tracer: t, peer: r.RemoteAddr}
		r = r.WithContext(r.Context())
		r.Body = body
		response := &tracedResponse{ResponseWriter: w, tracer: t, peer: r.RemoteAddr}
		defer response.finish()
		next.ServeHTTP(response, r)
	})
}

const maxTraced = 16 << 20 // bytes of one message; the rest is not printed

// tracedBody prints a request's body when the handler has read all of it.
type tracedBody struct {
	io.ReadCloser
	tracer  *tracer
	peer    string
	message []byte
}

// Read implements io.Reader.
func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.message = append(b.message, p[:min(n, maxTraced-len(b.message))]...)
	if err == io.EOF && len(b.message) > 0 {
		b.tracer.print(false, b.peer, b.message)
		b.message = nil
	}
	return n, err
}

// tracedResponse prints a response's body: each event of an event stream when it is written,
// and any other body at the end. It is not safe for concurrent use.
type tracedResponse struct {
	http.ResponseWriter
	tracer  *tracer
	peer    string
	message []byte // the body, or the beginning of an event
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (w *tracedResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer.
func (w *tracedResponse) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.message = append(w.message, p[:min(n, maxTraced-len(w.message))]...)
	if w.Header().Get("Content-Type") == "text/event-stream" {
		w.events()
	}
	return n, err
}

// events prints the complete events. The stream is from our own server, so its lines end in \n
// and its fields have a space after the colon.
func (w *tracedResponse) events() {
	for {
		event, rest, complete := bytes.Cut(w.message, []byte("\n\n"))
		if !complete {
			return
		}
		w.message = rest
		var data []byte
		for line := range bytes.SplitSeq(event, []byte("\n")) {
			if part, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				data = append(append(data, part...), '\n')
			}
		}
		if data = bytes.TrimSpace(data); len(data) > 0 {
			w.tracer.print(true, w.peer, data)
		}
	}
}

func (w *tracedResponse) finish() {
	if len(bytes.TrimSpace(w.message)) > 0 {
		w.tracer.print(true, w.peer, w.message)
	}
}
