package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/demo"
)

// At a terminal, parley task wait shows the questions of both kinds of tasks.
func TestTaskWaitAsksAtTheTerminal(t *testing.T) {
	program, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(demo.New("0"))
	t.Cleanup(s.Close)
	env := terminalEnv(t.TempDir())
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		call := exec.CommandContext(ctx, program, "call", "--task", "--revision", revision, s.URL, "bake", "kind=plum", "milliseconds=1")
		call.Env = env
		id, err := call.Output()
		if err != nil {
			t.Fatalf("%s: %v", revision, err)
		}
		wait := exec.CommandContext(ctx, program, "task", "wait", "--revision", revision, s.URL, strings.TrimSpace(string(id)))
		var result bytes.Buffer
		wait.Env, wait.Stdout = env, &result
		p := startAtTerminal(t, wait, true)
		// The user presses Enter until the program exits: the defaults answer the question.
		exited := make(chan error, 1)
		go func() { exited <- p.wait() }()
		press := time.NewTicker(100 * time.Millisecond)
		defer press.Stop()
		for running := true; running; {
			select {
			case err = <-exited:
				running = false
			case <-press.C:
				p.enter("\r")
			}
		}
		if err != nil || !strings.Contains(result.String(), ": plum, icing: sugar, candles: 0. ") || !strings.Contains(p.shown.String(), "The plum cake is baked.") {
			t.Errorf("%s: %v, result %q, terminal %q", revision, err, result.String(), p.shown)
		}
	}
}
