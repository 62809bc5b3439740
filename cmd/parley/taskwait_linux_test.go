package main

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/term"

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
	env := append(os.Environ(), "TERM=xterm-256color", "PARLEY_NO_KEYRING=1", "PARLEY_CONFIG_DIR="+t.TempDir())
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		call := exec.CommandContext(ctx, program, "call", "--task", "--revision", revision, s.URL, "bake", "kind=plum", "milliseconds=1")
		call.Env = env
		id, err := call.Output()
		if err != nil {
			t.Fatalf("%s: %v", revision, err)
		}
		user, terminal := openTerminal(t)
		// Otherwise the terminal turns Enter into another key while no form is shown.
		if _, err := term.MakeRaw(terminal.Fd()); err != nil {
			t.Fatal(err)
		}
		wait := exec.CommandContext(ctx, program, "task", "wait", "--revision", revision, s.URL, strings.TrimSpace(string(id)))
		var result bytes.Buffer
		wait.Env, wait.Stdin, wait.Stdout, wait.Stderr = env, terminal, &result, terminal
		if err := wait.Start(); err != nil {
			t.Fatal(err)
		}
		terminal.Close()
		var shown bytes.Buffer
		var reading sync.WaitGroup
		reading.Go(func() {
			if _, err := shown.ReadFrom(user); err != nil && !errors.Is(err, syscall.EIO) { // EIO: the program has exited
				t.Error(err)
			}
		})
		// The user presses Enter until the program exits: the defaults answer the question.
		exited := make(chan error, 1)
		go func() { exited <- wait.Wait() }()
		press := time.NewTicker(100 * time.Millisecond)
		defer press.Stop()
		for running := true; running; {
			select {
			case err = <-exited:
				running = false
			case <-press.C:
				_, _ = user.WriteString("\r") // fails when the program exits
			}
		}
		reading.Wait()
		if err != nil || !strings.Contains(result.String(), ": plum, icing: sugar, candles: 0. ") || !strings.Contains(shown.String(), "The plum cake is baked.") {
			t.Errorf("%s: %v, result %q, terminal %q", revision, err, result.String(), shown.String())
		}
	}
}
