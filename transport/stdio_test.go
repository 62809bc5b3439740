//go:build unix

package transport_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

func TestPrintedTextGoesToStderr(t *testing.T) {
	var lines []string
	opts := as("print")
	opts.ExitGrace = testTimeout
	opts.Stderr = func(line string) { lines = append(lines, line) }
	p := start(t, opts)
	for i := range 3 {
		send(t, p, fmt.Sprint("message ", i))
		wantMessage(t, p, fmt.Sprint("message ", i))
	}
	p.Close()
	want := "stray print of message 0 stray print of message 1 stray print of message 2"
	must.Equal(t, strings.Join(lines, " "), want)
}

// run runs this test binary in a role with the given files as its standard streams.
func run(t *testing.T, role string, stdin io.Reader, stdout, stderr io.Writer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = slices.Concat(os.Environ(), quietExit(), []string{roleVariable + "=" + role})
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	must.Do(t, cmd.Run(), role, "standard error", stderr)
}

func TestCloseOfStdioRestoresDescriptors(t *testing.T) {
	stdin, w, err := os.Pipe()
	must.Do(t, err)
	defer stdin.Close()
	defer w.Close()
	var stdout, stderr bytes.Buffer // os/exec creates pipes for them
	run(t, "stdio states", stdin, &stdout, &stderr)
	want := `before: stdin nonblocking false, stdout nonblocking false, stdout is stderr false
open: stdin nonblocking true, stdout nonblocking false, stdout is stderr true
closed: stdin nonblocking false, stdout nonblocking false, stdout is stderr false
kept: stdin nonblocking true, stdout nonblocking true, stdout is stderr false
kept: stdin nonblocking true, stdout nonblocking true, stdout is stderr false
`
	must.CheckEqual(t, stderr.String(), want)
	must.CheckEqual(t, stdout.String(), "after Close\n")
}

func TestStdioDoesNotChangeModeOfPipeSharedWithStderr(t *testing.T) {
	var both bytes.Buffer
	run(t, "stdio states", strings.NewReader(""), &both, &both) // one pipe, as with 2>&1
	want := `before: stdin nonblocking false, stdout nonblocking false, stdout is stderr true
open: stdin nonblocking true, stdout nonblocking false, stdout is stderr true
closed: stdin nonblocking false, stdout nonblocking false, stdout is stderr true
kept: stdin nonblocking true, stdout nonblocking false, stdout is stderr true
kept: stdin nonblocking true, stdout nonblocking false, stdout is stderr true
after Close
`
	must.CheckEqual(t, both.String(), want)
}

func TestStdioWorksWithFiles(t *testing.T) {
	dir := t.TempDir()
	var in strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&in, "{\"id\":%d}\n", i)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "in"), []byte(in.String()), 0o600))
	stdin := must.Get(os.Open(filepath.Join(dir, "in")))(t)
	defer stdin.Close()
	stdout := must.Get(os.Create(filepath.Join(dir, "out")))(t)
	defer stdout.Close()
	var stderr bytes.Buffer
	run(t, "echo", stdin, stdout, &stderr)
	out := must.Get(os.ReadFile(filepath.Join(dir, "out")))(t)
	must.Equal(t, string(out), in.String(), "the output differs from the input", len(out), in.Len())
}

func TestStdioOfDevNullReturnsEOF(t *testing.T) {
	null := must.Get(os.OpenFile(os.DevNull, os.O_RDWR, 0))(t)
	defer null.Close()
	var stderr bytes.Buffer
	run(t, "echo", null, null, &stderr)
}

func TestStdioWorksWithSockets(t *testing.T) {
	// Some clients connect to a child with a socket pair instead of pipes.
	parent, child := socketPair(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = slices.Concat(os.Environ(), quietExit(), []string{roleVariable + "=echo"})
	cmd.Stdin, cmd.Stdout = child, child
	must.Do(t, cmd.Start())
	child.Close()
	conn := transport.Stream(parent, transport.StreamOptions{})
	for i := range 100 {
		send(t, conn, fmt.Sprint("message ", i))
	}
	for i := range 100 {
		wantMessage(t, conn, fmt.Sprint("message ", i))
	}
	must.Do(t, conn.Close())
	must.Do(t, cmd.Wait())
}
