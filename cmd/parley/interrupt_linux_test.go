package main

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Ctrl-C at a question ends the command. In a session the server learns that the call is cancelled; in 2026-07-28 the call
// has already ended with the question, and the handler does not run again.
func TestInterruptAtAQuestionCancelsTheCall(t *testing.T) {
	program, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		Name string `json:"name"`
	}
	var mu sync.Mutex
	runs := 0
	ended := make(chan error, 8) // what the handler's question returns
	s := &server.Server{Name: "questions"}
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		mu.Lock()
		runs++
		mu.Unlock()
		_, err := server.Elicit[answer](ctx, "Who are you?")
		ended <- errors.Join(err, context.Cause(ctx))
		return "", err
	})
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	for _, test := range []struct{ revision, keys string }{{"2025-11-25", "\x03"}, {"2025-11-25", "A\x03"}, {"2026-07-28", "\x03"}} {
		mu.Lock()
		runs = 0
		mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		run := exec.CommandContext(ctx, program, "call", "--revision", test.revision, h.URL, "ask")
		run.Env, run.Stdout = terminalEnv(t.TempDir()), io.Discard
		p := startAtTerminal(t, run, true)
		shown := p.shown
		for i, key := range test.keys {
			shown.find(ctx, t, []string{`name`, `A\x1b\[7m`}[i])
			p.enter(string(key))
		}
		err := p.wait()
		if code := run.ProcessState.ExitCode(); code != failure.ExitInterrupted {
			t.Errorf("%s, keys %q: %v, the terminal shows %q", test.revision, test.keys, err, shown)
		}
		shown.find(ctx, t, `parley: interrupted`)
		select {
		case err := <-ended:
			if !errors.Is(err, call.ErrCancelled) && test.revision == "2025-11-25" {
				t.Errorf("%s, keys %q: the question returns %v, want that the client has cancelled the call", test.revision, test.keys, err)
			}
		case <-ctx.Done():
			t.Errorf("%s, keys %q: the server still serves the call", test.revision, test.keys)
		}
		mu.Lock()
		if runs != 1 {
			t.Errorf("%s: the handler runs %d times", test.revision, runs)
		}
		mu.Unlock()
	}
}
