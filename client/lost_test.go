package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// I3, S5: a call that may have run is not sent again; the next one starts anew.
func TestACallIsNeverSentTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, played := dial(t, saying("!close"), saying("!close"), modernServer())
		for range 2 {
			if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrConnectionLost) || errors.Is(err, client.ErrClientClosed) {
				t.Errorf("got %v", err)
			}
		}
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" {
			t.Errorf("the call after: %q, %v", text, err)
		}
		c.Close()
		if heard := played.methods(); strings.Count(heard, "tools/call") != 3 || strings.Count(heard, probed) != 3 {
			t.Errorf("the servers heard %s", heard)
		}
	})
}

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
			dying := modernServer()
			if dying.Answers[method] = []string{"!close"}; method == "server/discover" {
				dying.Answers[method] = []string{discovered, "!close"}
			}
			c, _ := dial(t, dying, modernServer())
			if err := use(c); err != nil {
				t.Errorf("%s: %v", method, err)
			}
			c, played := dial(t, dying, dying, dying)
			if err := use(c); !errors.Is(err, client.ErrConnectionLost) {
				t.Errorf("%s on a server that dies each time: %v", method, err)
			}
			c.Close()
			if n := strings.Count(played.methods(), method); method == "tools/list" && n != 2 {
				t.Errorf("%s was sent %d times", method, n)
			}
		})
	}
}

// A connection that has ended meanwhile is noticed before anything is sent on it.
func TestAConnectionThatEndedIdleIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := modernServer()
		ends.Answers["ping/me"] = []string{"!close"}
		var conns []transport.Conn
		var serving sync.WaitGroup
		to := client.Each(func() transport.Conn {
			near, far := transport.Pipe()
			conns = append(conns, far)
			serving.Go(func() { modernServer().serve(far) })
			return near
		})
		lost := make(chan error, 10)
		d := quiet()
		d.OnConnectionLost = func(err error) { lost <- err }
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		conns[0].Close()
		if err := <-lost; !errors.Is(err, client.ErrConnectionLost) {
			t.Errorf("OnConnectionLost was told %v", err)
		}
		if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
			t.Error(err)
		}
		c.Close()
		for _, conn := range conns {
			conn.Close()
		}
		serving.Wait()
		if len(conns) != 2 || len(lost) > 0 {
			t.Errorf("%d connections, %d more losses", len(conns), len(lost))
		}
	})
}

// Of calls at once on a connection that ends each gets one outcome, and one dial
// serves them all (I1).
func TestConcurrentCallsSurviveALostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dying := saying("", "", "", "", "!close")
		c, played := dial(t, dying, modernServer())
		var wg sync.WaitGroup
		var lost atomic.Int32
		for range 20 {
			wg.Go(func() {
				if _, err := c.CallTool(t.Context(), "a", nil); errors.Is(err, client.ErrConnectionLost) {
					lost.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
			t.Error(err)
		}
		c.Close()
		heard := played.methods()
		if strings.Count(heard, probed) != 2 || lost.Load() < 5 {
			t.Errorf("%d calls were lost, the servers heard %s", lost.Load(), heard)
		}
	})
}

// I3, S5 with a real process: what has run is counted in the server.
func TestAProcessThatDiesIsStartedAgain(t *testing.T) {
	executions := filepath.Join(t.TempDir(), "executions")
	s := saying("!exit 3 out of cheese")
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
			t.Errorf("after call %d the tool has run %d times", i+1, n)
		}
		if err := <-lost; !errors.As(err, &exit) {
			t.Errorf("OnConnectionLost was told %v", err)
		}
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
}

// Two processes of one server do not run at the same time.
func TestAProcessIsGoneBeforeTheNextBegins(t *testing.T) {
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
	s := saying("!mute")
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
	first.SetReadDeadline(time.Now().Add(time.Millisecond)) // it is over already
	var timeout net.Error
	if _, err := first.Read(make([]byte, 1)); errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("the first process is still there")
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

func TestAProcessThatExitsAtOnceSaysWhy(t *testing.T) {
	for _, test := range []struct {
		answer string
		says   []string
	}{
		{"!exit 7 no such file: config.json", []string{"code 7", "no such file: config.json"}},
		{"!exit 0 bye", []string{"code 0"}},
	} {
		_, err := client.Dial(t.Context(), child(t, &script{Otherwise: test.answer}))
		if !errors.Is(err, client.ErrConnectionLost) {
			t.Errorf("got %v", err)
		}
		for _, want := range test.says {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%v does not say %s", err, want)
			}
		}
	}
}

func TestACommandThatDoesNotExistIsAnError(t *testing.T) {
	_, err := client.Dial(t.Context(), client.Command("parley-no-such-command"))
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "parley-no-such-command") {
		t.Errorf("got %v", err)
	}
}

// A line without end does not fill the memory (§11).
func TestAnEndlessLineIsCutOff(t *testing.T) {
	d := quiet()
	d.MaxMessage = 256 << 10
	flood := saying("!flood")
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
		t.Errorf("%d bytes were allocated", allocated)
	}
}

// legacyHTTP is a server with sessions that forgets them when told to.
type legacyHTTP struct {
	sessions atomic.Int32 // that were begun
	forgets  atomic.Bool  // the current session
	executed atomic.Int32
	gate     chan struct{} // what calls of "wait" wait for
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
		s.forgets.Store(false)
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(s.sessions.Add(1)))
		answer(initialized)
	case r.Header.Get("Mcp-Session-Id") == "":
		w.WriteHeader(http.StatusBadRequest)
	case r.Header.Get("Mcp-Session-Id") != current || s.forgets.Load():
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
	c, err := d.Dial(t.Context(), client.URL(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// U3: a session that the server has forgotten is begun anew, and the call, which
// has not run, is sent again.
func TestAForgottenSessionIsBegunAnew(t *testing.T) {
	s := new(legacyHTTP)
	c := dialHTTP(t, s)
	for i := range int32(3) {
		s.forgets.Store(true)
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" {
			t.Errorf("%q, %v", text, err)
		}
		if s.executed.Load() != i+1 || s.sessions.Load() != i+2 {
			t.Errorf("%d calls have run in %d sessions", s.executed.Load(), s.sessions.Load())
		}
	}
}

// The calls in flight on the forgotten session are not cut off by the one that
// has found out first.
func TestCallsInFlightSurviveTheEndOfTheirSession(t *testing.T) {
	s := &legacyHTTP{gate: make(chan struct{}), waiting: make(chan struct{})}
	c := dialHTTP(t, s)
	slow := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), "wait", nil)
		slow <- err
	}()
	<-s.waiting
	s.forgets.Store(true)
	if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
		t.Errorf("the call on the new session: %v", err)
	}
	close(s.gate)
	if err := <-slow; err != nil {
		t.Errorf("the call on the old session: %v", err)
	}
	if s.executed.Load() != 2 || s.sessions.Load() != 2 {
		t.Errorf("%d calls have run in %d sessions", s.executed.Load(), s.sessions.Load())
	}
}

// U6: what was lost on the way is asked again only if it may be.
func TestACutConnectionRepeatsListsOnly(t *testing.T) {
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
	if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrConnectionLost) || calls.Load() != 1 {
		t.Errorf("%d calls were sent, %v", calls.Load(), err)
	}
	for _, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Error(err)
		}
	}
	if lists.Load() != 2 {
		t.Errorf("the list was asked for %d times", lists.Load())
	}
}

// Dialling again fails as dialling does, and is tried again by the next call.
func TestAServerThatDoesNotComeBackIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t, saying("!close"), &script{Otherwise: "!close"}, &script{}, modernServer())
		if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrConnectionLost) {
			t.Errorf("got %v", err)
		}
		if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrConnectionLost) || !strings.Contains(err.Error(), "dial") {
			t.Errorf("got %v", err)
		}
		if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
			t.Error(err)
		}
	})
}
