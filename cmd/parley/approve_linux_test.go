package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The user who runs parley up approves the calls of clients that cannot be asked.
func TestUpAsksForApprovalsAtTheTerminal(t *testing.T) {
	program, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(config, []byte(`{"mcpServers":{"one":{"command":"parley","args":["serve","--stdio"]}},"policy":{"default":"ask"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := terminalEnv(dir)
	for _, answer := range []struct {
		down   []string // the options to go down to
		script string   // of a client with a session
		want   string
	}{
		{nil, "call one__greet name=Ada\n", "it was not approved: the user declined"},
		{[]string{"Allow once"}, "call one__greet name=Ada\n", "Hello, Ada!"},
		{[]string{"Allow once", "Allow for this session, with any arguments"}, "call one__greet name=Ada\ncall one__greet name=Bob\n", "Hello, Ada!\nHello, Bob!"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		up := exec.CommandContext(ctx, program, "up", "--config", config, "--addr", "127.0.0.1:0", "--audit", filepath.Join(dir, "audit.log"))
		up.Env, up.Stdout = env, io.Discard
		p := startAtTerminal(t, up, true)
		shown := p.shown
		url := shown.find(ctx, t, `(http://[0-9.:]+/mcp)`)[1]
		shown.find(ctx, t, `✓.* one `)

		call := exec.CommandContext(ctx, program, "shell", "--revision", "2025-11-25", url)
		var result bytes.Buffer
		call.Env, call.Stdin, call.Stdout, call.Stderr = env, strings.NewReader(answer.script), &result, &result
		if err := call.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan struct{})
		go func() {
			_ = call.Wait() // the exit code tells nothing more than the output
			close(exited)
		}()
		shown.find(ctx, t, `(?s)Arguments: {"name":"Ada"}.*Caller: a client without a login, which calls itself "parley".*Allow the tool "greet" of the server "one"\?`)
		shown.find(ctx, t, `> \x1b\[[0-9]+mDecline`)
		for _, option := range answer.down {
			p.enter("j")
			shown.find(ctx, t, "(?s)"+option+".*"+option) // drawn again, in the colour of the selected option
		}
		p.enter("\r")
		select {
		case <-exited:
		case <-ctx.Done():
			t.Fatalf("the call does not end; the terminal shows %.2000q", shown)
		}
		if err := up.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := p.wait(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(result.String(), answer.want) {
			t.Errorf("the call prints %q, want %q; the terminal shows %.2000q", result.String(), answer.want, shown)
		}
	}
	audit, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil || strings.Count(string(audit), `"approval":"declined"`) != 1 || strings.Count(string(audit), `"approval":"approved"`) != 2 ||
		strings.Count(string(audit), `"event":"allowed"`) != 3 || strings.Count(string(audit), `"approval":"approved for the session"`) != 4 {
		t.Errorf("audit log: %s, %v", audit, err)
	}
}
