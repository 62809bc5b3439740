package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// legacyHTTP is a server whose sessions can expire.
type legacyHTTP struct {
	sessions atomic.Int32 // number of sessions so far
	expired  atomic.Bool  // the current session has expired
	executed atomic.Int32
	gate     chan struct{} // calls of the tool "wait" receive from it
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

// U3: the client begins a new session after the server has expired one, and repeats the call,
// which has not run.
func TestU3ExpiredSessionIsReplaced(t *testing.T) {
	s := new(legacyHTTP)
	c := dialHTTP(t, s)
	for i := range int32(3) {
		s.expired.Store(true)
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" {
			t.Errorf("%q, %v", text, err)
		}
		if s.executed.Load() != i+1 || s.sessions.Load() != i+2 {
			t.Errorf("%d calls ran in %d sessions", s.executed.Load(), s.sessions.Load())
		}
	}
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
	if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
		t.Errorf("call in the new session: %v", err)
	}
	close(s.gate)
	if err := <-slow; err != nil {
		t.Errorf("call in the old session: %v", err)
	}
	if s.executed.Load() != 2 || s.sessions.Load() != 2 {
		t.Errorf("%d calls ran in %d sessions", s.executed.Load(), s.sessions.Load())
	}
}

// U6: after a lost connection the client repeats only requests without side effects.
func TestU6LostHTTPConnectionRepeatsListsOnly(t *testing.T) {
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
		t.Errorf("the client sent %d calls, error %v", calls.Load(), err)
	}
	for _, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Error(err)
		}
	}
	if lists.Load() != 2 {
		t.Errorf("the client requested the list %d times, want 2", lists.Load())
	}
}
