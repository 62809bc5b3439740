package client_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// Rule S5: the same with a process, which counts the calls that have run.
func TestExitedProcessIsRestarted(t *testing.T) {
	executions := filepath.Join(t.TempDir(), "executions")
	s := withToolAnswers("!exit 3 out of cheese")
	s.Executions = executions
	d := quiet()
	lost := make(chan error, 10)
	d.OnConnectionLost = func(err error) { lost <- err }
	c, err := d.Dial(t.Context(), child(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 3 {
		_, err := c.CallTool(t.Context(), "a", nil)
		var exit *transport.ExitError
		if !errors.Is(err, client.ErrConnectionLost) || !errors.As(err, &exit) || exit.Code != 3 || !strings.Contains(err.Error(), "out of cheese") {
			t.Errorf("got %v", err)
		}
		if n := executed(t, executions); n != i+1 {
			t.Errorf("the tool ran %d times after %d calls", n, i+1)
		}
		if err := <-lost; !errors.As(err, &exit) {
			t.Errorf("OnConnectionLost received %v", err)
		}
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
}

// Two processes of one target do not run at the same time.
func TestProcessExitsBeforeTheNextStarts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accept := func() net.Conn {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	s := withToolAnswers("!mute")
	s.Life, s.Stubborn = listener.Addr().String(), true
	p := child(t, s)
	p.ExitGrace, p.TermGrace = 50*time.Millisecond, 50*time.Millisecond
	d := quiet()
	c, err := d.Dial(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	first := accept()
	defer first.Close()
	if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrConnectionLost) {
		t.Errorf("got %v", err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	second := accept()
	defer second.Close()
	first.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // the process must have exited already
	var timeout net.Error
	if _, err := first.Read(make([]byte, 1)); errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("the first process is still running")
	}
}

func executed(t *testing.T, file string) int {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(raw), "\n")
}

func TestDialErrorHasExitCodeAndStderr(t *testing.T) {
	for _, test := range []struct {
		script script
		want   []string
	}{
		{script{Otherwise: "!exit 7 no such file: config.json"}, []string{"code 7", "no such file: config.json"}},
		{script{Otherwise: "!exit 0 bye"}, []string{"code 0"}},
		{script{Cut: `{"jsonrpc":"2.0","id":1,"result":{"x":"`}, []string{"of a message", "code 7", "no such file: config.json"}},
	} {
		_, err := client.Dial(t.Context(), child(t, &test.script))
		if !errors.Is(err, client.ErrConnectionLost) {
			t.Errorf("got %v", err)
		}
		for _, want := range test.want {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("error %q lacks %q", err, want)
			}
		}
	}
}

// Servers that expect initialize first exit on server/discover, and some on a revision that they reject. Their process
// is started again with initialize. A process that exits for another reason is not.
func TestProcessThatExitsOnAMessageIsStartedAgain(t *testing.T) {
	const exits, rejects = "!exit 1 expected initialize", `"error":{"code":-32602,"message":"the version must be 2024-11-05"}`
	for name, test := range map[string]struct {
		server   script
		revision mcp.Revision // of the Dialer
		starts   int
		fails    bool
	}{
		"on server/discover":          {server: script{Answers: answers("server/discover", exits, "initialize", initialized)}, starts: 2},
		"on every message":            {server: script{Otherwise: exits}, starts: 2, fails: true},
		"before it reads":             {server: script{Unable: true}, starts: 1, fails: true},
		"in the only revision":        {server: script{Otherwise: exits}, revision: mcp.V20260728, starts: 1, fails: true},
		"in an old revision":          {server: script{Otherwise: exits}, revision: mcp.V20241105, starts: 1, fails: true},
		"after it rejects a revision": {server: script{Answers: answers("server/discover", methodNotFound, "initialize", rejects), Last: "initialize"}, starts: 2, fails: true},
		"on both":                     {server: script{Answers: answers("server/discover", exits, "initialize", rejects), Last: "initialize"}, starts: 3, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := test.server
			s.Starts = filepath.Join(t.TempDir(), "starts")
			d := quiet()
			d.Revision = test.revision
			c, err := d.Dial(t.Context(), child(t, &s))
			if (err != nil) != test.fails || err == nil && c.Revision() != mcp.V20250618 {
				t.Errorf("%v", err)
			}
			if err == nil {
				callTwice(t, c)
				c.Close()
			}
			if n := executed(t, s.Starts); n != test.starts {
				t.Errorf("the process was started %d times, want %d", n, test.starts)
			}
		})
	}
}

func TestMissingCommandIsAnError(t *testing.T) {
	_, err := client.Dial(t.Context(), client.Command("parley-no-such-command"))
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "parley-no-such-command") {
		t.Errorf("got %v", err)
	}
}

// A line above the limit is not read into memory.
func TestEndlessLineIsLimited(t *testing.T) {
	d := quiet()
	d.MaxMessage = 256 << 10
	flood := withToolAnswers("!flood")
	c, err := d.Dial(t.Context(), child(t, flood))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = c.CallTool(t.Context(), "a", nil)
	runtime.ReadMemStats(&after)
	var tooLarge *transport.MessageTooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Limit != 256<<10 {
		t.Errorf("got %v", err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4<<20 {
		t.Errorf("the client allocated %d bytes", allocated)
	}
}
