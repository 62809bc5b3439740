package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The compatibility matrix of 2026-07-28, basic/versioning, over HTTP
// (basic/transports/streamable-http, Backward Compatibility).

// mock is an HTTP server that answers each JSON-RPC method as it was told to.
type mock struct {
	answers   map[string][]reply // one after the other; the last one is repeated
	otherwise reply

	streams chan string // to the event stream of a server that has nothing but 2024-11-05

	mu     sync.Mutex
	heard  []string
	counts map[string]int
}

// reply is an HTTP response. $id in the body stands for the request's id.
type reply struct {
	status int
	kind   string // content type; empty: JSON
	body   string
	header http.Header
}

func ok(members string) reply {
	return reply{status: 200, body: `{"jsonrpc":"2.0","id":$id,` + members + `}`}
}

func status(code int, body string) reply { return reply{status: code, kind: "text/plain", body: body} }

func failing(code int, members string) reply {
	return reply{status: code, body: `{"jsonrpc":"2.0","id":$id,` + members + `}`}
}

func (m *mock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		m.note(r.Method)
		if r.Method == http.MethodGet && m.streams != nil {
			m.stream(w, r)
			return
		}
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(r.Body)
	msg, err := jsonrpc.Parse(body, jsonrpc.Limits{})
	if err != nil {
		panic(err)
	}
	n := m.note(msg.Method)
	if m.streams != nil {
		if r.URL.Path != "/messages" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		if all := m.answers[msg.Method]; len(all) > 0 {
			m.streams <- strings.ReplaceAll(all[0].body, "$id", msg.ID.String())
		}
		return
	}
	answer := m.otherwise
	if all := m.answers[msg.Method]; len(all) > 0 {
		answer = all[min(n, len(all))-1]
	} else if msg.Kind == jsonrpc.Notification {
		answer = reply{status: http.StatusAccepted}
	}
	if answer.status == 0 { // no answer
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", answer.kind)
	if answer.kind == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	for name, values := range answer.header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.status)
	io.WriteString(w, strings.ReplaceAll(answer.body, "$id", msg.ID.String()))
}

func (m *mock) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
	for {
		w.(http.Flusher).Flush()
		select {
		case msg := <-m.streams:
			fmt.Fprintf(w, "data: %s\n\n", msg)
		case <-r.Context().Done():
			return
		}
	}
}

func (m *mock) note(method string) (times int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = append(m.heard, method)
	if m.counts == nil {
		m.counts = make(map[string]int)
	}
	m.counts[method]++
	return m.counts[method]
}

func (m *mock) methods() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.heard, " ")
}

// dial dials the mock over HTTP, at the end of the test nothing is left of it.
func (m *mock) dial(t *testing.T, d client.Dialer) (*client.Client, error) {
	t.Helper()
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	d.HTTPClient = s.Client()
	c, err := d.Dial(t.Context(), client.URL(s.URL+"/mcp"))
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func hasStatus(code int) func(error) bool {
	return func(err error) bool {
		var status *call.StatusError
		return errors.As(err, &status) && status.Status == code
	}
}

func TestDiallingFindsTheEraOverHTTP(t *testing.T) {
	all := func(pairs ...any) map[string][]reply {
		m := map[string][]reply{"initialize": {ok(initialized)}, "tools/call": {ok(called)}}
		for i := 0; i < len(pairs); i += 2 {
			switch v := pairs[i+1].(type) {
			case reply:
				m[pairs[i].(string)] = []reply{v}
			case []reply:
				m[pairs[i].(string)] = v
			}
		}
		return m
	}
	const fellBack = probed + " " + shookHands
	for _, test := range []struct {
		name    string
		answers map[string][]reply
		pair    bool // the server has the transport of 2024-11-05
		pinned  mcp.Revision
		want    mcp.Revision
		fails   func(error) bool
		heard   string
	}{
		{name: "modern", answers: all("server/discover", ok(discovered)), want: mcp.V20260728, heard: probed},
		{name: "modern, and the answer is an event", answers: all("server/discover", reply{200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":$id," + discovered + "}\n\n", nil}), want: mcp.V20260728, heard: probed},

		{name: "legacy: an empty result", answers: all("server/discover", ok(`"result":{}`)), want: mcp.V20250618, heard: fellBack},
		{name: "legacy: -32601 with 200", answers: all("server/discover", ok(methodNotFound)), want: mcp.V20250618, heard: fellBack},
		{name: "legacy: -32601 with 404", answers: all("server/discover", failing(404, methodNotFound)), want: mcp.V20250618, heard: fellBack},
		{name: "legacy: -32000 without id", answers: all("server/discover", reply{400, "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`, nil}), want: mcp.V20250618, heard: fellBack},
		{name: "legacy: 400 and text", answers: all("server/discover", status(400, "no session")), want: mcp.V20250618, heard: fellBack},
		{name: "legacy: 400 and nothing", answers: all("server/discover", status(400, "")), want: mcp.V20250618, heard: fellBack},
		{name: "legacy: 404", answers: all("server/discover", status(404, "nothing here")), want: mcp.V20250618, heard: fellBack},
		{name: "legacy: 405", answers: all("server/discover", status(405, "")), want: mcp.V20250618, heard: fellBack},
		{name: "legacy: 415", answers: all("server/discover", status(415, "")), want: mcp.V20250618, heard: fellBack},
		{name: "legacy: 422", answers: all("server/discover", status(422, `{"detail":[]}`)), want: mcp.V20250618, heard: fellBack},
		{name: "2024-11-05", answers: all("initialize", ok(strings.ReplaceAll(initialized, "2025-06-18", "2024-11-05"))), pair: true, want: mcp.V20241105,
			heard: probed + " initialize GET " + shookHands},

		// What says nothing about the era is an error, and no older revision is tried.
		{name: "401", answers: all("server/discover", status(401, "")), fails: hasStatus(401), heard: probed},
		{name: "401 with an error", answers: all("server/discover", failing(401, `"error":{"code":-32001,"message":"token?"}`)), fails: hasStatus(401), heard: probed},
		{name: "403", answers: all("server/discover", status(403, "")), fails: hasStatus(403), heard: probed},
		{name: "429", answers: all("server/discover", status(429, "")), fails: hasStatus(429), heard: probed},
		{name: "500", answers: all("server/discover", status(500, "")), fails: hasStatus(500), heard: probed},
		{name: "503 with an error", answers: all("server/discover", failing(503, `"error":{"code":-32603,"message":"later"}`)), fails: hasStatus(503), heard: probed},
		{name: "a redirect", answers: all("server/discover", reply{302, "text/plain", "", http.Header{"Location": {"https://example.com/"}}}), fails: hasStatus(302), heard: probed},

		// U5: recognised modern errors.
		{name: "refuses, and lists an older revision", answers: all("server/discover", failing(400, refusal(`"2025-06-18"`))), want: mcp.V20250618, heard: fellBack},
		{name: "refuses once what it lists", answers: all("server/discover", []reply{failing(400, refusal(`"2026-07-28"`)), ok(discovered)}), want: mcp.V20260728, heard: probed + " " + probed},
		{name: "refuses always what it lists", answers: all("server/discover", failing(400, refusal(`"2026-07-28","2025-06-18"`))), fails: reports(-32022), heard: probed + " " + probed},
		{name: "refuses, with nothing in common", answers: all("server/discover", failing(400, refusal(`"2099-01-01"`))), fails: is(client.ErrRevision), heard: probed},
		{name: "wants a capability", answers: all("server/discover", failing(400, `"error":{"code":-32021,"message":"no"}`)), fails: reports(-32021), heard: probed},
		{name: "sees a mismatch of headers", answers: all("server/discover", failing(400, `"error":{"code":-32020,"message":"no"}`)), fails: reports(-32020), heard: probed},
		{name: "describes itself, with nothing in common", answers: all("server/discover", ok(`"result":{"resultType":"complete","supportedVersions":["2099-01-01"],"capabilities":{}}`)), fails: is(client.ErrRevision), heard: probed},
		{name: "describes itself, and lists older revisions only", answers: all("server/discover", ok(`"result":{"resultType":"complete","supportedVersions":["2025-06-18"],"capabilities":{}}`)), want: mcp.V20250618, heard: fellBack},

		{name: "answers the handshake with an unknown revision", answers: all("server/discover", status(400, ""), "initialize", ok(strings.ReplaceAll(initialized, "2025-06-18", "1999-01-01"))),
			fails: is(client.ErrRevision), heard: probed + " initialize"},
		{name: "is no MCP endpoint", answers: map[string][]reply{}, fails: hasStatus(404), heard: probed + " initialize GET"},
		{name: "is a web page", answers: all("server/discover", reply{200, "text/html", "<html>", nil}, "initialize", reply{200, "text/html", "<html>", nil}),
			fails: func(err error) bool { return strings.Contains(err.Error(), "MCP endpoint") }, heard: probed + " initialize"},

		{name: "pinned to a legacy revision", answers: all("server/discover", ok(discovered)), pinned: mcp.V20250618, want: mcp.V20250618, heard: shookHands},
		{name: "pinned to the modern revision", answers: all("server/discover", status(400, "")), pinned: mcp.V20260728, fails: hasStatus(400), heard: probed},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &mock{answers: test.answers, otherwise: status(404, "")}
			if test.pair {
				m.streams = make(chan string, 10)
			}
			d := quiet()
			d.Revision = test.pinned
			c, err := m.dial(t, d)
			(&compat{want: test.want, fails: test.fails}).check(t, c, err)
			if heard := strings.TrimSuffix(m.methods(), " tools/call"); heard != test.heard {
				t.Errorf("the server heard %s, not %s", heard, test.heard)
			}
		})
	}
}

func TestAServerThatCannotBeReachedIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	d := quiet()
	d.HTTPClient = &http.Client{Transport: &http.Transport{}}
	if _, err := d.Dial(t.Context(), client.URL("http://"+address)); !errors.Is(err, client.ErrConnectionLost) {
		t.Errorf("got %v", err)
	}
}

// A server that does not answer is slow, not old: no older revision is tried.
func TestAServerThatDoesNotAnswerIsAnError(t *testing.T) {
	m := &mock{}
	d := quiet()
	d.Timeouts.Initialize = 50 * time.Millisecond
	if _, err := m.dial(t, d); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if heard := m.methods(); heard != probed {
		t.Errorf("the server heard %s", heard)
	}
}

func TestURLsThatAreNoneAreRefused(t *testing.T) {
	for _, url := range []string{"", "example.com/mcp", "ftp://example.com", "http://", "http://[::1", "/mcp", "file:///etc/passwd"} {
		if _, err := client.Dial(t.Context(), client.URL(url)); err == nil || !strings.Contains(err.Error(), "http://") && !strings.Contains(err.Error(), "malformed") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Secrets in a URL do not end up in errors.
func TestErrorsDoNotRepeatPasswords(t *testing.T) {
	_, err := client.Dial(t.Context(), client.URL("ftp://user:hunter2@example.com/?token=hunter2#hunter2"))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
