package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
)

// waitLimit is the time-out of everything that a test waits for.
const waitLimit = time.Minute

type backgroundKey struct{}

// background is a command that runs in the background of a script.
type background struct {
	cmd    *exec.Cmd
	exited chan error // receives once

	mu      sync.Mutex
	output  bytes.Buffer  // stderr, and stdout of the command background
	written chan struct{} // capacity 1
}

// Write appends to the output.
func (b *background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.output.Write(p)
	select {
	case b.written <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (b *background) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.output.String()
}

// match waits until the output matches pattern, and returns the submatches.
func (b *background) match(ts *testscript.TestScript, pattern string) []string {
	re, err := regexp.Compile(`(?m)` + pattern)
	ts.Check(err)
	timeout := time.NewTimer(waitLimit)
	defer timeout.Stop()
	for {
		if m := re.FindStringSubmatch(b.text()); m != nil {
			return m
		}
		select {
		case <-b.written:
		case err := <-b.exited:
			b.exited <- err
			if re.MatchString(b.text()) {
				continue
			}
			ts.Fatalf("the command exited (%v) without the output %s:\n%s", err, pattern, b.text())
		case <-timeout.C:
			ts.Fatalf("no output %s within %v:\n%s", pattern, waitLimit, b.text())
		}
	}
}

// start NAME args… runs parley with args in the background, and sets $NAME to the URL that it serves.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME args…")
	}
	b := newBackground(ts, args[1:])
	b.run(ts, args[0])
	ts.Setenv(args[0], b.match(ts, `(http://[^\s"]+)`)[1])
}

// browse NAME [deny] opens the login page that NAME has printed, in a new simulated browser, and
// allows or denies the request.
func browse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 || running(ts)[args[0]] == nil || len(args) == 2 && args[1] != "deny" {
		ts.Fatalf("usage: browse NAME [deny]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	browser := &logintest.Browser{Deny: len(args) == 2}
	text, err := browser.LogIn(ctx, running(ts)[args[0]].match(ts, `(http://\S+/login/\S+)`)[1])
	ts.Check(err)
	want := "Login complete"
	if browser.Deny {
		want = "Login failed"
	}
	if !strings.Contains(text, want) {
		ts.Fatalf("the browser ends at %s", text)
	}
}

// finish NAME CODE waits until NAME exits, which must be with the code.
func finish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || running(ts)[args[0]] == nil {
		ts.Fatalf("usage: finish NAME CODE")
	}
	b := running(ts)[args[0]]
	select {
	case err := <-b.exited:
		b.exited <- err
		if got := strconv.Itoa(b.cmd.ProcessState.ExitCode()); got != args[1] {
			ts.Fatalf("exit code %s, want %s\n%s", got, args[1], b.text())
		}
	case <-time.After(waitLimit):
		ts.Fatalf("still running after %v\n%s", waitLimit, b.text())
	}
}

// background NAME args… runs parley with args in the background. The script can await its
// stdout as well as its stderr.
func runInBackground(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: background NAME args…")
	}
	b := newBackground(ts, args[1:])
	b.cmd.Stdout = b
	b.run(ts, args[0])
}

func newBackground(ts *testscript.TestScript, args []string) *background {
	b := &background{cmd: exec.Command(lookPath(ts, "parley"), args...), exited: make(chan error, 1),
		written: make(chan struct{}, 1)}
	b.cmd.Dir = ts.Getenv("WORK")
	b.cmd.Env = os.Environ()
	for _, name := range []string{"PATH", "HOME", "GORACE", "PARLEY_CONFIG_DIR", "PARLEY_CACHE_DIR",
		"PARLEY_NO_KEYRING", "STORE"} {
		b.cmd.Env = append(b.cmd.Env, name+"="+ts.Getenv(name))
	}
	b.cmd.Stdout, b.cmd.Stderr = io.Discard, b
	return b
}

// run starts the command. The end of the script kills it.
func (b *background) run(ts *testscript.TestScript, name string) {
	ts.Check(b.cmd.Start())
	go func() { b.exited <- b.cmd.Wait() }()
	ts.Defer(func() {
		_ = b.cmd.Process.Kill()
		<-b.exited
	})
	running(ts)[name] = b
}

func running(ts *testscript.TestScript) map[string]*background {
	return ts.Value(backgroundKey{}).(map[string]*background)
}

func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	ts.Fatalf("%s is not in PATH", name)
	return ""
}

// await NAME pattern [VARIABLE] waits until the output of NAME matches, and sets the variable to the first submatch.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 || running(ts)[args[0]] == nil {
		ts.Fatalf("usage: await NAME pattern [VARIABLE]")
	}
	found := running(ts)[args[0]].match(ts, args[1])
	if len(args) == 3 {
		ts.Setenv(args[2], found[1])
	}
}

// get STATUS URL [HOST] [~PATTERN...] waits until a request has the status and a body that matches the patterns, and
// stores the body in the file body.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: get STATUS URL [HOST] [~PATTERN...]")
	}
	var patterns []*regexp.Regexp
	for len(args) > 2 && strings.HasPrefix(args[len(args)-1], "~") {
		patterns = append(patterns, regexp.MustCompile("(?m)"+args[len(args)-1][1:]))
		args = args[:len(args)-1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[1], nil)
		ts.Check(err)
		if len(args) == 3 {
			req.Host = args[2]
		}
		resp, err := http.DefaultClient.Do(req)
		ts.Check(err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		ts.Check(err)
		matches := !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return !p.Match(body) })
		if strconv.Itoa(resp.StatusCode) == args[0] && matches {
			ts.Check(os.WriteFile(ts.MkAbs("body"), body, 0o600))
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			ts.Fatalf("status %d within %v, want %s and %v: %s", resp.StatusCode, waitLimit, args[0], patterns, body)
		}
	}
}

// terminate NAME sends SIGTERM to NAME.
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || running(ts)[args[0]] == nil {
		ts.Fatalf("usage: terminate NAME")
	}
	ts.Check(running(ts)[args[0]].cmd.Process.Signal(syscall.SIGTERM))
}

// absent NAME text fails if the output of NAME contains the text.
func absent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || running(ts)[args[0]] == nil {
		ts.Fatalf("usage: absent NAME text")
	}
	if text := running(ts)[args[0]].text(); strings.Contains(text, args[1]) {
		ts.Fatalf("the output contains %s:\n%s", args[1], text)
	}
}

// hangup NAME sends SIGHUP to NAME.
func hangup(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || running(ts)[args[0]] == nil {
		ts.Fatalf("usage: hangup NAME")
	}
	ts.Check(running(ts)[args[0]].cmd.Process.Signal(syscall.SIGHUP))
}

// interrupt NAME interrupts NAME, which must exit with code 0.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || running(ts)[args[0]] == nil {
		ts.Fatalf("usage: interrupt NAME")
	}
	b := running(ts)[args[0]]
	ts.Check(b.cmd.Process.Signal(os.Interrupt))
	select {
	case err := <-b.exited:
		b.exited <- err
		if err != nil {
			ts.Fatalf("after an interrupt: %v\n%s", err, b.text())
		}
	case <-time.After(waitLimit):
		ts.Fatalf("still running %v after an interrupt\n%s", waitLimit, b.text())
	}
}

// exits CODE command args… runs a command, which must exit with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command args…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// json FILE fails unless FILE (or stdout) is one JSON value.
func isJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: json FILE")
	}
	if text := ts.ReadFile(args[0]); !json.Valid([]byte(text)) {
		ts.Fatalf("must be one JSON value:\n%s", text)
	}
}

// id NAME sets $NAME to the id of a task, which the last command has printed.
func taskID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: id NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// asks NAME URL waits until the task $NAME at a server asks a question.
func asks(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: asks NAME URL")
	}
	timeout, poll := time.NewTimer(waitLimit), time.NewTicker(50*time.Millisecond)
	defer timeout.Stop()
	defer poll.Stop()
	for {
		ts.Check(ts.Exec("parley", "task", "get", args[1], ts.Getenv(args[0])))
		status := ts.ReadFile("stdout")
		if strings.HasPrefix(status, "status: input_required\n") {
			return
		}
		select {
		case <-timeout.C:
			ts.Fatalf("no question within %v:\n%s", waitLimit, status)
		case <-poll.C:
		}
	}
}

// registry VARIABLE DIR serves the responses of a registry in a directory, and sets the variable to its URL. The list
// of servers is list.json, and the latest version of the server a/b is a_b.json.
func serveRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: registry VARIABLE DIR")
	}
	dir := ts.MkAbs(args[1])
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := "/list.json"
		if r.URL.Path != "/v0.1/servers" {
			name, _ := strings.CutPrefix(r.URL.EscapedPath(), "/v0.1/servers/")
			name, _ = strings.CutSuffix(name, "/versions/latest")
			path = "/" + strings.ReplaceAll(name, "%2F", "_") + ".json"
		}
		body, err := os.ReadFile(dir + path)
		if err != nil || strings.Contains(path, "..") {
			w.WriteHeader(http.StatusNotFound)
			body = []byte(`{"title": "Not Found", "status": 404, "detail": "Server not found"}`)
		}
		_, _ = w.Write(body) // the client sees an error
	}))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}

// The scripts run the test binary as parley.
func TestMain(m *testing.M) {
	testscript.Main(withCache{m}, map[string]func(){"parley": func() {
		patience, err := time.ParseDuration(os.Getenv("PATIENCE"))
		if err != nil {
			patience = 10 * time.Second
		}
		os.Exit(runMain(completion.WithPatience(program.NotifyContext(), patience), os.Args[1:]))
	}})
}

// withCache runs the tests with a cache of their own.
type withCache struct{ *testing.M }

// Run implements testscript.TestingM.
func (m withCache) Run() int {
	dir, err := os.MkdirTemp("", "parley-cache")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("PARLEY_CACHE_DIR", dir)
	return m.M.Run()
}

// The scripts run parley as a user does, with real processes and sockets.
func TestScripts(t *testing.T) { testscript.Run(t, scripts("testdata/script")) }

func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[backgroundKey{}] = make(map[string]*background)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // without it each process takes a second to exit
			env.Setenv("PARLEY_CONFIG_DIR", filepath.Join(env.WorkDir, "config"))
			env.Setenv("PARLEY_CACHE_DIR", filepath.Join(env.WorkDir, "cache"))
			env.Setenv("PARLEY_NO_KEYRING", "1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": start, "background": runInBackground, "await": await, "browse": browse, "finish": finish,
			"absent": absent, "interrupt": interrupt, // not stop: a built-in command of that name ends the script
			"hangup": hangup, "exits": exits, "get": get, "terminate": terminate, "json": isJSON, "id": taskID,
			"asks": asks, "registry": serveRegistry, "misbehaves": misbehaves,
		},
	}
}

// A built-in command named stop ends a script, which passes then.
func TestScriptsRunToTheirEnd(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*/*.txtar")
	must.That(t, err == nil && len(scripts) != 0, "no scripts %v", err)
	for _, path := range scripts {
		archive := must.Get(txtar.ParseFile(path))(t)
		for line := range strings.Lines(string(archive.Comment)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			must.CheckThat(t, word != "stop" && word != "skip", "%s: the script ends at %q", path, line)
		}
	}
}

// startParley starts the test binary as parley, with a configuration of its own; see startProgram.
func startParley(t *testing.T, pattern string, args ...string) string {
	t.Helper()
	cmd := exec.Command("parley", args...)
	cmd.Env = append(os.Environ(), "PARLEY_CONFIG_DIR="+t.TempDir(), "PARLEY_NO_KEYRING=1", "GORACE=atexit_sleep_ms=0")
	return startProgram(t, pattern, cmd)
}

// startProgram starts a program, and returns the first text in a line of its output that matches the pattern. The end
// of the test interrupts the program.
func startProgram(t *testing.T, pattern string, cmd *exec.Cmd) string {
	t.Helper()
	output := &outputMatch{pattern: regexp.MustCompile(pattern), match: make(chan string, 1)}
	cmd.Stdout, cmd.Stderr = output, output
	must.Do(t, cmd.Start())
	var ended error
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		ended = cmd.Wait()
	}()
	t.Cleanup(func() {
		err := cmd.Process.Signal(os.Interrupt)
		killed := err != nil && !errors.Is(err, os.ErrProcessDone) // Windows has no signals
		if killed {
			_ = cmd.Process.Kill()
		}
		<-exited
		must.CheckThat(t, ended == nil || killed || cmd.ProcessState.ExitCode() == failure.ExitInterrupted,
			"%v: %v\n%s", cmd, ended, output)
	})
	select {
	case match := <-output.match:
		return match
	case <-exited:
		t.Fatalf("%v has ended without %s in its output: %v\n%s", cmd, pattern, ended, output)
	case <-time.After(waitLimit):
		t.Fatalf("%v has not written %s in %v:\n%s", cmd, pattern, waitLimit, output)
	}
	return ""
}

// outputMatch finds the first text that matches a pattern in the lines of an output.
type outputMatch struct {
	pattern *regexp.Regexp
	match   chan string // has a capacity of 1

	mu    sync.Mutex
	lines bytes.Buffer
	found bool
}

// Write implements io.Writer.
func (o *outputMatch) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines.Write(p)
	if o.found {
		return len(p), nil
	}
	text := o.lines.Bytes()
	if match := o.pattern.Find(text[:bytes.LastIndexByte(text, '\n')+1]); match != nil {
		o.found = true
		o.match <- string(match)
	}
	return len(p), nil
}

// String returns the output.
func (o *outputMatch) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines.String()
}
