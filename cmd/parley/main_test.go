package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
)

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
			return runtimeDir(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start":      start,
			"background": runInBackground,
			"await":      await,
			"browse":     browse,
			"finish":     finish,
			"absent":     absent,
			"interrupt":  interrupt, // not stop: a built-in command of that name ends the script
			"hangup":     hangup,
			"exits":      exits,
			"get":        get,
			"terminate":  terminate,
			"json":       isJSON,
			"id":         taskID,
			"asks":       asks,
			"killed":     killed,
			"registry":   serveRegistry,
			"misbehaves": misbehaves,
		},
	}
}

// A built-in command named stop ends a script, which passes then.
func TestScriptsRunToTheirEnd(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, path := range scripts {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(archive.Comment)) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "stop" || word == "skip" {
				t.Errorf("%s: the script ends at %q", path, line)
			}
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
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
		if ended != nil && !killed && cmd.ProcessState.ExitCode() != failure.ExitInterrupted {
			t.Errorf("%v: %v\n%s", cmd, ended, output)
		}
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
