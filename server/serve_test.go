package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
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
	return must.Receive(t, served, "Serve")
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

// Requests in flight are answered before their streams end.
func TestShutdownFinishesRequestsInFlight(t *testing.T) {
	for _, era := range []string{"modern", "legacy", "pair"} {
		e := newEndpoint(t)
		stream, w := e.callOf(t.Context(), era)
		done := make(chan error)
		go func() { done <- e.server.Shutdown(context.Background()) }()
		eventually(t, func() bool { return e.do("POST", "/", pingBody).status == 503 })
		must.Check(t, w.ctx.Err(), era)
		select {
		case err := <-done:
			t.Errorf("%s: Shutdown did not wait: %v", era, err)
		default:
		}
		close(w.release)
		stream.Data() // the second report
		must.CheckContains(t, stream.Data(), `"text":"waited"`, era)
		stream.Ends(t)
		for _, err := range []error{<-done, e.server.Shutdown(context.Background())} {
			must.Check(t, err, era)
		}
		a := e.do("POST", "/", pingBody)
		must.CheckThat(t, a.status == 503 && a.header.Get("Retry-After") != "", "%s, after: %s", era, a)
	}
}

func TestShutdownEndsOpenStreams(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	standalone := wiretest.Stream(t, e.open(t.Context(), "GET", "/", "",
		append(session, "Accept", "text/event-stream")...))
	p := e.pair("/")
	must.Check(t, e.server.Shutdown(t.Context()))
	standalone.Ends(t)
	p.Ends(t)
	a := e.do("GET", "/", "", append(session, "Accept", "text/event-stream")...)
	must.CheckEqual(t, a.status, 503, a)
}

// A Shutdown whose context ends cancels the calls, and still sends their results.
func TestShutdownCancelsWhenItsContextEnds(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		e := newEndpoint(t)
		stream, w := e.callOf(t.Context(), era)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must.CheckIs(t, e.server.Shutdown(ctx), context.Canceled, era)
		<-w.ctx.Done()
		<-w.ended
		if rest := stream.Take(everything); len(rest) == 0 || !strings.Contains(rest[len(rest)-1].Data, `"id":1`) {
			t.Errorf("%s: then came %v", era, rest)
		}
		must.Check(t, e.server.Shutdown(t.Context()), era)
	}
}

// The answers to the questions of a pair cannot arrive during a shutdown, so it does not wait for them.
func TestAShutdownFailsTheQuestionsOfAPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 1, func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) (string, error) {
				_, err := server.Roots(ctx)
				return "", err
			})
		})
		x, endpoint := openPair(t, f.servers[0])
		f.accept(0, endpoint, fmt.Sprintf(elicitingClient, "2024-11-05"), wiretest.Initialized,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots","arguments":{}}}`)
		got := x.messages()
		must.Contains(t, got[len(got)-1], `"method":"roots/list"`)
		begun := time.Now()
		must.Check(t, f.servers[0].Shutdown(t.Context()))
		if got := x.messages(); time.Since(begun) > 0 || !strings.Contains(got[len(got)-1], `"id":2,"result"`) {
			t.Errorf("after %v: %q", time.Since(begun), got)
		}
	})
}

// The calls in flight have almost all the time that the shutdown has, also if the store does not answer.
func TestShutdownDoesNotWaitForAStoreThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := newSilentStore()
		f := newBubbleFleet(t, 1, withNote, func(s *server.Server) { s.Store = kv })
		session := f.session("2025-06-18")
		stream := f.listen(0, session) // takes the lease
		call := f.open(0, http.MethodPost, stepCall, session...)
		kv.silent = true
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = f.servers[0].Shutdown(ctx) // it cannot delete the lease
		}()
		time.Sleep(2 * time.Second)
		must.CheckThat(t, stream.ended(), "the standalone stream has not ended")
		time.Sleep(2 * time.Second)
		close(f.steps)
		synctest.Wait()
		if !call.ended() || !strings.Contains(call.body(), `"text":"done"`) {
			t.Errorf("the call: %d %s", call.status(), call.body())
		}
		<-ended
		kv.silent = false
	})
}

// Shutdown does not wait for clients that may reconnect.
func TestShutdownDoesNotWaitForDisconnectedClients(t *testing.T) {
	e := newStepping(t)
	session := e.session("2025-11-25")
	ctx, hangUp := context.WithCancel(t.Context())
	e.open(ctx, "GET", "/", "", append(session, "Accept", "text/event-stream", "X-Watched", "1")...)
	hangUp()
	<-(<-e.arrived).Done()
	e.begin(session, 1)
	ended := make(chan error)
	go func() { ended <- e.server.Shutdown(t.Context()) }()
	close(e.steps) // Shutdown waits for the call
	must.Check(t, <-ended)
}

// blocking returns a server with a tool that waits until it is released or cancelled.
func blocking() (s *server.Server, started, proceed chan struct{}) {
	s, started, proceed = new(server.Server), make(chan struct{}, 10), make(chan struct{})
	server.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
		started <- struct{}{}
		select {
		case <-proceed:
			return "went on", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	return s, started, proceed
}

func TestShutdownWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, started, proceed := blocking()
		l := connectLine(t, s)
		idle := connectLine(t, s)
		l.Send(request(1, mcp.MethodCallTool, `"name":"wait"`))
		<-started
		synctest.Wait()
		down := make(chan error, 2)
		for range 2 {
			go func() { down <- s.Shutdown(t.Context()) }()
		}
		must.Check(t, idle.Served())
		time.Sleep(time.Minute)
		select {
		case err := <-down:
			t.Fatalf("Shutdown returned %v", err)
		default:
		}
		_, far := transport.Pipe()
		must.CheckIs(t, s.ServeConn(t.Context(), far), server.ErrShutdown)
		close(proceed)
		must.CheckContains(t, l.Receive(), "went on")
		must.Check(t, l.Served())
		for range 2 {
			must.Check(t, <-down)
		}
		must.Check(t, s.Shutdown(t.Context()))
	})
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, started, _ := blocking()
		l := connectLine(t, s)
		l.Send(request(1, mcp.MethodCallTool, `"name":"wait"`))
		<-started
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		must.CheckIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		must.CheckEqual(t, time.Since(start), time.Second)
		l.Served()
	})
}

// For the race detector: connections start while the server shuts down.
func TestConnectionsDuringShutdownAreRejected(t *testing.T) {
	for range 20 {
		s := new(server.Server)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				near, far := transport.Pipe()
				defer near.Close()
				err := s.ServeConn(t.Context(), far)
				must.CheckThat(t, err == nil || errors.Is(err, server.ErrShutdown), "%v", err)
			})
		}
		wg.Go(func() { must.Check(t, s.Shutdown(t.Context())) })
		wg.Wait()
	}
}

func TestTheLimitOfCallsInFlightIsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, started, proceed := blocking()
		s.Limits.Inflight = 2
		l := connectLine(t, s)
		for id := range 5 {
			l.Send(request(id, mcp.MethodCallTool, `"name":"wait"`))
		}
		synctest.Wait()
		must.CheckEqual(t, len(started), 2)
		close(proceed)
		for range 5 {
			l.Receive()
		}
	})
}
