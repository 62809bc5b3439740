package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// Servers that reject the revision of initialize name the ones that they support in several ways, or not at all. The
// client offers the newest of them, or the next older one.
func TestRejectedRevisionIsFollowedByOneThatTheServerSupports(t *testing.T) {
	offered := regexp.MustCompile(`"method":"initialize","params":\{"protocolVersion":"([^"]*)"`)
	rejection := func(code int, message, data string) string {
		return fmt.Sprintf(`"error":{"code":%d,"message":%q,"data":%s}`, code, message, data)
	}
	for name, test := range map[string]struct {
		answers []string // answers to initialize
		pinned  mcp.Revision
		offers  string
		fails   bool
	}{
		"data.supported": {answers: []string{rejection(-32602, "Unsupported protocol version",
			`{"supported":["2024-11-05","2025-03-26"],"requested":"2025-11-25"}`), initialized},
			offers: "2025-11-25 2025-03-26"},
		"-32022": {answers: []string{rejection(-32022, "Unsupported protocol version",
			`{"supported":["2026-07-28","2025-06-18"],"requested":"2025-11-25"}`), initialized},
			offers: "2025-11-25 2025-06-18"},
		"data.expected": {answers: []string{rejection(-32602, "Unsupported protocol version",
			`{"code":"INCOMPATIBLE","expected":"2025-06-18"}`), initialized}, offers: "2025-11-25 2025-06-18"},
		"message": {answers: []string{rejection(-32602,
			"Unsupported protocol version: 2025-11-25. Supported: 2024-11-05", "null"), initialized},
			offers: "2025-11-25 2024-11-05"},
		"none": {answers: []string{rejection(-32000, "Unsupported protocol version: 2025-11-25", "null"),
			rejection(-32000, "Unsupported protocol version: 2025-06-18", "null"), initialized},
			offers: "2025-11-25 2025-06-18 2025-03-26"},
		"rejects all": {answers: []string{rejection(-32602, "Unsupported protocol version",
			`{"supported":["2024-10-07"]}`)}, offers: "2025-11-25 2025-06-18 2025-03-26 2024-11-05", fails: true},
		"only modern": {answers: []string{rejection(-32022, "Unsupported protocol version",
			`{"supported":["2026-07-28"],"requested":"2025-11-25"}`)}, offers: "2025-11-25", fails: true},
		"newer ones": {answers: []string{rejection(-32602, "version 2025-11-25 or newer is required", "null")},
			offers: "2025-11-25 2025-06-18 2025-03-26 2024-11-05", fails: true},
		"code": {answers: []string{rejection(-32022, "Not supported", `{"supported":["2025-06-18"]}`),
			initialized}, offers: "2025-11-25 2025-06-18"},
		"version of params": {answers: []string{rejection(-32602, "Unsupported version", "null"), initialized},
			offers: "2025-11-25 2025-06-18"},
		"another version": {answers: []string{rejection(-32603, "server version 1.2 of the database failed",
			"null")}, offers: "2025-11-25", fails: true},
		"another error": {answers: []string{rejection(-32603, "the database is not available since 2024-11-05",
			"null")}, offers: "2025-11-25", fails: true},
		"Dialer.Revision": {answers: []string{rejection(-32602, "Unsupported protocol version",
			`{"supported":["2024-11-05"]}`), initialized}, pinned: mcp.V20250618, offers: "2025-06-18", fails: true},
		"an unknown revision": {answers: []string{strings.Replace(initialized, "2025-06-18", "2024-10-07", 1)},
			offers: "2025-11-25", fails: true},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := legacyServer()
			s.Answers["initialize"] = test.answers
			d := quiet()
			d.Revision = test.pinned
			var mu sync.Mutex
			var offers []string
			d.Trace = func(sent bool, message []byte) {
				mu.Lock()
				defer mu.Unlock()
				if m := offered.FindSubmatch(message); sent && m != nil {
					offers = append(offers, string(m[1]))
				}
			}
			to, _ := target(s)
			c, err := d.Dial(t.Context(), to)
			if err == nil {
				callTwice(t, c)
				c.Close()
			}
			if got := strings.Join(offers, " "); got != test.offers || (err != nil) != test.fails {
				t.Errorf("offered %s, want %s; error %v", got, test.offers, err)
			}
			must.CheckThat(t, err == nil || name != "rejects all" ||
				strings.Contains(err.Error(), "Unsupported protocol version"), "%v", err)
		})
	}
}

// Over HTTP, the rejection may be a status with a text.
func TestRejectedRevisionOverHTTP(t *testing.T) {
	m := &mock{answers: map[string][]reply{
		"server/discover": {status(400,
			"Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26)")},
		"initialize": {
			status(400, "Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26)"),
			ok(strings.Replace(initialized, "2025-06-18", "2025-03-26", 1)),
		},
		"notifications/initialized": {status(202, "")}, "tools/call": {ok(called)},
	}}
	c := dialHTTP(t, m)
	if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" ||
		c.Revision() != mcp.V20250326 {
		t.Errorf("%s: %q, %v", c.Revision(), text, err)
	}
}

func TestStatusAboutAnotherVersionIsNotFollowedByOlderRevisions(t *testing.T) {
	m := &mock{answers: map[string][]reply{"initialize": {status(400,
		"cannot use server version 1.2 of the database")}}, otherwise: status(400, "")}
	d := quiet()
	if _, err := m.dial(t, d); err == nil || m.counts["initialize"] != 1 {
		t.Errorf("%v, received %s", err, m.methods())
	}
}

func TestDialErrorHasStageAndAdvice(t *testing.T) {
	// An address without a listener.
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	l.Close()
	answering := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, body, status)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	moved := httptest.NewServer(http.RedirectHandler("http://moved.example/mcp?key=secret",
		http.StatusPermanentRedirect))
	defer moved.Close()
	mismatch := modernServer()
	mismatch.Answers["server/discover"] = []string{`"error":{"code":-32020,"message":"no"}`}
	newer, _ := target(mismatch)
	rejecting := legacyServer()
	rejecting.Answers["initialize"] = []string{`"error":{"code":-32603,"message":"try tomorrow"}`}
	older, _ := target(rejecting)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	script := filepath.Join(t.TempDir(), "server")
	must.Do(t, os.WriteFile(script, nil, 0o600))
	for name, c := range map[string]struct {
		target client.Target
		stage  client.Stage
		is     error
		want   string
	}{
		"invalid URL": {client.URL("localhost"), "target", nil, "must begin with http"},
		"missing command": {client.Command("no-such-program-anywhere"), "connect", exec.ErrNotFound,
			"install the command"},
		"connection refused": {client.URL("http://" + l.Addr().String()), "connect", call.ErrConnectionLost,
			"check that the server is running"},
		"no credentials": {client.URL(answering(401, "no")), "discover", nil, "send credentials"},
		"credentials by hand": {
			&client.HTTPTarget{URL: answering(403, "no"), Header: http.Header{"X-Api-Key": {"secret"}}}, "discover",
			nil,
			"HTTP status 403 Forbidden, although the request has the header X-Api-Key; use credentials",
		},
		"moved": {client.URL(moved.URL), "discover", nil,
			"HTTP status 308 Permanent Redirect to http://moved.example/mcp; if you trust"},
		"not found": {client.URL(answering(404, "no")), "discover", nil, "check that the URL"},
		"no TLS": {client.URL(strings.Replace(answering(200, ""), "http:", "https:", 1)), "discover",
			http.ErrSchemeMismatch, "use http://"},
		"unavailable": {client.URL(answering(503, "no")), "discover", nil, "try again later"},
		"unknown authority": {client.URL(secure.URL), "discover", nil,
			"x509: certificate signed by unknown authority; if you trust"},
		"not executable": {client.Command(script), "connect", fs.ErrPermission,
			"make the file of the command executable"},
		"modern error":       {newer, "discover", nil, "-32020"},
		"handshake rejected": {older, "initialize", nil, "try tomorrow"},
	} {
		t.Run(name, func(t *testing.T) {
			d := quiet()
			_, err := d.Dial(t.Context(), c.target)
			var dial *client.DialError
			must.That(t, errors.As(err, &dial), "%T %v", err, err)
			must.CheckThat(t, dial.Stage == c.stage && dial.Target == c.target.String() &&
				strings.Contains(err.Error(), c.want), "stage %s of %s: %v", dial.Stage, dial.Target, err)
			must.CheckThat(t, c.is == nil || errors.Is(err, c.is), "%v does not wrap %v", err, c.is)
		})
	}
}

// The advice is in the text of the error once, whichever requests the server answers with a page.
func TestDialErrorGivesItsAdviceOnce(t *testing.T) {
	const advice = "check that the URL is that of an MCP endpoint"
	for name, pages := range map[string][]string{"every request": {"GET", "POST"}, "GET only": {"GET"},
		"POST only": {"POST"}, "none": nil} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if !slices.Contains(pages, r.Method) {
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
			_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title>")
		}))
		d := quiet()
		d.HTTPClient = s.Client()
		_, err := d.Dial(t.Context(), client.URL(s.URL))
		must.CheckThat(t, err != nil && strings.Count(err.Error(), advice) == 1, "a page for %s: %v", name, err)
		s.Close()
	}
}

func TestPanicsOfDialerFunctionsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		s.Answers["tools/call"] = []string{"!lines " +
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}` + "\n" +
			`{"jsonrpc":"2.0","id":$id,` + called + `}`, "!close"}
		to, _ := target(s)
		var log bytes.Buffer
		lost := make(chan struct{})
		d := client.Dialer{
			Logger:           slog.New(slog.NewTextHandler(&log, nil)),
			Trace:            func(bool, []byte) { panic("trace") },
			OnLog:            func(context.Context, mcp.LoggingMessageParams) { panic("log") },
			OnConnectionLost: func(error) { defer close(lost); panic("lost") },
		}
		c := must.Get(d.Dial(t.Context(), to))(t)
		must.Check(t, must.Err(c.CallTool(t.Context(), "a", nil)))
		must.CheckIs(t, must.Err(c.CallTool(t.Context(), "a", nil)), call.ErrConnectionLost)
		<-lost
		c.Close()
		for _, what := range []string{"panic=trace", "panic=log", "panic=lost"} {
			must.CheckContains(t, log.String(), what)
		}
	})
}

// slowServer returns a server of both eras that starts long after the time for
// server/discover, and stays in one era until it exits (2026-07-28,
// basic/versioning).
func slowServer() *script {
	return &script{
		Delay: 50 * time.Millisecond, Pins: true, Otherwise: methodNotFound,
		Answers: answers("server/discover", discovered, "initialize", initialized, "tools/call", called),
	}
}

func impatient() client.Dialer {
	d := quiet()
	d.Timeouts.Probe = time.Millisecond
	return d
}

// wantCalled fails the test unless a tool can be called.
func wantCalled(t *testing.T, c *client.Client, tool string) {
	t.Helper()
	if text, err := client.CallTool[string](t.Context(), c, tool, nil); err != nil || text != "called" {
		t.Errorf("%s in %s: %q, %v", tool, c.Revision(), text, err)
	}
}

// callTwice calls a tool and pings. The method of a ping differs between the eras.
func callTwice(t *testing.T, c *client.Client) {
	t.Helper()
	wantCalled(t, c, "a")
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("%s: Ping: %v", c.Revision(), err)
	}
}

// The time for server/discover begins when the process has started.
func TestProcessThatStartsSlowlyIsModern(t *testing.T) {
	t.Parallel()
	s := slowServer()
	s.Delay = 1500 * time.Millisecond
	s.Answers["tools/call"] = []string{called, "!exit 1 crash"}
	d := quiet()
	d.Timeouts.Probe = time.Second // once running, the process answers in time
	c := must.Get(d.Dial(t.Context(), child(t, s)))(t)
	defer c.Close()
	for range 2 { // each process starts slowly
		callTwice(t, c)
		must.CheckEqual(t, c.Revision(), mcp.V20260728)
		_, err := c.CallTool(t.Context(), "a", nil)
		must.CheckThat(t, err != nil, "the process has not exited")
	}
}

// A process that reads and never answers server/discover counts as started: Dial does not
// wait for its output until Timeouts.Start.
func TestSilentProcessIsRecognizedByWhatItReads(t *testing.T) {
	switch runtime.GOOS {
	case "linux", "darwin", "freebsd":
	default:
		return // we cannot see whether the process reads
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	d := impatient()
	d.Timeouts.Start = time.Hour
	c, err := d.Dial(ctx, child(t, &script{Delay: 20 * time.Millisecond, Pins: true,
		Answers: answers("server/discover", "", "initialize", initialized)}))
	must.Do(t, err)
	defer c.Close()
	callTwice(t, c)
}

// A process that neither reads nor writes gets Timeouts.Start before the handshake.
func TestProcessThatDoesNotReadGetsTheHandshakeAfterStart(t *testing.T) {
	t.Parallel()
	s := slowServer()
	d := impatient()
	d.Timeouts.Start = time.Millisecond
	d.Timeouts.Initialize = 20 * time.Second
	c := must.Get(d.Dial(t.Context(), child(t, s)))(t)
	defer c.Close()
	callTwice(t, c) // in the era that the handshake has selected
}

// With a bare connection, the client cannot see when the server has started. If the
// server accepts the handshake, that selects the era, and a later result of
// server/discover is ignored.
func TestConnectionWithASlowServerIsInOneEra(t *testing.T) {
	rejecting := slowServer()
	rejecting.Answers["initialize"], rejecting.Pins = []string{methodNotFound}, false
	lateDiscovery := slowServer()
	lateDiscovery.Delay, lateDiscovery.After = 0, map[string]time.Duration{"server/discover": 3 * time.Second}
	lateHandshake := slowServer()
	lateHandshake.Delay, lateHandshake.After = 2*time.Second, map[string]time.Duration{"initialize": 2 * time.Second}
	for name, test := range map[string]struct {
		server *script
		want   mcp.Revision
	}{
		"of both eras":                 {slowServer(), mcp.V20250618},
		"answers server/discover last": {lateDiscovery, mcp.V20250618},
		"answers the handshake last":   {lateHandshake, mcp.V20250618},
		"of 2026-07-28 only":           {rejecting, mcp.V20260728},
	} {
		t.Run(name, func(t *testing.T) {
			for how, connect := range map[string]func(*testing.T, *script) client.Target{"pipe": pipeTo,
				"socket": socketTo} {
				check := func(t *testing.T) {
					d := impatient()
					d.Timeouts.Initialize = 5 * time.Second
					c, err := d.Dial(t.Context(), connect(t, test.server))
					must.Do(t, err, how)
					must.CheckEqual(t, c.Revision(), test.want, how)
					callTwice(t, c)
					time.Sleep(10 * time.Second) // all late answers arrive
					callTwice(t, c)
					c.Close()
				}
				synctest.Test(t, check)
			}
		})
	}
}

// pipeTo returns a target in memory.
func pipeTo(t *testing.T, s *script) client.Target {
	near, far := transport.Pipe()
	serve(t, s, far)
	return client.Conn(near)
}

// socketTo returns a target at the other end of a byte stream of package net.
func socketTo(t *testing.T, s *script) client.Target {
	near, far := net.Pipe()
	serve(t, s, transport.Stream(far, transport.StreamOptions{}))
	return client.Conn(transport.Stream(near, transport.StreamOptions{}))
}

func serve(t *testing.T, s *script, conn transport.Conn) {
	var running sync.WaitGroup
	running.Go(func() { s.serve(conn) })
	t.Cleanup(func() {
		conn.Close()
		running.Wait()
	})
}

// Names that differ only in case are one header, and the settings of the Dialer replace all of its values.
func TestHeadersAreOneInEverySpelling(t *testing.T) {
	for set, want := range map[string][]string{"": {"one", "two"}, "x-key": {"three"}} {
		received := make(chan []string, 1)
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			received <- r.Header["X-Key"]
			w.WriteHeader(http.StatusUnauthorized)
		}))
		d := client.Dialer{Revision: mcp.V20260728}
		if set != "" {
			d.Header = http.Header{set: {"three"}}
		}
		_, err := d.Dial(t.Context(), &client.HTTPTarget{URL: web.URL,
			Header: http.Header{"x-key": {"one"}, "X-KEY": {"two"}}})
		must.Fails(t, err, "401")
		got := must.Receive(t, received, "the request")
		slices.Sort(got)
		must.CheckThat(t, slices.Equal(got, want), "got %q, want %q", got, want)
		web.Close()
	}
}
