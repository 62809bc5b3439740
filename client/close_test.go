package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
)

// closed fails unless everything that can be done with c says that it is closed.
func closed(t *testing.T, c *client.Client) {
	t.Helper()
	if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrClientClosed) {
		t.Errorf("CallTool: %v", err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, client.ErrClientClosed) {
		t.Errorf("Ping: %v", err)
	}
	for _, err := range c.Tools(t.Context()) {
		if !errors.Is(err, client.ErrClientClosed) {
			t.Errorf("Tools: %v", err)
		}
	}
	if c.Revision() == "" {
		t.Error("the revision is forgotten")
	}
}

// I13: from any state, twice, concurrently.
func TestCloseMayBeCalledAnyNumberOfTimes(t *testing.T) {
	for _, s := range []*script{modernServer(), legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			to, played := target(s)
			d := quiet()
			d.OnConnectionLost = func(err error) { t.Errorf("OnConnectionLost was told %v", err) }
			c, err := d.Dial(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			closed(t, c)
			played.methods() // the server has seen the end
		})
	}
}

func TestCloseEndsCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t, saying(""))
		results := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := c.CallTool(t.Context(), "a", nil)
				results <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for range 10 {
			if err := <-results; !errors.Is(err, client.ErrClientClosed) {
				t.Errorf("got %v", err)
			}
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("it took %v", d)
		}
		closed(t, c)
	})
}

// A Close while a connection is being made anew does not wait for what may never come.
func TestCloseEndsDialling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, played := dial(t, saying("!close"), &script{})
		if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrConnectionLost) {
			t.Fatal(err)
		}
		results := make(chan error, 3)
		for range 3 { // one dials, the others wait for it
			go func() {
				_, err := c.CallTool(t.Context(), "a", nil)
				results <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for range 3 {
			if err := <-results; !errors.Is(err, client.ErrClientClosed) {
				t.Errorf("got %v", err)
			}
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("it took %v", d)
		}
		if heard := played.methods(); strings.Count(heard, probed) != 2 {
			t.Errorf("the servers heard %s", heard)
		}
		closed(t, c)
	})
}

// Everything at once, for the race detector.
func TestCloseRacesWithEverything(t *testing.T) {
	for range 30 {
		c, _ := dial(t, saying(called, "!close"), modernServer())
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
					if err != nil && !errors.Is(err, client.ErrClientClosed) && !errors.Is(err, client.ErrConnectionLost) {
						t.Error(err)
					}
				}
			})
		}
		wg.Go(func() { c.Close() })
		wg.Go(func() { c.Close() })
		wg.Wait()
		closed(t, c)
	}
}

// life is a child process as seen by a connection that it holds on to.
type life struct {
	t    *testing.T
	conn chan net.Conn
}

func lifeOf(t *testing.T, s *script) *life {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Life = listener.Addr().String()
	l := &life{t, make(chan net.Conn, 1)}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		if conn, err := listener.Accept(); err == nil {
			l.conn <- conn
		}
	})
	t.Cleanup(func() {
		listener.Close()
		accepting.Wait()
	})
	return l
}

// begun waits until the process runs.
func (l *life) begun() {
	l.t.Helper()
	select {
	case conn := <-l.conn:
		l.conn <- conn
	case <-time.After(patience):
		l.t.Error("the process has not begun")
	}
}

// over fails unless the process is gone.
func (l *life) over() {
	l.t.Helper()
	l.begun()
	conn := <-l.conn
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(patience))
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); errors.As(err, &timeout) && timeout.Timeout() {
		l.t.Error("the process is still there")
	}
}

// patience is how long a test waits for what should come at once.
const patience = 10 * time.Second

// A child that takes neither the end of its input nor a request for an end is killed.
func TestCloseEndsAProcessThatWillNot(t *testing.T) {
	s := modernServer()
	s.Stubborn = true
	life := lifeOf(t, s)
	p := child(t, s)
	p.ExitGrace, p.TermGrace = 50*time.Millisecond, 50*time.Millisecond
	d := quiet()
	c, err := d.Dial(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d < 50*time.Millisecond || d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
	life.over()
}

func TestADialWhoseContextEndsLeavesNothingBehind(t *testing.T) {
	s := new(script)
	life := lifeOf(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		life.begun()
		cancel()
	})
	d := quiet()
	if _, err := d.Dial(ctx, child(t, s)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	life.over()
}

func TestADialInMemoryWhoseContextEndsLeavesNothingBehind(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 3 * time.Second} { // before, during the probe, during both
		synctest.Test(t, func(t *testing.T) {
			to, played := target(new(script))
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("never mind")
			time.AfterFunc(after, func() { cancel(why) })
			d := quiet()
			start := time.Now()
			if _, err := d.Dial(ctx, to); !errors.Is(err, why) {
				t.Errorf("after %v: %v", after, err)
			}
			if d := time.Since(start); d != after {
				t.Errorf("it took %v", d)
			}
			if heard := played.methods(); strings.Contains(heard, "cancelled") { // neither probe nor handshake is cancelled
				t.Errorf("the server heard %s", heard)
			}
		})
	}
}

// A session over HTTP is ended with the client.
func TestCloseEndsTheSession(t *testing.T) {
	m := &mock{otherwise: status(http.StatusNotFound, "")}
	hello := ok(initialized)
	hello.header = http.Header{"Mcp-Session-Id": {"abc"}}
	m.answers = map[string][]reply{"initialize": {hello}}
	c, err := m.dial(t, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if heard := m.methods(); strings.Count(heard, http.MethodDelete) != 1 {
		t.Errorf("the server heard %s", heard)
	}
	closed(t, c)
}
