package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
)

// startParley starts the test binary as parley, with a configuration of its own; see startProgram.
func startParley(t *testing.T, pattern string, args ...string) string {
	t.Helper()
	cmd := exec.Command("parley", args...)
	cmd.Env = append(os.Environ(), "PARLEY_CONFIG_DIR="+t.TempDir(), "PARLEY_NO_KEYRING=1", "GORACE=atexit_sleep_ms=0")
	return startProgram(t, pattern, cmd)
}

// startProgram starts a program, and returns the first text in a line of its output that matches the pattern. The end of
// the test interrupts the program.
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
