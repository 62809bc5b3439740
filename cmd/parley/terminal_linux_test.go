package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The user who runs parley up approves the calls of clients that cannot be asked.
func TestUpAsksForApprovalsAtTheTerminal(t *testing.T) {
	program, err := exec.LookPath("parley")
	must.Do(t, err)
	dir := t.TempDir()
	config := filepath.Join(dir, "mcp.json")
	must.Do(t, os.WriteFile(config,
		[]byte(`{"mcpServers":{"one":{"command":"parley","args":["serve","--stdio"]}},"policy":{"default":"ask"}}`),
		0o600))
	env := terminalEnv(dir)
	for _, answer := range []struct {
		down  []string // the options to go down to
		names []string // to greet, with a client that has a session
		want  string
	}{
		{nil, []string{"Ada"}, "it was not approved: the user declined"},
		{[]string{"Allow once"}, []string{"Ada"}, "Hello, Ada!"},
		{[]string{"Allow once", "Allow for this session, with any arguments"}, []string{"Ada", "Bob"},
			"Hello, Ada!\nHello, Bob!"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		up := exec.CommandContext(ctx, program, "up", "--config", config, "--addr", "127.0.0.1:0", "--audit",
			filepath.Join(dir, "audit.log"))
		up.Env, up.Stdout = env, io.Discard
		p := startAtTerminal(t, up, true)
		shown := p.shown
		url := shown.find(ctx, t, `(http://[0-9.:]+/mcp)`)[1]
		shown.find(ctx, t, `✓.* one `)
		c, err := (&client.Dialer{Name: "parley", Revision: mcp.V20251125}).Dial(ctx, client.URL(url))
		must.Do(t, err)
		defer c.Close()
		var result strings.Builder
		exited := make(chan struct{})
		go func() {
			defer close(exited)
			for _, name := range answer.names {
				fmt.Fprintln(&result, greet(ctx, c, name))
			}
		}()
		shown.find(ctx, t,
			`(?s)Arguments: {"name":"Ada"}.*Caller: a client without a login, which calls itself "parley".*Allow the `+
				`tool "greet" of the server "one"\?`)
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
		must.Check(t, up.Process.Signal(os.Interrupt))
		must.Check(t, p.wait())
		must.CheckThat(t, strings.Contains(result.String(), answer.want),
			"the call prints %q, want %q; the terminal shows %.2000q", result.String(), answer.want, shown)
	}
	audit, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	must.CheckThat(t, err == nil && strings.Count(string(audit), `"approval":"declined"`) == 1 &&
		strings.Count(string(audit), `"approval":"approved"`) == 2 &&
		strings.Count(string(audit), `"event":"allowed"`) == 3 &&
		strings.Count(string(audit), `"approval":"approved for the session"`) == 4, "audit log: %s, %v", audit, err)
}

// greet calls the tool greet of the server one, and returns its text or the error.
func greet(ctx context.Context, c *client.Client, name string) string {
	result, err := c.CallTool(ctx, "one__greet", map[string]string{"name": name})
	if err != nil {
		return err.Error()
	}
	if block, ok := result.Content[0].(*mcp.TextContent); ok {
		return block.Text
	}
	return "no text"
}

// choose runs the program at a terminal, and answers its question with Yes or No. It returns what the terminal has
// shown before.
func choose(t *testing.T, question, choice string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	user, program := openTerminal(t)
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(program)
	root.SetErr(program)
	root.SetOut(io.Discard)
	shown := &terminalText{written: make(chan struct{}, 1)}
	go func() { _, _ = io.Copy(shown, user) }() // until the test closes the terminal
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	_, end := shown.after(ctx, t, 0, question)
	before := shown.String()[:end]
	if _, end = shown.after(ctx, t, end, `> \x1b\[[0-9;]+mNo`); choice == "Yes" {
		_, _ = user.WriteString("k")
		shown.after(ctx, t, end, `> \x1b\[[0-9;]+mYes`)
	}
	_, _ = user.WriteString("\r")
	select {
	case err := <-ended:
		must.CheckThat(t, err == nil || choice != "Yes", "%v; the terminal shows %.4000q", err, shown)
	case <-ctx.Done():
		t.Fatalf("the command does not end; the terminal shows %.4000q", shown)
	}
	return before
}

func TestAddOffersToStoreSecretsInTheKeyring(t *testing.T) {
	keyring.MockInit() // do not use the user's keyring
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	t.Setenv("PARLEY_NO_KEYRING", "")
	path := filepath.Join(t.TempDir(), "mcp.json")
	line := []string{"add", "--config", path, "notes", "https://ada:first@example.com/mcp?token=second", "-H",
		"X-Auth: Bearer third"}
	choose(t, "Store in the system's keyring", "No", line...)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("after No: %v", err)
	}
	before := choose(t, "Store in the system's keyring", "Yes", line...)
	text, err := os.ReadFile(path)
	must.Do(t, err)
	for account, secret := range map[string]string{"notes.X-Auth": "third", "notes.password.2": "first",
		"notes.token.3": "second"} {
		got, err := keyring.Get("parley", account)
		must.CheckThat(t, err == nil && got == secret && !bytes.Contains(text, []byte(secret)) &&
			!strings.Contains(before, secret), "%s: %q, %v in\n%s", account, got, err, text)
	}
	for _, want := range []string{
		`"https://ada:${keyring:parley/notes.password.2}@example.com/mcp?token=${keyring:parley/notes.token.3}"`,
		`"Bearer ${keyring:parley/notes.X-Auth}"`,
	} {
		must.CheckThat(t, bytes.Contains(text, []byte(want)), "no %s in\n%s", want, text)
	}
}

func TestLockAcceptShowsTheDifferencesAndAsks(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PARLEY_CONFIG_DIR", dir)
	t.Setenv("PARLEY_NO_KEYRING", "1")
	path, locked := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "mcp.lock")
	const none = `{"format": 1, "servers": {}}`
	for file, text := range map[string]string{path: `{"mcpServers": {"one": {"command": "parley", "args": ["serve", ` +
		`"--stdio"]}}}`, locked: none} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	}
	for choice, accepted := range map[string]bool{"No": false, "Yes": true} {
		before := choose(t, `Accept these differences\?`, choice, "lock", "accept", "--config", path, "one", "greet")
		must.CheckThat(t, strings.Contains(before, `one: + tool "greet" is new`) &&
			!strings.Contains(before, "weather"), "before the question: %s", before)
		text, err := os.ReadFile(locked)
		must.CheckThat(t, err == nil && (string(text) != none) == accepted &&
			bytes.Contains(text, []byte(`"greet"`)) == accepted && !bytes.Contains(text, []byte("weather")),
			"after %s: %v\n%s", choice, err, text)
		must.Do(t, os.WriteFile(locked, []byte(none), 0o600))
	}
}

// Ctrl-C at a question ends the command. In a session the server learns that the call is cancelled; in 2026-07-28 the
// call has already ended with the question, and the handler does not run again.
func TestInterruptAtAQuestionCancelsTheCall(t *testing.T) {
	program, err := exec.LookPath("parley")
	must.Do(t, err)
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
	for _, test := range []struct{ revision, keys string }{{"2025-11-25", "\x03"}, {"2025-11-25", "A\x03"},
		{"2026-07-28", "\x03"}} {
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
			must.CheckThat(t, errors.Is(err, call.ErrCancelled) || test.revision != "2025-11-25",
				"%s, keys %q: the question returns %v, want that the client has cancelled the call", test.revision,
				test.keys, err)
		case <-ctx.Done():
			t.Errorf("%s, keys %q: the server still serves the call", test.revision, test.keys)
		}
		mu.Lock()
		must.CheckThat(t, runs == 1, "%s: the handler runs %d times", test.revision, runs)
		mu.Unlock()
	}
}

// At a terminal, parley task wait shows the questions of both kinds of tasks.
func TestTaskWaitAsksAtTheTerminal(t *testing.T) {
	program, err := exec.LookPath("parley")
	must.Do(t, err)
	s := httptest.NewServer(demo.New("0"))
	t.Cleanup(s.Close)
	env := terminalEnv(t.TempDir())
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		call := exec.CommandContext(ctx, program, "call", "--task", "--revision", revision, s.URL, "bake", "kind=plum",
			"milliseconds=1")
		call.Env = env
		id, err := call.Output()
		must.Do(t, err, revision)
		wait := exec.CommandContext(ctx, program, "task", "wait", "--revision", revision, s.URL,
			strings.TrimSpace(string(id)))
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
		if err != nil || !strings.Contains(result.String(), ": plum, icing: sugar, candles: 0. ") ||
			!strings.Contains(p.shown.String(), "The plum cake is baked.") {
			t.Errorf("%s: %v, result %q, terminal %q", revision, err, result.String(), p.shown)
		}
	}
}
