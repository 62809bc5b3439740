package server_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// serving serves s on a free port of the loopback interface until the test ends the context.
func serving(t *testing.T, ctx context.Context, s *server.Server) (url string, ended <-chan error) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
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

// The listener is closed while calls finish, so that a load balancer chooses another replica.
func TestServeClosesItsListenerWhenItsContextEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := quiet()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
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
	c := must.Get(client.Dial(t.Context(), client.URL("http://"+listener.Addr().String())))(t)
	defer c.Close()
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "slow", nil))(t), "closed")
	must.Check(t, result(t, served))
}

func TestServeReturnsErrShutdownAfterShutdown(t *testing.T) {
	s := quiet()
	_, served := serving(t, t.Context(), s)
	must.Do(t, s.Shutdown(t.Context()))
	must.CheckIs(t, result(t, served), server.ErrShutdown)
	_, again := serving(t, t.Context(), s)
	must.CheckIs(t, result(t, again), server.ErrShutdown)
}

func TestListenAndServeListensOnTheLoopbackInterfaceByDefault(t *testing.T) {
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	err := quiet().ListenAndServe(t.Context(), ":"+port) // in use on that interface only
	must.CheckThat(t, err != nil && strings.Contains(err.Error(), "listen tcp 127.0.0.1:"+port) &&
		strings.Contains(err.Error(), "address already in use"), "%v", err)
	must.CheckFails(t, quiet().ListenAndServe(t.Context(), "8080"), "host:port", "an address without a colon")
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
			must.CheckThat(t, err != nil && strings.HasPrefix(err.Error(), want),
				"%s returns %v, want %s…", way, err, want)
		}
		for range 2 {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/mcp", nil))
			must.CheckThat(t, w.Code == http.StatusInternalServerError &&
				strings.Contains(w.Body.String(), "see its log"), "a request is answered with %d %s", w.Code, w.Body)
		}
		must.CheckEqual(t, strings.Count(log.String(), want), 1, "the log", log.String())
	}
}

func TestMainServesStandardInputUntilItIsClosed(t *testing.T) {
	cmd := asProgram("no flags")
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize",` +
		`"params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` +
		"\n")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	must.CheckThat(t, err == nil && bytes.Contains(out, []byte(`"protocolVersion":"2025-11-25"`)) && errs.Len() == 0,
		"%s%v\n%s", out, err, errs.Bytes())
}

// asProgram runs this test binary as a program that consists of the server that TestMainOfProgram
// serves. Mode tells what the program does before it calls Main.
func asProgram(mode string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestMainOfProgram$", "--"}, args...)...)
	cmd.Env = append(os.Environ(), "PARLEY_TEST_MAIN="+mode)
	return cmd
}

// TestMainOfProgram is the program of asProgram.
func TestMainOfProgram(t *testing.T) {
	mode := os.Getenv("PARLEY_TEST_MAIN")
	if mode == "" {
		return
	}
	os.Args = append(os.Args[:1], flag.Args()...)
	flag.CommandLine = flag.NewFlagSet("program", flag.ExitOnError)
	s := &server.Server{Name: "program"}
	switch mode {
	case "bad keys":
		s.Keys = [][]byte{[]byte("short")}
	case "Run":
		must.Do(t, s.Run(t.Context()))
		os.Exit(0)
	case "parsed":
		flag.Parse()
	case "own flag":
		flag.String("http", "", "address")
		flag.String("name", "", "name of the server")
		flag.Parse()
	case "own flag, unparsed":
		flag.String("http", "127.0.0.1:0", "address")
	case "other flag":
		flag.Bool("http", false, "serve HTTP")
		flag.Parse()
	}
	server.Main(s)
	os.Exit(0)
}

func TestAClientWithoutAMessageIsNoErrorOfServeConn(t *testing.T) {
	here, there := net.Pipe()
	there.Close()
	must.Check(t, new(server.Server).ServeConn(t.Context(), transport.Stream(here, transport.StreamOptions{})))
}

func TestMainWithoutAMessageSaysHowToServeHTTP(t *testing.T) {
	null, err := os.Open(os.DevNull) // what services have: no terminal
	must.Do(t, err)
	defer null.Close()
	const withFlag = "the flag -http, for example -http 127.0.0.1:8080\n"
	for _, tc := range []struct {
		mode     string
		input    io.Reader
		status   int
		contains string
	}{
		{"no flags", null, 2, withFlag},
		{"no flags", strings.NewReader(""), 2, withFlag}, // a pipe
		{"no flags", strings.NewReader("\n\n"), 2, withFlag},
		{"no flags", strings.NewReader("[]\n"), 0, ""},
		{"no flags", strings.NewReader("{"), 1, "unexpected EOF\n"},
		{"own flag", null, 2, withFlag},
		{"parsed", null, 2, "start the program from an MCP client\n"},
		{"other flag", null, 2, "start the program from an MCP client\n"},
		{"bad keys", null, 1, "server: Keys: "},
		{"Run", null, 0, ""},
	} {
		cmd := asProgram(tc.mode)
		cmd.Stdin = tc.input
		var errs bytes.Buffer
		cmd.Stderr = &errs
		_ = cmd.Run()
		if cmd.ProcessState.ExitCode() != tc.status || !strings.Contains(errs.String(), tc.contains) ||
			tc.contains == "" && errs.Len() > 0 {
			t.Errorf("%s: status %d, standard error %q", tc.mode, cmd.ProcessState.ExitCode(), errs.String())
		}
	}
}

func TestMainServesHTTPOnTheAddressOfTheFlag(t *testing.T) {
	for mode, args := range map[string][]string{
		"no flags":           {"-http", "127.0.0.1:0"},
		"own flag":           {"--http=127.0.0.1:0", "-name", "x"},
		"own flag, unparsed": nil,
	} {
		t.Run(mode, func(t *testing.T) {
			cmd := asProgram(mode, args...) // standard input is the null device
			stderr := must.Get(cmd.StderrPipe())(t)
			must.Do(t, cmd.Start())
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			line, err := bufio.NewReader(stderr).ReadString('\n')
			_, address, found := strings.Cut(line, " serves MCP on http://")
			address, _, _ = strings.Cut(address, "/")
			must.That(t, found, "%q, %v", line, err)
			conn := must.Get(net.Dial("tcp", address))(t)
			conn.Close()
			busy, err := asProgram("no flags", "-http", address).CombinedOutput()
			want := "address already in use: choose the address with the flag -http, for example -http 127.0.0.1:8081\n"
			must.CheckThat(t, runtime.GOOS == "windows" || err != nil && strings.Contains(string(busy), want),
				"on the same address: %q, %v", busy, err)
		})
	}
}
