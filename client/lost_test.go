package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

func TestListsAndPingsAreRepeatedOnce(t *testing.T) {
	for _, method := range []string{"tools/list", "server/discover"} {
		synctest.Test(t, func(t *testing.T) {
			use := func(c *client.Client) error {
				if method == "server/discover" {
					return c.Ping(t.Context())
				}
				for _, err := range c.Tools(t.Context()) {
					if err != nil {
						return err
					}
				}
				return nil
			}
			exiting := modernServer()
			if exiting.Answers[method] = []string{"!close"}; method == "server/discover" {
				exiting.Answers[method] = []string{discovered, "!close"}
			}
			c, _ := dial(t, exiting, modernServer())
			must.Check(t, use(c), method)
			c, rec := dial(t, exiting, exiting, exiting)
			must.CheckIs(t, use(c), call.ErrConnectionLost, method)
			c.Close()
			n := strings.Count(rec.methods(), method)
			must.CheckThat(t, method != "tools/list" || n == 2, "%s was sent %d times", method, n)
		})
	}
}

// Middleware cannot send a request again on a connection that has ended. The client reconnects, and goes on with it once;
// an error then does not claim that the server has not acted.
func TestRetriesGoOnAfterTheConnectionHasEnded(t *testing.T) {
	for name, newServer := range map[string]func() *script{"modern": modernServer, "legacy": legacyServer} {
		synctest.Test(t, func(t *testing.T) {
			exiting, works := newServer(), newServer()
			exiting.Answers["tools/call"] = []string{"!close"}
			works.Answers["tools/call"] = []string{called}
			callWith := func(d client.Dialer, servers ...*script) (int, error) {
				to, rec := target(servers...)
				c := must.Get(d.Dial(t.Context(), to))(t)
				_, err := c.CallTool(t.Context(), "x", nil)
				c.Close()
				return strings.Count(rec.methods(), "tools/call"), err
			}
			d := quiet()
			n, err := callWith(d, exiting, works)
			must.CheckIs(t, err, call.ErrConnectionLost, name)
			must.CheckEqual(t, n, 1, name, "without middleware")

			retry := call.Retry{Attempts: 10, Tool: func(string) bool { return true }}
			d.Middleware = []call.Middleware{call.RetryRequests(retry)}
			begin := time.Now()
			n, err = callWith(d, exiting, works)
			must.Check(t, err, name)
			must.CheckEqual(t, n, 2, name, "the second connection works")
			must.CheckThat(t, time.Since(begin) < time.Second, "%s: reconnected after %v", name, time.Since(begin))

			n, err = callWith(d, exiting)
			must.CheckIs(t, err, call.ErrConnectionLost, name)
			must.CheckThat(t, !errors.Is(err, call.ErrNotSent), "%s: %v matches ErrNotSent", name, err)
			must.CheckEqual(t, n, 2, name, "no connection works")
		})
	}
}

// A request on a connection that ended while it was idle is sent on a new one.
func TestLostIdleConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns []transport.Conn
		var serving sync.WaitGroup
		to := client.NewTarget(func() transport.Conn {
			near, far := transport.Pipe()
			conns = append(conns, far)
			serving.Go(func() { modernServer().serve(far) })
			return near
		})
		lost := make(chan error, 10)
		d := quiet()
		d.OnConnectionLost = func(err error) { lost <- err }
		c := must.Get(d.Dial(t.Context(), to))(t)
		conns[0].Close()
		must.CheckIs(t, <-lost, call.ErrConnectionLost)
		must.Check(t, must.Err(c.CallTool(t.Context(), "a", nil)))
		c.Close()
		for _, conn := range conns {
			conn.Close()
		}
		serving.Wait()
		must.CheckThat(t, len(conns) == 2 && len(lost) == 0,
			"got %d connections and %d more calls of OnConnectionLost, want 2 and 0", len(conns), len(lost))
	})
}

// When a connection ends, each call on it has exactly one outcome, and the client reconnects once for all of
// them.
func TestConcurrentCallsReconnectOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exiting := withToolAnswers("", "", "", "", "!close")
		c, rec := dial(t, exiting, modernServer())
		var wg sync.WaitGroup
		var lost atomic.Int32
		for range 20 {
			wg.Go(func() {
				if _, err := c.CallTool(t.Context(), "a", nil); errors.Is(err, call.ErrConnectionLost) {
					lost.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		must.Check(t, must.Err(c.CallTool(t.Context(), "a", nil)))
		c.Close()
		received := rec.methods()
		must.CheckThat(t, strings.Count(received, probed) == 2 && lost.Load() >= 5,
			"%d calls were lost, the servers received %s", lost.Load(), received)
	})
}

// A failed reconnect returns a DialError. The next call tries again.
func TestFailedReconnectIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t, withToolAnswers("!close"), &script{Otherwise: "!close"}, &script{}, modernServer())
		must.CheckIs(t, must.Err(c.CallTool(t.Context(), "a", nil)), call.ErrConnectionLost)
		_, err := c.CallTool(t.Context(), "a", nil)
		must.CheckThat(t, errors.Is(err, call.ErrConnectionLost) && strings.Contains(err.Error(), "dial"),
			"got %v", err)
		must.CheckIs(t, must.Err(c.CallTool(t.Context(), "a", nil)), context.DeadlineExceeded)
		must.Check(t, must.Err(c.CallTool(t.Context(), "a", nil)))
	})
}

// When the replica of a pair stops, requests receive status 404, or a text that names the session. The client
// repeats what was not served on a new pair, up to twice, because the new pair may be with the replica that stops
// next.
func TestRequestsAreRepeatedOnANewPair(t *testing.T) {
	for method, rejections := range map[string]int{"initialize": 2, "tools/call": 2, "": 3, "tools/call named": 2} {
		t.Run(method, func(t *testing.T) {
			all := method == ""
			method, named := strings.CutSuffix(method, " named")
			s := &server.Server{Name: "up", Version: "1"}
			server.AddTool(s, mcp.Tool{Name: "echo"}, func(context.Context, struct{}) (string, error) {
				return "done", nil
			})
			left := rejections
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Method == http.MethodPost && left > 0 && (all || strings.Contains(string(body), `"`+method+`"`)) {
					left--
					if named { // as the TypeScript SDK's examples do
						http.Error(w, "No transport found for sessionId", http.StatusBadRequest)
						return
					}
					http.NotFound(w, r)
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				s.ServeHTTP(w, r)
			}))
			t.Cleanup(func() {
				_ = s.Shutdown(context.Background())
				endpoint.Close()
			})
			d := &client.Dialer{Revision: mcp.V20241105, HTTPClient: endpoint.Client()}
			d.Discovery = &client.Discovery{Target: endpoint.URL, Revision: mcp.V20241105, HTTPWithSSE: true,
				ReceivedAt: time.Now()}
			c := must.Get(d.Dial(t.Context(), client.URL(endpoint.URL)))(t)
			defer c.Close()
			got, err := client.CallTool[string](t.Context(), c, "echo", nil)
			served := err == nil && got == "done"
			if lost := errors.Is(err, call.ErrConnectionLost); left != 0 || served == all || lost != all {
				t.Errorf("%q %v after %d rejections", got, err, rejections-left)
			}
		})
	}
}

// legacyHTTP is a server whose sessions can expire.
type legacyHTTP struct {
	sessions atomic.Int32 // sessions begun so far
	expired  atomic.Bool  // the current session has expired
	executed atomic.Int32
	lost     *reply        // answer to requests of an expired session; nil means 404
	ping     *reply        // answer to pings of an expired session; nil means the same answer as lost
	gate     chan struct{} // calls of the tool "wait" block on it
	waiting  chan struct{}
}

func (s *legacyHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body strings.Builder
	if _, err := fmt.Fprint(&body, readAll(r)); err != nil {
		panic(err)
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m, err := jsonrpc.Parse([]byte(body.String()), jsonrpc.Limits{})
	if err != nil {
		panic(err)
	}
	current := fmt.Sprint(s.sessions.Load())
	answer := func(members string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, members)
	}
	switch {
	case m.Method == mcp.MethodInitialize:
		s.expired.Store(false)
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(s.sessions.Add(1)))
		answer(initialized)
	case r.Header.Get("Mcp-Session-Id") == "":
		w.WriteHeader(http.StatusBadRequest)
	case s.ping != nil && m.Method == mcp.MethodPing:
		s.ping.write(w, m.ID)
	case s.lost != nil && s.expired.Load() && m.Kind == jsonrpc.Request:
		s.lost.write(w, m.ID)
	case r.Header.Get("Mcp-Session-Id") != current || s.expired.Load():
		w.WriteHeader(http.StatusNotFound)
	case m.Kind == jsonrpc.Notification:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == mcp.MethodCallTool:
		if name, _ := m.Params.Get("name"); string(name) == `"wait"` {
			s.waiting <- struct{}{}
			<-s.gate
		}
		s.executed.Add(1)
		answer(called)
	case m.Method == mcp.MethodListTools:
		answer(listed)
	default:
		answer(methodNotFound)
	}
}

func readAll(r *http.Request) string {
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

func dialHTTP(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	d := quiet()
	d.HTTPClient = s.Client()
	c := must.Get(d.Dial(t.Context(), client.URL(s.URL)))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// A call that finds the session expired does not end other calls in flight on it.
func TestCallsInFlightSurviveTheEndOfTheirSession(t *testing.T) {
	s := &legacyHTTP{gate: make(chan struct{}), waiting: make(chan struct{})}
	c := dialHTTP(t, s)
	slow := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), "wait", nil)
		slow <- err
	}()
	<-s.waiting
	s.expired.Store(true)
	must.Check(t, must.Err(c.CallTool(t.Context(), "a", nil)), "call in the new session")
	close(s.gate)
	must.Check(t, <-slow, "call in the old session")
	must.CheckEqual(t, s.executed.Load(), 2)
	must.CheckEqual(t, s.sessions.Load(), 2)
}

// Rule U6: after a lost connection the client repeats only requests without side effects.
func TestLostHTTPConnectionRepeatsListsOnly(t *testing.T) {
	var calls, lists atomic.Int32
	m := &mock{answers: map[string][]reply{"server/discover": {ok(discovered)}}}
	c := dialHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Mcp-Method") {
		case mcp.MethodCallTool:
			calls.Add(1)
			panic(http.ErrAbortHandler)
		case mcp.MethodListTools:
			if lists.Add(1) == 1 {
				panic(http.ErrAbortHandler)
			}
			(&mock{answers: map[string][]reply{"tools/list": {ok(listed)}}}).ServeHTTP(w, r)
		default:
			m.ServeHTTP(w, r)
		}
	}))
	if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, call.ErrConnectionLost) || calls.Load() != 1 {
		t.Errorf("the client sent %d calls, error %v", calls.Load(), err)
	}
	must.Check(t, drain(c.Tools(t.Context())))
	must.CheckEqual(t, lists.Load(), 2)
}

// Rule U3: the client begins a new session after the server has expired one, and repeats the call, which has not run.
// Servers that have lost a session respond with several statuses and texts. A call is sent again if the response names
// the session, so that the call cannot have run. After any other rejection, the client pings; if the ping is rejected,
// too, the next call begins a new session.
func TestLostSessionsWithOtherStatusesAreReplaced(t *testing.T) {
	inJSON := func(id, message string) string {
		return `{"jsonrpc":"2.0","error":{"code":-32000,"message":"` + message + `"},"id":` + id + `}`
	}
	pong := ok(`"result":{}`)
	noPing := failing(400, methodNotFound)
	for name, test := range map[string]struct {
		lost  reply
		again bool   // the call is sent again
		alive *reply // answer to pings if the server still knows the session
	}{
		"not found": {lost: status(404, ""), again: true},
		"JSON": {lost: reply{status: 400, body: inJSON("null",
			"Bad Request: No valid session ID provided")}, again: true},
		"id of a text": {lost: reply{status: 400, body: inJSON(`"server-error"`,
			"Bad Request: Missing session ID")}, again: true},
		"text": {lost: status(400, "Invalid session ID\n"), again: true},
		"not initialized": {lost: reply{status: 400, body: inJSON("null", "Bad Request: Server not initialized")},
			again: true},
		"conflict":           {lost: reply{status: 409, body: `{"error":"unknown session"}`}, again: true},
		"gone":               {lost: status(410, "the session was closed"), again: true},
		"conflict of a tool": {lost: reply{status: 409, body: `{"error":"browser session 5 is in use"}`}, alive: &pong},
		"gone for a tool":    {lost: status(410, "browser session 5 was closed"), alive: &pong},
		"text of a tool":     {lost: status(400, "browser session 5 is closed"), alive: &pong},
		"id of the call":     {lost: reply{status: 400, body: inJSON("$id", "Session not found")}, again: true},
		"no reason":          {lost: status(400, "Bad Request")},
		"error of a tool": {lost: reply{status: 400, body: inJSON("$id", "browser session 5 is closed")},
			alive: &pong},
		"page of a proxy": {lost: reply{status: 400, kind: "text/html", body: "your session has expired"},
			alive: &pong},
		"invalid argument": {lost: status(400, "a must be a number"), alive: &pong},
		"no ping":          {lost: status(400, "a must be a number"), alive: &noPing},
		"internal error":   {lost: status(500, "cannot read the session"), alive: &pong},
		"login":            {lost: status(401, "your session has expired"), alive: &pong},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(legacyHTTP)
			s.lost, s.ping = &test.lost, test.alive
			c := dialHTTP(t, s)
			s.expired.Store(true)
			_, err := c.CallTool(t.Context(), "a", nil)
			must.CheckEqual(t, err == nil, test.again, "the call in the lost session", err)
			_, err = c.CallTool(t.Context(), "a", nil)
			must.CheckEqual(t, err == nil, test.alive == nil, "the next call", err)
			executed, sessions := int32(2), int32(2)
			if !test.again {
				executed = 1
			}
			if test.alive != nil {
				executed, sessions = 0, 1
			}
			must.CheckEqual(t, s.executed.Load(), executed)
			must.CheckEqual(t, s.sessions.Load(), sessions)
		})
	}
}

// A list is requested again in a new session, whatever body the server sends with status 400.
func TestListsAreRequestedAgainInANewSession(t *testing.T) {
	rejected := status(400, "")
	s := &legacyHTTP{lost: &rejected}
	c := dialHTTP(t, s)
	s.expired.Store(true)
	must.Check(t, drain(c.Tools(t.Context())))
	must.CheckEqual(t, s.sessions.Load(), 2)
}

// A failing call closes the connection, perhaps before the goroutine that noticed the loss reports it.
func TestOnConnectionLostReceivesTheReasonWhileCallsCloseTheConnection(t *testing.T) {
	for range 20 {
		for _, s := range []*script{modernServer(), legacyServer()} {
			synctest.Test(t, func(t *testing.T) {
				c, conn, lost := dialHalfOpen(t, s)
				var calls sync.WaitGroup
				for range 20 {
					calls.Go(func() { c.CallTool(t.Context(), "a", nil) })
				}
				synctest.Wait()
				conn.cut.Store(true)
				calls.Wait()
				synctest.Wait()
				var silent *call.SilentError
				if len(lost) != 1 {
					t.Fatalf("OnConnectionLost was called %d times, want 1", len(lost))
				} else if err := <-lost; !errors.As(err, &silent) {
					t.Errorf("OnConnectionLost received %v", err)
				}
			})
		}
	}
}

// A connection that ends right after Dial still counts as established.
func TestOnConnectionLostIsCalledIfTheServerExitsRightAfterTheDial(t *testing.T) {
	for range 50 {
		for _, server := range []*script{
			{Answers: answers("server/discover", discovered), Last: "server/discover"},
			{Answers: answers("initialize", initialized), Otherwise: methodNotFound, Last: "notifications/initialized"},
		} {
			synctest.Test(t, func(t *testing.T) {
				to, _ := target(server)
				d := quiet()
				lost := make(chan error, 2)
				d.OnConnectionLost = func(err error) { lost <- err }
				c := must.Get(d.Dial(t.Context(), to))(t)
				synctest.Wait()
				must.CheckEqual(t, len(lost), 1)
				c.Close()
			})
		}
	}
}
