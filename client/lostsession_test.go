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
	lost     *reply        // to requests of an expired session; nil means 404
	ping     *reply        // to pings of an expired session; nil means the same as to other requests
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
	c, err := d.Dial(t.Context(), client.URL(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Rule U3: the client begins a new session after the server has expired one, and repeats the call,
// which has not run.
func TestExpiredSessionIsReplaced(t *testing.T) {
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

// Servers that have lost a session respond with several statuses and texts. A call is sent again if the response names
// the session, so that the call cannot have run. After another rejection, the next call has a new session.
func TestLostSessionsWithOtherStatusesAreReplaced(t *testing.T) {
	inJSON := func(id, message string) string {
		return `{"jsonrpc":"2.0","error":{"code":-32000,"message":"` + message + `"},"id":` + id + `}`
	}
	pong := ok(`"result":{}`)
	noPing := failing(400, methodNotFound)
	for name, test := range map[string]struct {
		lost  reply
		again bool   // the call is sent again
		alive *reply // to pings, if the server has not lost the session
	}{
		"JSON":               {lost: reply{status: 400, body: inJSON("null", "Bad Request: No valid session ID provided")}, again: true},
		"id of a text":       {lost: reply{status: 400, body: inJSON(`"server-error"`, "Bad Request: Missing session ID")}, again: true},
		"text":               {lost: status(400, "Invalid session ID\n"), again: true},
		"not initialized":    {lost: reply{status: 400, body: inJSON("null", "Bad Request: Server not initialized")}, again: true},
		"conflict":           {lost: reply{status: 409, body: `{"error":"unknown session"}`}, again: true},
		"gone":               {lost: status(410, "the session was closed"), again: true},
		"conflict of a tool": {lost: reply{status: 409, body: `{"error":"browser session 5 is in use"}`}, alive: &pong},
		"gone for a tool":    {lost: status(410, "browser session 5 was closed"), alive: &pong},
		"text of a tool":     {lost: status(400, "browser session 5 is closed"), alive: &pong},
		"id of the call":     {lost: reply{status: 400, body: inJSON("$id", "Session not found")}, again: true},
		"no reason":          {lost: status(400, "Bad Request")},
		"error of a tool":    {lost: reply{status: 400, body: inJSON("$id", "browser session 5 is closed")}, alive: &pong},
		"page of a proxy":    {lost: reply{status: 400, kind: "text/html", body: "your session has expired"}, alive: &pong},
		"invalid argument":   {lost: status(400, "a must be a number"), alive: &pong},
		"no ping":            {lost: status(400, "a must be a number"), alive: &noPing},
		"internal error":     {lost: status(500, "cannot read the session"), alive: &pong},
		"login":              {lost: status(401, "your session has expired"), alive: &pong},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(legacyHTTP)
			s.lost, s.ping = &test.lost, test.alive
			c := dialHTTP(t, s)
			s.expired.Store(true)
			if _, err := c.CallTool(t.Context(), "a", nil); (err == nil) != test.again {
				t.Errorf("the call in the lost session: %v", err)
			}
			if _, err := c.CallTool(t.Context(), "a", nil); (err == nil) != (test.alive == nil) {
				t.Errorf("the next call: %v", err)
			}
			executed, sessions := int32(2), int32(2)
			if !test.again {
				executed = 1
			}
			if test.alive != nil {
				executed, sessions = 0, 1
			}
			if s.executed.Load() != executed || s.sessions.Load() != sessions {
				t.Errorf("%d calls ran in %d sessions, want %d in %d", s.executed.Load(), s.sessions.Load(), executed, sessions)
			}
		})
	}
}

// A list is requested again in a new session, whatever the server responds with status 400.
func TestListsAreRequestedAgainInANewSession(t *testing.T) {
	rejected := status(400, "")
	s := &legacyHTTP{lost: &rejected}
	c := dialHTTP(t, s)
	s.expired.Store(true)
	for _, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Error(err)
		}
	}
	if s.sessions.Load() != 2 {
		t.Errorf("%d sessions", s.sessions.Load())
	}
}
