package server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// serving serves s on a free port of the loopback interface until the test ends the context.
func serving(t *testing.T, ctx context.Context, s *server.Server) (url string, ended <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	return "http://" + listener.Addr().String() + "/mcp", served
}

func result(t *testing.T, served <-chan error) error {
	t.Helper()
	select {
	case err := <-served:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("Serve does not return")
		return nil
	}
}

func TestServeLetsCallsFinishWhenItsContextEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := quiet()
	server.AddTool(s, mcp.Tool{Name: "slow"}, func(context.Context, struct{}) (string, error) {
		stop()
		return "finished", nil
	})
	url, served := serving(t, ctx, s)
	c, err := client.Dial(t.Context(), client.URL(url))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if text, err := client.CallTool[string](t.Context(), c, "slow", nil); err != nil || text != "finished" {
		t.Errorf("%q, %v", text, err)
	}
	if err := result(t, served); err != nil {
		t.Errorf("Serve returns %v after its context has ended", err)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("the listener is still open")
	}
}

// The listener is closed while calls finish, so that a load balancer chooses another replica.
func TestServeClosesItsListenerWhenItsContextEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := quiet()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(s, mcp.Tool{Name: "slow"}, func(ctx context.Context, _ struct{}) (string, error) {
		stop()
		for ctx.Err() == nil {
			connection, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				return "closed", nil
			}
			connection.Close()
		}
		return "", context.Cause(ctx)
	})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	c, err := client.Dial(t.Context(), client.URL("http://"+listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if text, err := client.CallTool[string](t.Context(), c, "slow", nil); err != nil || text != "closed" {
		t.Errorf("%q, %v", text, err)
	}
	if err := result(t, served); err != nil {
		t.Errorf("Serve returns %v", err)
	}
}

func TestServeReturnsErrShutdownAfterShutdown(t *testing.T) {
	s := quiet()
	_, served := serving(t, t.Context(), s)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := result(t, served); !errors.Is(err, server.ErrShutdown) {
		t.Errorf("Serve returns %v", err)
	}
	_, again := serving(t, t.Context(), s)
	if err := result(t, again); !errors.Is(err, server.ErrShutdown) {
		t.Errorf("Serve after Shutdown returns %v", err)
	}
}

func TestListenAndServeListensOnTheLoopbackInterfaceByDefault(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	err = quiet().ListenAndServe(t.Context(), ":"+port) // in use on that interface only
	if err == nil || !strings.Contains(err.Error(), "listen tcp 127.0.0.1:"+port) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("%v", err)
	}
	if err := quiet().ListenAndServe(t.Context(), "8080"); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Errorf("an address without a colon: %v", err)
	}
}

func TestWrongFieldsAreAnErrorOfEveryWayToServe(t *testing.T) {
	for want, s := range map[string]*server.Server{
		"server: Auth: ": {Auth: &auth.ProtectedResource{}},
		"server: Keys: ": {Keys: [][]byte{[]byte("short")}},
	} {
		var log bytes.Buffer
		s.Logger = slog.New(slog.NewTextHandler(&log, nil))
		near, far := transport.Pipe()
		defer far.Close()
		_, served := serving(t, t.Context(), s)
		for way, err := range map[string]error{
			"Check":          s.Check(),
			"Run":            s.Run(t.Context()),
			"ServeConn":      s.ServeConn(t.Context(), near),
			"Serve":          result(t, served),
			"ListenAndServe": s.ListenAndServe(t.Context(), "127.0.0.1:0"),
			"Shutdown":       s.Shutdown(t.Context()),
		} {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s returns %v, want %s…", way, err, want)
			}
		}
		for range 2 {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/mcp", nil))
			if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "see its log") {
				t.Errorf("a request is answered with %d %s", w.Code, w.Body)
			}
		}
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log has %s", log.String())
		}
	}
}

func TestMainServesStandardInputUntilItIsClosed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program.exe")
	build := exec.Command("go", "build", "-o", program, "../examples/hello")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || !bytes.Contains(out, []byte(`"protocolVersion":"2025-11-25"`)) || errs.Len() > 0 {
		t.Errorf("%s%v\n%s", out, err, errs.Bytes())
	}
	cmd = exec.Command(program)
	null, err := os.Open(os.DevNull) // what services have: no terminal
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	cmd.Stdin = null
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("with the null device: %s%v", out, err)
	}
}

func TestMainPrintsWhyItFailsAndExitsWithOne(t *testing.T) {
	if os.Getenv("PARLEY_TEST_MAIN") != "" {
		server.Main(&server.Server{Keys: [][]byte{[]byte("short")}})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestMainPrintsWhyItFailsAndExitsWithOne$")
	cmd.Env = append(os.Environ(), "PARLEY_TEST_MAIN=1")
	cmd.Stdin = io.LimitReader(nil, 0)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "server: Keys: ") {
		t.Errorf("%v\n%s", err, out)
	}
}
