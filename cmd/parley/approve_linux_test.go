package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/charmbracelet/x/term"
)

// terminalText is what a program has written to a terminal.
type terminalText struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{} // capacity 1
}

func (s *terminalText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.written <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *terminalText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// find waits until the text matches a pattern, and returns the submatches.
func (s *terminalText) find(ctx context.Context, t *testing.T, pattern string) []string {
	t.Helper()
	m, _ := s.after(ctx, t, 0, pattern)
	return m
}

// after is like find for the text after its first from bytes. It also returns the end of the match in the text.
func (s *terminalText) after(ctx context.Context, t *testing.T, from int, pattern string) (submatches []string, end int) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		text := s.String()[from:]
		if m := re.FindStringSubmatch(text); m != nil {
			return m, from + re.FindStringIndex(text)[1]
		}
		select {
		case <-s.written:
		case <-ctx.Done():
			t.Fatalf("the terminal does not show %s: %.4000q", pattern, text)
		}
	}
}

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
	env := append(os.Environ(), "TERM=xterm-256color", "PARLEY_NO_KEYRING=1", "PARLEY_CONFIG_DIR="+dir)
	for _, answer := range []struct {
		down bool // to the second option
		want string
	}{{false, "it was not approved: the user declined"}, {true, "Hello, Ada!"}} {
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		user, terminal := openTerminal(t)
		if _, err := term.MakeRaw(terminal.Fd()); err != nil { // see TestTaskWaitAsksAtTheTerminal
			t.Fatal(err)
		}
		up := exec.CommandContext(ctx, program, "up", "--config", config, "--addr", "127.0.0.1:0", "--audit", filepath.Join(dir, "audit.log"))
		up.Env, up.Stdin, up.Stdout, up.Stderr = env, terminal, io.Discard, terminal
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		terminal.Close()
		shown := &terminalText{written: make(chan struct{}, 1)}
		var reading sync.WaitGroup
		reading.Go(func() {
			if _, err := io.Copy(shown, user); err != nil && !errors.Is(err, syscall.EIO) { // EIO: the program has exited
				t.Error(err)
			}
		})
		url := shown.find(ctx, t, `(http://[0-9.:]+/mcp)`)[1]
		shown.find(ctx, t, `✓.* one `)

		call := exec.CommandContext(ctx, program, "call", url, "one__greet", "name=Ada")
		var result bytes.Buffer
		call.Env, call.Stdout, call.Stderr = env, &result, &result
		if err := call.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan struct{})
		go func() {
			_ = call.Wait() // the exit code tells nothing more than the output
			close(exited)
		}()
		shown.find(ctx, t, `(?s)Allow the tool "greet" of the server "one"\?.*Arguments: {"name":"Ada"}`)
		shown.find(ctx, t, `> \x1b\[[0-9]+mNo`)
		if answer.down {
			_, _ = user.WriteString("j")
			shown.find(ctx, t, `(?s)Yes, once.*Yes, once`) // drawn again, in the colour of the selected option
		}
		_, _ = user.WriteString("\r")
		select {
		case <-exited:
		case <-ctx.Done():
			t.Fatalf("the call does not end; the terminal shows %.2000q", shown)
		}
		if err := up.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := up.Wait(); err != nil {
			t.Error(err)
		}
		reading.Wait()
		if !strings.Contains(result.String(), answer.want) {
			t.Errorf("the call prints %q, want %q; the terminal shows %.2000q", result.String(), answer.want, shown)
		}
	}
	audit, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil || strings.Count(string(audit), `"approval":"declined"`) != 1 || strings.Count(string(audit), `"event":"allowed"`) != 1 {
		t.Errorf("audit log: %s, %v", audit, err)
	}
}
