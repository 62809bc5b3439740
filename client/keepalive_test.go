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

// halfOpen is a connection that at some time lets nothing through any more, either way,
// and says nothing about it.
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

// I6: a connection that is half open is noticed, whether somebody waits on it or not.
func TestAHalfOpenConnectionIsNoticed(t *testing.T) {
	for _, s := range []*script{modernServer(), legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			s.Answers["tools/call"] = []string{""}
			near, far := transport.Pipe()
			conn := &halfOpen{Conn: near}
			served := make(chan struct{})
			go func() { defer close(served); s.serve(far) }()
			d := quiet()
			d.KeepAlive = 10 * time.Second
			d.Timeouts.Tool = time.Hour
			lost := make(chan error, 1)
			d.OnConnectionLost = func(err error) { lost <- err }
			c, err := d.Dial(t.Context(), client.Conn(conn))
			if err != nil {
				t.Fatal(err)
			}
			waiting := make(chan error, 1)
			go func() {
				_, err := c.CallTool(t.Context(), "a", nil)
				waiting <- err
			}()
			time.Sleep(5 * time.Minute) // it is there, though nobody says anything but in answer
			select {
			case err := <-waiting:
				t.Fatalf("the call ended with %v", err)
			default:
			}
			conn.cut.Store(true)
			begin := time.Now()
			err = <-waiting
			var silent *call.SilentError
			if !errors.As(err, &silent) || !errors.Is(err, client.ErrConnectionLost) || silent.For < 10*time.Second {
				t.Errorf("the call ended with %v", err)
			}
			if took := time.Since(begin); took > 2*d.KeepAlive+5*time.Second {
				t.Errorf("it took %v", took)
			}
			if err := <-lost; !errors.As(err, &silent) {
				t.Errorf("OnConnectionLost was told %v", err)
			}
			c.Close()
			far.Close()
			<-served
		})
	}
}

func TestAConnIsNotPingedUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, played := dial(t, legacyServer())
		time.Sleep(time.Hour)
		c.Close()
		if heard := played.methods(); strings.Contains(heard, "ping") {
			t.Errorf("the server heard %s", heard)
		}
	})
}

// A server that talks need not be asked.
func TestABusyConnectionIsNotPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, played := target(legacyServer())
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
		if heard := played.methods(); strings.Contains(heard, "ping") {
			t.Errorf("the server heard %s", heard)
		}
	})
}

// A session that its server has forgotten is begun anew with the next request.
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
			t.Fatal("the server is not pinged")
		}
	}
	for begin := time.Now(); sessions.Load() < 2; { // until the client has read that the session is gone
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" {
			t.Fatalf("%q, %v", text, err)
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal("no other session was begun")
		}
	}
	c.Close()
}

// answer answers a message that has been read.
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
