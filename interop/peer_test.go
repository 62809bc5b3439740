//go:build integration

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// peerTimeout is the limit for one peer process. On a busy machine, Node takes a second to start.
const peerTimeout = time.Minute

// observation is the output of a client peer; see npm/use/observe.mjs.
type observation struct {
	SDK      string
	Revision string
	Session  bool // it has a session id
	Server   struct{ Name, Version string }
	Tools    map[string]json.RawMessage
	Calls    map[string]callObservation
	Progress []struct {
		Progress, Total float64
		Message         string
	}

	Pages    int // of the list of tools
	Data     dataObservation
	Cache    cacheObservation
	Called   callsObservation
	Changed  changesObservation
	Answered inputRequestsObservation
}

// callObservation is the result of a tool, or the protocol error if Error is not nil.
type callObservation struct {
	Content           []struct{ Type, Text string }
	StructuredContent json.RawMessage
	IsError           bool
	Error             *observedError
}

// observedError is an error of the SDK.
type observedError struct {
	Type    string
	Code    any // a number, or a string for an error of the SDK itself
	Message string
	Data    json.RawMessage
}

func (e *observedError) String() string {
	return fmt.Sprintf("%s %v: %s %s", e.Type, e.Code, e.Message, e.Data)
}

// text joins the text blocks of a result.
func (c callObservation) text() string {
	var blocks []string
	for _, block := range c.Content {
		blocks = append(blocks, block.Text)
	}
	return strings.Join(blocks, "\n")
}

// node returns the command line of a peer. These tests fail if a tool is missing; they never skip.
func node(t *testing.T, peer string, args ...string) []string {
	t.Helper()
	for _, tool := range []string{"../.tools/conformance/node_modules/.bin/node", "npm/node_modules/zod"} {
		if _, err := os.Stat(tool); err != nil {
			t.Fatalf("cannot find the interop peers: %v; run scripts/tools", err)
		}
	}
	program, err := filepath.Abs("../.tools/conformance/node_modules/.bin/node")
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join("npm", peer))
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{program, script}, args...)
}

// observe runs a client peer for all subjects.
func observe(t *testing.T, command []string) (seen observation) {
	t.Helper()
	run(t, command, &seen)
	return seen
}

// run runs a client peer and decodes its output.
func run(t *testing.T, command []string, seen any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), peerTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), serveVariable+"=yes") // if it starts this test binary
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, stderr.Bytes())
	}
	if err := json.Unmarshal(stdout.Bytes(), seen); err != nil {
		t.Fatalf("cannot decode the output of %s: %v\n%s", strings.Join(command, " "), err, stdout.Bytes())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s printed\n%s%s", strings.Join(command, " "), stdout.Bytes(), stderr.Bytes())
		}
	})
}

// listen starts a server peer over HTTP until the end of the test, and returns its URL.
func listen(t *testing.T, command []string) (url string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(peerTimeout, func() { _ = cmd.Process.Kill() })
	defer timeout.Stop()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
		if t.Failed() && stderr.Len() > 0 {
			t.Logf("%s wrote\n%s", strings.Join(command, " "), stderr.Bytes())
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%s printed no URL: %v", strings.Join(command, " "), err)
	}
	return strings.TrimSpace(line)
}

// check compares an observation with the features that every server of these tests has. The errors for an unknown tool and
// for invalid arguments differ between servers; the caller checks them.
func (o observation) check(t *testing.T, revision string) {
	t.Helper()
	if o.Revision != revision {
		t.Errorf("revision %q, want %q", o.Revision, revision)
	}
	if o.Server.Name == "" || o.Server.Version == "" {
		t.Errorf("server info %+v, want a name and a version", o.Server)
	}
	for _, tool := range []string{"echo", "add", "count", "fail"} {
		if _, ok := o.Tools[tool]; !ok {
			t.Errorf("tool %q is not listed", tool)
		}
	}
	for name, want := range map[string]string{"echo": "héllo", "count": "counted to 5"} {
		if call := o.Calls[name]; call.Error != nil || call.IsError || call.text() != want {
			t.Errorf("%s: %+v, want %q", name, call, want)
		}
	}
	var added struct{ Sum float64 }
	call := o.Calls["add"]
	data := []byte(call.StructuredContent)
	if revision < "2025-06-18" { // earlier revisions have no structured content
		data = []byte(call.text())
	}
	if call.Error != nil || call.IsError || json.Unmarshal(data, &added) != nil || added.Sum != 42 {
		t.Errorf("add: %+v, want the sum 42 as data", call)
	}
	if call := o.Calls["fail"]; call.Error != nil || !call.IsError || call.text() == "" {
		t.Errorf("fail: %+v, want a tool error with a text", call)
	}
	for _, name := range []string{"badArguments", "unknownTool"} {
		if call := o.Calls[name]; call.Error == nil && !call.IsError {
			t.Errorf("%s: %+v, want an error", name, call)
		}
	}
	if len(o.Progress) != 5 {
		t.Fatalf("%d progress notifications, want 5: %+v", len(o.Progress), o.Progress)
	}
	for i, step := range o.Progress {
		if step.Progress != float64(i+1) || step.Total != 5 {
			t.Errorf("progress notification %d is %+v", i, step)
		}
	}
	o.Data.check(t, revision)
	o.Cache.check(t, revision)
	o.Called.check(t, revision)
	o.Changed.check(t, revision)
	o.Answered.check(t, revision)
}
