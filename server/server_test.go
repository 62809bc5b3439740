package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

func TestTheZeroServerServes(t *testing.T) {
	for _, r := range mcp.Revisions() {
		c := mcptest.Dial(t, new(server.Server), mcptest.WithRevision(r))
		if info := c.Server().Info; info.Name != "parley" || info.Version != "0.0.0" {
			t.Errorf("%s: %+v", r, info)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
}

// Middleware sees every call and its caller.
func TestMiddlewareSeesEveryCall(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	s := &server.Server{Middleware: []call.Middleware{func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			mu.Lock()
			seen = append(seen, c.Method())
			mu.Unlock()
			if c.Principal() != principal.Local || c.Peer().Info.Name != "parley" {
				t.Errorf("%s by %v, %+v", c.Method(), c.Principal(), c.Peer().Info)
			}
			return next(ctx, c)
		}
	}}}
	server.AddTool(s, mcp.Tool{Name: "who"}, func(ctx context.Context, _ struct{}) (string, error) {
		return fmt.Sprintf("%v %s", server.PrincipalOf(ctx) == principal.Local, server.PeerOf(ctx).Info.Name), nil
	})
	c := mcptest.Dial(t, s)
	if text, err := client.CallTool[string](t.Context(), c, "who", nil); err != nil || text != "true parley" {
		t.Errorf("%q, %v", text, err)
	}
	if got := strings.Join(seen, " "); got != "server/discover tools/call" {
		t.Errorf("seen: %s", got)
	}
}

func TestAContextOutsideOfAHandlerHasNoCall(t *testing.T) {
	ctx := t.Context()
	if err := server.Progress(ctx, 1, 2, ""); !errors.Is(err, call.ErrNoCall) {
		t.Errorf("Progress: %v", err)
	}
	if p := server.PeerOf(ctx); p != (call.Peer{}) {
		t.Errorf("PeerOf: %+v", p)
	}
	if p := server.PrincipalOf(ctx); p != principal.Anonymous {
		t.Errorf("PrincipalOf: %v", p)
	}
}

func TestProgressAfterTheHandlerIsAnError(t *testing.T) {
	s := new(server.Server)
	var kept context.Context
	server.AddTool(s, mcp.Tool{Name: "keep"}, func(ctx context.Context, _ struct{}) (string, error) {
		kept = ctx
		return "", server.Progress(ctx, 1, 2, "")
	})
	c := mcptest.Dial(t, s)
	if _, err := c.CallTool(t.Context(), "keep", nil, client.WithProgress(func(float64, float64, string) {})); err != nil {
		t.Fatal(err)
	}
	if err := server.Progress(kept, 2, 2, ""); !errors.Is(err, call.ErrCallDone) {
		t.Errorf("got %v", err)
	}
}

// S4, with the standard streams of a real process: it answers the requests and exits, and the program's
// own output does not disturb the protocol.
func TestRunServesStandardInputUntilItEnds(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), runVariable+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stdin = strings.NewReader(request(1, mcp.MethodCallTool, `"name":"greet","arguments":{"name":"Ada"}`) + "\n" + request(2, mcp.MethodListTools, "") + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 2 || !strings.Contains(string(out), "Hello, Ada!") || !strings.Contains(string(out), `"name":"greet"`) {
		t.Errorf("it wrote %s", out)
	}
}

const runVariable = "PARLEY_SERVER_TEST_RUN"

// run is the server of TestRunServesStandardInputUntilItEnds.
func run() {
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(ctx context.Context, in greeting) (string, error) {
		fmt.Println("printed by mistake")
		return greet(ctx, in)
	})
	if err := s.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A connection that breaks in the middle of a message is not an error of ServeConn.
func TestABrokenConnectionEndsServeConn(t *testing.T) {
	theirs, ours := io.Pipe()
	s := new(server.Server)
	done := make(chan error, 1)
	go func() {
		done <- s.ServeConn(t.Context(), transport.Stream(struct {
			io.Reader
			io.Writer
			io.Closer
		}{theirs, io.Discard, theirs}, transport.StreamOptions{}))
	}()
	fmt.Fprint(ours, `{"jsonrpc":"2.0","id":1,"meth`)
	ours.Close()
	select {
	case <-done:
	case <-time.After(wiretest.Patience):
		t.Error("it is still being served")
	}
}

// TestMain runs the tests, or, in a child process that a test has started, the server for that test.
func TestMain(m *testing.M) {
	if os.Getenv(runVariable) != "" {
		run()
		return
	}
	goleak.VerifyTestMain(m)
}
