package client_test

import (
	"context"
	"errors"
	"io"
	"net"
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
	"github.com/parley-mcp/parley/transport"
)

// checkClosed fails unless all methods of c report that it is closed.
func checkClosed(t *testing.T, c *client.Client) {
	t.Helper()
	must.CheckIs(t, must.Err(c.CallTool(t.Context(), "a", nil)), call.ErrClosed)
	must.CheckIs(t, c.Ping(t.Context()), call.ErrClosed)
	for _, err := range c.Tools(t.Context()) {
		must.CheckIs(t, err, call.ErrClosed)
	}
	must.CheckThat(t, c.Revision() != "", "Revision is empty after Close")
}

// Close may be called more than once and concurrently.
func TestCloseIsIdempotent(t *testing.T) {
	for _, s := range []*script{modernServer(), legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			to, rec := target(s)
			d := quiet()
			d.OnConnectionLost = func(err error) { t.Errorf("OnConnectionLost received %v", err) }
			c := must.Get(d.Dial(t.Context(), to))(t)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() { must.Check(t, c.Close()) })
			}
			wg.Wait()
			must.Check(t, c.Close())
			checkClosed(t, c)
			rec.methods() // waits until the server has received the end of its input
		})
	}
}

func TestCloseEndsCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t, withToolAnswers(""))
		results := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := c.CallTool(t.Context(), "a", nil)
				results <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		must.Check(t, c.Close())
		for range 10 {
			must.CheckIs(t, <-results, call.ErrClosed)
		}
		d := time.Since(start)
		must.CheckThat(t, d <= 0, "it took %v", d)
		checkClosed(t, c)
	})
}

// Close does not wait for a server that does not answer while the client reconnects.
func TestCloseEndsReconnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rec := dial(t, withToolAnswers("!close"), &script{})
		must.Is(t, must.Err(c.CallTool(t.Context(), "a", nil)), call.ErrConnectionLost)
		results := make(chan error, 3)
		for range 3 { // one call reconnects, the others wait for it
			go func() {
				_, err := c.CallTool(t.Context(), "a", nil)
				results <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		must.Check(t, c.Close())
		for range 3 {
			must.CheckIs(t, <-results, call.ErrClosed)
		}
		d := time.Since(start)
		must.CheckThat(t, d <= 0, "it took %v", d)
		rec.wants(t, probed, 2)
		checkClosed(t, c)
	})
}

// For the race detector.
func TestCloseDuringConcurrentCalls(t *testing.T) {
	for range 30 {
		c, _ := dial(t, withToolAnswers(called, "!close"), modernServer())
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				var err error
				for range 10 {
					if i%2 == 0 {
						_, err = c.CallTool(t.Context(), "a", nil)
					} else {
						err = c.Ping(t.Context())
					}
					must.CheckThat(t, err == nil || errors.Is(err, call.ErrClosed) ||
						errors.Is(err, call.ErrConnectionLost), "%v", err)
				}
			})
		}
		wg.Go(func() { c.Close() })
		wg.Go(func() { c.Close() })
		wg.Wait()
		checkClosed(t, c)
	}
}

// process observes a child process through a connection that the child keeps open until it
// exits.
type process struct {
	t    *testing.T
	conn chan net.Conn
}

func observe(t *testing.T, s *script) *process {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.Life = listener.Addr().String()
	p := &process{t, make(chan net.Conn, 1)}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		if conn, err := listener.Accept(); err == nil {
			p.conn <- conn
		}
	})
	t.Cleanup(func() {
		listener.Close()
		accepting.Wait()
	})
	return p
}

// awaitStart waits until the process runs.
func (p *process) awaitStart() {
	p.t.Helper()
	conn := must.Receive(p.t, p.conn, "the start of the process")
	p.conn <- conn
}

// awaitExit fails unless the process exits.
func (p *process) awaitExit() {
	p.t.Helper()
	p.awaitStart()
	conn := <-p.conn
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(eventTimeout))
	var timeout net.Error
	_, err := conn.Read(make([]byte, 1))
	must.CheckThat(p.t, !errors.As(err, &timeout) || !timeout.Timeout(), "the process is still running")
}

// eventTimeout is how long a test waits for an event that should happen at once.
const eventTimeout = time.Minute

// The client kills a process that ignores the end of its input and SIGTERM.
func TestCloseKillsAStubbornProcess(t *testing.T) {
	s := modernServer()
	s.Stubborn = true
	observed := observe(t, s)
	p := child(t, s)
	p.ExitGrace, p.TermGrace = 50*time.Millisecond, 50*time.Millisecond
	d := quiet()
	c := must.Get(d.Dial(t.Context(), p))(t)
	start := time.Now()
	must.Check(t, c.Close())
	if d := time.Since(start); d < 50*time.Millisecond || d > 5*time.Second {
		t.Errorf("Close took %v", d)
	}
	observed.awaitExit()
}

func TestCancelledDialEndsTheProcess(t *testing.T) {
	s := new(script)
	observed := observe(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		observed.awaitStart()
		cancel()
	})
	d := quiet()
	must.CheckIs(t, must.Err(d.Dial(ctx, child(t, s))), context.Canceled)
	observed.awaitExit()
}

func TestCancelledDialEndsTheConnection(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 3 * time.Second} { // before, during the probe, during both
		synctest.Test(t, func(t *testing.T) {
			to, rec := target(new(script))
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("cancelled by the test")
			time.AfterFunc(after, func() { cancel(cause) })
			d := quiet()
			start := time.Now()
			must.CheckIs(t, must.Err(d.Dial(ctx, to)), cause, after)
			must.CheckEqual(t, time.Since(start), after)
			// server/discover and initialize must not be cancelled
			rec.wants(t, "cancelled", 0)
		})
	}
}

// halfOpen is a connection that can stop delivering messages without an error.
type halfOpen struct {
	transport.Conn
	cut atomic.Bool
}

func (h *halfOpen) Write(ctx context.Context, msg []byte) error {
	if h.cut.Load() {
		return nil
	}
	return h.Conn.Write(ctx, msg)
}

const halfOpenKeepAlive = 10 * time.Second

// dialHalfOpen connects to a server that does not answer tools/call. lost receives the errors of
// OnConnectionLost. The connection and the server are closed when the test ends.
func dialHalfOpen(t *testing.T, s *script) (c *client.Client, conn *halfOpen, lost chan error) {
	s.Answers["tools/call"] = []string{""}
	near, far := transport.Pipe()
	conn, lost = &halfOpen{Conn: near}, make(chan error, 2)
	served := make(chan struct{})
	go func() { defer close(served); s.serve(far) }()
	d := quiet()
	d.KeepAlive = halfOpenKeepAlive
	d.Timeouts.Tool = time.Hour
	d.OnConnectionLost = func(err error) { lost <- err }
	c = must.Get(d.Dial(t.Context(), client.Conn(conn)))(t)
	t.Cleanup(func() {
		c.Close()
		far.Close()
		<-served
	})
	return c, conn, lost
}

// A half-open connection is lost, and the calls in flight fail.
func TestHalfOpenConnectionIsLost(t *testing.T) {
	for _, s := range []*script{modernServer(), legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			c, conn, lost := dialHalfOpen(t, s)
			waiting := make(chan error, 1)
			go func() {
				_, err := c.CallTool(t.Context(), "a", nil)
				waiting <- err
			}()
			time.Sleep(5 * time.Minute) // the server answers pings but sends nothing else
			select {
			case err := <-waiting:
				t.Fatalf("the call ended with %v", err)
			default:
			}
			conn.cut.Store(true)
			begin := time.Now()
			err := <-waiting
			var silent *call.SilentError
			must.CheckThat(t, errors.As(err, &silent) && errors.Is(err, call.ErrConnectionLost) &&
				silent.After >= halfOpenKeepAlive, "the call ended with %v", err)
			took := time.Since(begin)
			must.CheckThat(t, took <= 2*halfOpenKeepAlive+5*time.Second, "the connection was lost after %v", took)
			if err := <-lost; !errors.As(err, &silent) {
				t.Errorf("OnConnectionLost received %v", err)
			}
		})
	}
}

// paused is a transport to a server that stands still during a call, for example at a breakpoint: it sends keep-alive
// comments for a minute, then nothing for ten, and meanwhile answers no pings.
type paused struct {
	mock
	resumed atomic.Pointer[chan struct{}] // nil until the server stands still
}

func (p *paused) RoundTrip(r *http.Request) (*http.Response, error) {
	var m jsonrpc.Message
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		m, _ = jsonrpc.Parse(body, jsonrpc.Limits{})
	}
	if resumed := p.resumed.Load(); resumed != nil && m.Method == mcp.MethodPing {
		select {
		case <-*resumed:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	w := httptest.NewRecorder()
	if m.Method != mcp.MethodCallTool {
		p.answer(w, m)
		return w.Result(), nil
	}
	stream, out := io.Pipe()
	go func() {
		for range 5 {
			_, _ = io.WriteString(out, ": keep-alive\n\n")
			time.Sleep(15 * time.Second)
		}
		resumed := make(chan struct{})
		p.resumed.Store(&resumed)
		time.Sleep(10 * time.Minute)
		close(resumed)
		_, _ = io.WriteString(out, "data: "+strings.ReplaceAll(ok(called).body, "$id", m.ID.String())+"\n\n")
		out.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: stream, Request: r}, nil
}

func TestServerMayStandStillIfPingsHaveNoTimeout(t *testing.T) {
	for ping, survives := range map[time.Duration]bool{0: false, -1: true} {
		synctest.Test(t, func(t *testing.T) {
			server := &paused{mock: mock{answers: map[string][]reply{"initialize": {ok(initialized)},
				"ping": {ok(`"result":{}`)}}, otherwise: status(405, "")}}
			d := quiet()
			d.Revision, d.Timeouts = mcp.V20250618, client.Timeouts{Ping: ping, Tool: time.Hour}
			d.HTTPClient = &http.Client{Transport: server}
			c := must.Get(d.Dial(t.Context(), client.URL("http://server.test/mcp")))(t)
			_, err := c.CallTool(t.Context(), "a", nil)
			must.CheckThat(t, (err == nil) == survives, "with %v for pings: %v", ping, err)
			c.Close()
			time.Sleep(time.Hour) // until the server has resumed
		})
	}
}

func TestConnIsNotPingedByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rec := dial(t, legacyServer())
		time.Sleep(time.Hour)
		c.Close()
		rec.wants(t, "ping", 0)
	})
}

// A connection on which messages arrive is not pinged.
func TestBusyConnectionIsNotPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, rec := target(legacyServer())
		d := quiet()
		d.KeepAlive = 10 * time.Second
		c := must.Get(d.Dial(t.Context(), to))(t)
		for range 20 {
			names(t, c)
			time.Sleep(7 * time.Second)
		}
		c.Close()
		rec.wants(t, "ping", 0)
	})
}

// A ping that finds the session expired makes the next request begin a new session.
func TestSessionsOverHTTPArePinged(t *testing.T) {
	var pings, sessions atomic.Int32
	pinged := make(chan struct{}, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, _ := jsonrpc.Parse(body, jsonrpc.Limits{})
		switch {
		case m.Method == mcp.MethodInitialize:
			sessions.Add(1)
			w.Header().Set("Mcp-Session-Id", "s")
		case m.Method == mcp.MethodPing:
			if pings.Add(1) == 3 {
				w.WriteHeader(http.StatusNotFound)
			}
			pinged <- struct{}{}
			if pings.Load() == 3 {
				return
			}
		}
		(&mock{answers: map[string][]reply{"initialize": {ok(initialized)}, "ping": {ok(`"result":{}`)},
			"tools/call": {ok(called)}}, otherwise: status(405, "")}).answer(w, m)
	}))
	defer s.Close()
	d := quiet()
	d.Revision, d.KeepAlive = mcp.V20250618, 20*time.Millisecond
	c := must.Get(d.Dial(t.Context(), client.URL(s.URL)))(t)
	for range 3 {
		must.Receive(t, pinged, "a ping")
	}
	for begin := time.Now(); sessions.Load() < 2; { // until the client has received the status of the ping
		wantCalled(t, c, "a")
		must.That(t, time.Since(begin) <= 10*time.Second, "the client began no new session")
	}
	c.Close()
}

// answer answers a parsed message.
func (m *mock) answer(w http.ResponseWriter, msg jsonrpc.Message) {
	answer := m.otherwise
	if all := m.answers[msg.Method]; len(all) > 0 {
		answer = all[0]
	} else if msg.Kind == jsonrpc.Notification {
		answer = reply{status: http.StatusAccepted}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, strings.ReplaceAll(answer.body, "$id", msg.ID.String()))
}
