package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// Rule S5: the client does not repeat a call that may have run. The next call starts the process again.
func TestExitedProcessIsRestarted(t *testing.T) {
	executions := filepath.Join(t.TempDir(), "executions")
	s := withToolAnswers("!exit 3 out of cheese")
	s.Executions = executions
	d := quiet()
	lost := make(chan error, 10)
	d.OnConnectionLost = func(err error) { lost <- err }
	c := must.Get(d.Dial(t.Context(), child(t, s)))(t)
	defer c.Close()
	for i := range 3 {
		_, err := c.CallTool(t.Context(), "a", nil)
		var exit *transport.ExitError
		must.CheckThat(t, errors.Is(err, call.ErrConnectionLost) && !errors.Is(err, call.ErrClosed) &&
			errors.As(err, &exit) && exit.Code == 3 && strings.Contains(err.Error(), "out of cheese"), "got %v", err)
		must.CheckEqual(t, executed(t, executions), i+1)
		if err := <-lost; !errors.As(err, &exit) {
			t.Errorf("OnConnectionLost received %v", err)
		}
	}
	must.Check(t, c.Ping(t.Context()))
}

// Two processes of one target never run at the same time.
func TestProcessExitsBeforeTheNextStarts(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	accept := func() net.Conn {
		conn := must.Get(listener.Accept())(t)
		return conn
	}
	s := withToolAnswers("!mute")
	s.Life, s.Stubborn = listener.Addr().String(), true
	p := child(t, s)
	p.ExitGrace, p.TermGrace = 50*time.Millisecond, 50*time.Millisecond
	d := quiet()
	c := must.Get(d.Dial(t.Context(), p))(t)
	defer c.Close()
	first := accept()
	defer first.Close()
	must.CheckIs(t, must.Err(c.CallTool(t.Context(), "a", nil)), call.ErrConnectionLost)
	must.Check(t, c.Ping(t.Context()))
	second := accept()
	defer second.Close()
	first.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // the process must have exited already
	var timeout net.Error
	_, err := first.Read(make([]byte, 1))
	must.CheckThat(t, !errors.As(err, &timeout) || !timeout.Timeout(), "the first process is still running")
}

func executed(t *testing.T, file string) int {
	t.Helper()
	raw := must.Get(os.ReadFile(file))(t)
	return strings.Count(string(raw), "\n")
}

func TestDialErrorHasExitCodeAndStderr(t *testing.T) {
	for _, test := range []struct {
		script script
		want   []string
	}{
		{script{Otherwise: "!exit 7 no such file: config.json"}, []string{"code 7", "no such file: config.json"}},
		{script{Otherwise: "!exit 0 bye"}, []string{"code 0"}},
		{script{Cut: `{"jsonrpc":"2.0","id":1,"result":{"x":"`},
			[]string{"of a message", "code 7", "no such file: config.json"}},
	} {
		_, err := client.Dial(t.Context(), child(t, &test.script))
		must.CheckIs(t, err, call.ErrConnectionLost)
		for _, want := range test.want {
			must.CheckContains(t, fmt.Sprint(err), want, err)
		}
	}
}

// A program that is not an MCP server is given up after a single start time-out, and the error shows what it wrote.
func TestProgramThatDoesNotAnswerIsGivenUpAfterItsStart(t *testing.T) {
	t.Parallel()
	silent := script{Answers: answers("server/discover", "", "initialize", "")}
	chatty := silent
	chatty.Greeting = []string{"Listening on port 3000"}
	for _, test := range []struct {
		script script
		want   string
		advice string
	}{
		{silent, "the server has written nothing to its standard output within ", "run it alone"},
		{script{Delay: time.Hour}, "the server has written nothing to its standard output within ", "run it alone"},
		{chatty, `it wrote text to standard output that is not an MCP message: invalid message: unexpected character at byte 0: ` +
			`"Listening on port 3000"`, "its log to standard error"},
	} {
		d := quiet()
		d.Timeouts.Probe, d.Timeouts.Start, d.Timeouts.Initialize = time.Millisecond, time.Second, time.Second
		if test.script.Greeting != nil {
			d.Timeouts.Start = time.Minute // the start ends when the greeting arrives
		}
		to := child(t, &test.script)
		to.ExitGrace = time.Millisecond
		began := time.Now()
		_, err := d.Dial(t.Context(), to)
		must.CheckIs(t, err, context.DeadlineExceeded)
		must.CheckContains(t, fmt.Sprint(err), test.want, err)
		must.CheckContains(t, fmt.Sprint(err), test.advice, err)
		took := time.Since(began)
		must.CheckThat(t, took <= 30*time.Second, "given up after %v", took)
	}
}

// Servers that expect initialize first exit on server/discover, and some on a revision that they reject. Their process
// is started again with initialize. A process that exits for another reason is not.
func TestProcessThatExitsOnAMessageIsStartedAgain(t *testing.T) {
	const exits, rejects = "!exit 1 expected initialize",
		`"error":{"code":-32602,"message":"the version must be 2024-11-05"}`
	for name, test := range map[string]struct {
		server   script
		revision mcp.Revision // Revision of the Dialer
		starts   int
		fails    bool
	}{
		"on server/discover": {server: script{Answers: answers("server/discover", exits, "initialize",
			initialized)}, starts: 2},
		"on every message": {server: script{Otherwise: exits}, starts: 2, fails: true},
		"before it reads":  {server: script{Unable: true}, starts: 1, fails: true},
		"in the only revision": {server: script{Otherwise: exits}, revision: mcp.V20260728, starts: 1,
			fails: true},
		"in an old revision": {server: script{Otherwise: exits}, revision: mcp.V20241105, starts: 1,
			fails: true},
		"after it rejects a revision": {server: script{Answers: answers("server/discover", methodNotFound, "initialize",
			rejects), Last: "initialize"}, starts: 2, fails: true},
		"on both": {server: script{Answers: answers("server/discover", exits, "initialize",
			rejects), Last: "initialize"}, starts: 3, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := test.server
			s.Starts = filepath.Join(t.TempDir(), "starts")
			d := quiet()
			d.Revision = test.revision
			c, err := d.Dial(t.Context(), child(t, &s))
			must.CheckThat(t, (err != nil) == test.fails && (err != nil || c.Revision() == mcp.V20250618), "%v", err)
			if err == nil {
				callTwice(t, c)
				c.Close()
			}
			must.CheckEqual(t, executed(t, s.Starts), test.starts)
		})
	}
}

// A line longer than the limit is not read into memory.
func TestEndlessLineIsLimited(t *testing.T) {
	d := quiet()
	d.MaxMessage = 256 << 10
	flood := withToolAnswers("!flood")
	c := must.Get(d.Dial(t.Context(), child(t, flood)))(t)
	defer c.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := c.CallTool(t.Context(), "a", nil)
	runtime.ReadMemStats(&after)
	var tooLarge *transport.MessageTooLargeError
	must.CheckThat(t, errors.As(err, &tooLarge) && tooLarge.Limit == 256<<10, "got %v", err)
	allocated := after.TotalAlloc - before.TotalAlloc
	must.CheckThat(t, allocated <= 4<<20, "the client allocated %d bytes", allocated)
}

func TestTraceSeesEveryMessage(t *testing.T) {
	to, _ := target(legacyServer())
	var mu sync.Mutex
	var seen bytes.Buffer
	d := quiet()
	d.Name, d.Version = "tracer", "9"
	d.Trace = func(sent bool, message []byte) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&seen, "%v %s\n", sent, message)
	}
	c := must.Get(d.Dial(t.Context(), to))(t)
	must.Check(t, c.Ping(t.Context()))
	c.Close()
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{
		`true {"jsonrpc":"2.0","id":1,"method":"server/discover",`, `false {"jsonrpc":"2.0","id":1,"error":`,
		`true {"jsonrpc":"2.0","id":2,"method":"initialize",`, `"clientInfo":{"name":"tracer","version":"9"}`,
		`false {"jsonrpc":"2.0","id":2,"result":`,
		`true {"jsonrpc":"2.0","method":"notifications/initialized"}`, `true {"jsonrpc":"2.0","id":3,"method":"ping"}`,
		`false {"jsonrpc":"2.0","id":3,"result":{}}`,
	} {
		must.CheckContains(t, seen.String(), want, "the trace lacks", &seen)
	}
}

// Rule S1: the client logs and skips output that is not a message. A message that belongs to no request is skipped.
// What a user should know is logged: text, and an error of the server without a request ID, which may concern a
// request that will time out.
func TestGarbageIsLoggedAndSkipped(t *testing.T) {
	for line, want := range map[string]string{
		"Listening on stdio": "Listening on stdio",
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no comma"}}`: "no comma",
		`{"jsonrpc":"2.0","id":99,"result":{}}`:                                    "",
		`{"jsonrpc":"2.0","id":99,"error":{"code":-32700,"message":"late"}}`:       "",
	} {
		for _, s := range []*script{modernServer(), legacyServer()} {
			s.Greeting = []string{line}
			s.Answers["tools/call"] = []string{"!lines " + line + "\n" + `{"jsonrpc":"2.0","id":$id,` + called + `}`}
			c, log := dialLogged(t, s)
			for _, when := range []string{"before the first response", "during a call"} {
				must.CheckThat(t, strings.Contains(log.String(), want) && (log.Len() > 0) == (want != ""),
					"%s, %s: the log is %q, want %q", line, when, log, want)
				log.Reset()
				wantCalled(t, c, "a")
			}
		}
	}
}

// canary marks the secrets of a URL: it is part of the user information and of the query.
const canary = "c4nary"

// withSecrets returns the URL of a server with secrets in it.
func withSecrets(server string) string {
	scheme, rest, _ := strings.Cut(server, "://")
	return scheme + "://" + canary + "user:" + canary + "password@" + rest + "/mcp?token=" + canary + "token"
}

// Rule R6: no error, log message or name of a server contains the user information or the query of
// its URL.
func TestErrorsHaveNoSecretsOfTheURL(t *testing.T) {
	silent := log.New(io.Discard, "", 0)
	serve := func(tls bool, h http.HandlerFunc) string {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = silent
		if tls {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		return s.URL
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", code) }
	}
	gone := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	gone.Close()
	noise := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { noise.Close() })
	go func() {
		for {
			conn, err := noise.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 mail.example ESMTP\r\n\r\n"))
			conn.Close()
		}
	}()
	blocked := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is only noticed after the body
		<-r.Context().Done()
	}
	for name, url := range map[string]string{
		"connection refused": withSecrets("http://" + gone.Addr().String()),
		"not HTTP":           withSecrets("http://" + noise.Addr().String()),
		"not TLS":            withSecrets("https://" + noise.Addr().String()),
		"unknown authority":  withSecrets(serve(true, status(500))),
		"HTTP, not HTTPS":    withSecrets(strings.Replace(serve(true, status(500)), "https", "http", 1)),
		"time-out":           withSecrets(serve(false, blocked)),
		"status 401":         withSecrets(serve(false, status(401))),
		"status 404":         withSecrets(serve(false, status(404))),
		"status 500":         withSecrets(serve(false, status(500))),
		"redirect": withSecrets(serve(false, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/elsewhere?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
		})),
		"malformed redirect": withSecrets(serve(false, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://%zz/?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})),
		"foreign endpoint": withSecrets(serve(false, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: endpoint\ndata: http://"+canary+"@127.0.0.1:1/message?"+r.URL.RawQuery+
				"\n\n")
		})),
		"malformed host": withSecrets("http://exam ple"),
		"malformed port": withSecrets("http://127.0.0.1:port"),
		"no such scheme": withSecrets("gopher://127.0.0.1"),
		"control":        withSecrets("http://127.0.0.1:1") + "\x7f",
	} {
		for _, r := range []mcp.Revision{"", mcp.V20241105, mcp.V20251125, mcp.V20260728} {
			t.Run(name+"/"+string(r), func(t *testing.T) {
				var logged bytes.Buffer
				d := client.Dialer{
					Revision: r, Logger: slog.New(slog.NewTextHandler(&logged,
						&slog.HandlerOptions{Level: slog.LevelDebug})),
					Timeouts: client.Timeouts{Initialize: 50 * time.Millisecond},
				}
				to := client.URL(url)
				c, err := d.Dial(context.Background(), to)
				if err == nil {
					c.Close()
					t.Fatal("the dial succeeded")
				}
				for what, text := range map[string]string{"error": err.Error(), "log": logged.String(),
					"name": to.String()} {
					must.CheckThat(t, !strings.Contains(text, canary), "the %s contains a secret: %s", what, text)
				}
			})
		}
	}
}

// Dial returns when its context ends. The process takes longer to stop: it ends in the background, and DialError.Wait
// waits for it.
func TestDialReturnsAtItsDeadline(t *testing.T) {
	for name, begin := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 500*time.Millisecond)
		},
		"cancellation": context.WithCancel,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer listener.Close()
			s := &script{Answers: answers("server/discover", "", "initialize", ""), Stubborn: true,
				Life: listener.Addr().String()}
			to := child(t, s)
			to.ExitGrace, to.TermGrace = 2*time.Second, time.Millisecond
			ctx, cancel := begin(t.Context())
			defer cancel()
			d := quiet()
			d.Timeouts.Probe = -1
			returned := make(chan error, 1)
			go func() {
				_, err := d.Dial(ctx, to)
				returned <- err
			}()
			process := must.Get(listener.Accept())(t)
			defer process.Close()
			if name == "cancellation" {
				cancel()
			}
			var failed *client.DialError
			err := <-returned
			must.That(t, errors.As(err, &failed) && errors.Is(err, ctx.Err()), "got %v", err)
			runs := func() bool {
				process.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
				_, err := process.Read(make([]byte, 1))
				return errors.Is(err, os.ErrDeadlineExceeded)
			}
			must.CheckThat(t, runs(), "Dial has waited for the end of the process")
			failed.Wait()
			must.CheckThat(t, !runs(), "the process runs after Wait")
		})
	}
}
