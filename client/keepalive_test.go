package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// halfOpen is a connection that can stop to deliver messages without an error.
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
// OnConnectionLost. The connection and the server end with the test.
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
	c, err := d.Dial(t.Context(), client.Conn(conn))
	if err != nil {
		t.Fatal(err)
	}
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
			if !errors.As(err, &silent) || !errors.Is(err, client.ErrConnectionLost) || silent.For < halfOpenKeepAlive {
				t.Errorf("the call ended with %v", err)
			}
			if took := time.Since(begin); took > 2*halfOpenKeepAlive+5*time.Second {
				t.Errorf("the connection was lost after %v", took)
			}
			if err := <-lost; !errors.As(err, &silent) {
				t.Errorf("OnConnectionLost received %v", err)
			}
		})
	}
}

func TestConnIsNotPingedByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rec := dial(t, legacyServer())
		time.Sleep(time.Hour)
		c.Close()
		if received := rec.methods(); strings.Contains(received, "ping") {
			t.Errorf("the server received %s", received)
		}
	})
}

// A connection on which messages arrive is not pinged.
func TestBusyConnectionIsNotPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, rec := target(legacyServer())
		d := quiet()
		d.KeepAlive = 10 * time.Second
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			names(t, c)
			time.Sleep(7 * time.Second)
		}
		c.Close()
		if received := rec.methods(); strings.Contains(received, "ping") {
			t.Errorf("the server received %s", received)
		}
	})
}

// A ping that finds the session expired makes the next request begin a new one.
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
		(&mock{answers: map[string][]reply{"initialize": {ok(initialized)}, "ping": {ok(`"result":{}`)}, "tools/call": {ok(called)}}, otherwise: status(405, "")}).answer(w, m)
	}))
	defer s.Close()
	d := quiet()
	d.Revision, d.KeepAlive = mcp.V20250618, 20*time.Millisecond
	c, err := d.Dial(t.Context(), client.URL(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		select {
		case <-pinged:
		case <-time.After(10 * time.Second):
			t.Fatal("the server received too few pings")
		}
	}
	for begin := time.Now(); sessions.Load() < 2; { // until the client has received the status of the ping
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" {
			t.Fatalf("%q, %v", text, err)
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal("the client began no new session")
		}
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
