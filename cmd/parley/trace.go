package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/parley-mcp/parley/cmd/parley/internal/recording"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
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

// event prints the message of an event, if it has one. The messages of this side are the sent ones.
func (t *tracer) event(this recording.Side, peer string, e recording.Event) {
	if len(bytes.TrimSpace(e.Message)) > 0 {
		t.print(e.From == this, peer, e.Message)
	}
}
