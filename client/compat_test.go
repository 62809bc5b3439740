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
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The compatibility matrix of 2026-07-28, basic/versioning, on byte streams
// (basic/transports/stdio, Backward Compatibility).

const (
	probed     = "server/discover"
	handshaken = "initialize notifications/initialized"
)

func unsupported(supported string) string {
	return `"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":[` + supported +
		`],"requested":"2026-07-28"}}`
}

// compat is a server and the expected outcome of a Dial.
type compat struct {
	name     string
	server   script
	pinned   mcp.Revision
	want     mcp.Revision // empty: the Dial must fail
	fails    func(error) bool
	received string        // the methods that the server receives, except tools/call
	takes    time.Duration // how long the Dial takes
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func reports(code int64) func(error) bool { return is(&jsonrpc.Error{Code: code}) }

func matrix() []compat {
	dual := answers("server/discover", discovered, "initialize", initialized)
	legacy := func(probe string) script {
		return script{Answers: answers("server/discover", probe, "initialize", initialized), Otherwise: methodNotFound}
	}
	modern := func(probe ...string) script {
		s := script{Answers: answers("initialize", methodNotFound), Otherwise: methodNotFound}
		s.Answers["server/discover"] = probe
		return s
	}
	return []compat{
		{name: "modern", server: *modernServer(), want: mcp.V20260728, received: probed},
		{name: "both eras", server: script{Answers: dual}, want: mcp.V20260728, received: probed},

		// Fallback is not keyed to one error code.
		{name: "legacy: -32601", server: legacy(methodNotFound), want: mcp.V20250618,
			received: probed + " " + handshaken},
		{name: "legacy: -32602",
			server: legacy(`"error":{"code":-32602,"message":"Invalid request parameters","data":""}`),
			want:   mcp.V20250618, received: probed + " " + handshaken},
		{name: "legacy: -32000", server: legacy(`"error":{"code":-32000,"message":"not initialized"}`),
			want: mcp.V20250618, received: probed + " " + handshaken},
		{name: "legacy: -32700", server: legacy(`"error":{"code":-32700,"message":"?"}`), want: mcp.V20250618,
			received: probed + " " + handshaken},
		{name: "legacy: an empty result", server: legacy(`"result":{}`), want: mcp.V20250618,
			received: probed + " " + handshaken},
		{name: "legacy: another result", server: legacy(`"result":{"supportedVersions":7}`), want: mcp.V20250618,
			received: probed + " " + handshaken},
		{name: "legacy: a malformed result", server: legacy(`"result":[]`), want: mcp.V20250618,
			received: probed + " " + handshaken},
		{name: "legacy: silent before the handshake", server: legacy(""), want: mcp.V20250618,
			received: probed + " " + handshaken, takes: 2 * time.Second},

		{name: "slow, then modern", server: script{Delay: 5 * time.Second,
			Answers: answers("server/discover", discovered), Otherwise: methodNotFound},
			want: mcp.V20260728, received: probed + " initialize", takes: 5 * time.Second},
		{name: "slow, then legacy", server: script{Delay: 5 * time.Second, Answers: answers("initialize", initialized),
			Otherwise: methodNotFound},
			want: mcp.V20250618, received: probed + " " + handshaken, takes: 5 * time.Second},
		{name: "slow, then legacy and silent", server: script{Delay: 5 * time.Second,
			Answers: answers("initialize", initialized)},
			want: mcp.V20250618, received: probed + " " + handshaken, takes: 5 * time.Second},
		{name: "slow, then of both eras", server: script{Delay: 5 * time.Second, Answers: dual,
			After: map[string]time.Duration{"server/discover": 200 * time.Millisecond}},
			want: mcp.V20250618, received: probed + " " + handshaken, takes: 5 * time.Second},
		{name: "modern, and slow to answer", server: script{Answers: answers("server/discover", discovered),
			Otherwise: methodNotFound, After: map[string]time.Duration{"server/discover": 9 * time.Second}},
			want: mcp.V20260728, received: probed + " initialize", takes: 9 * time.Second},
		{name: "modern, but too late", server: script{Answers: dual,
			After: map[string]time.Duration{"server/discover": 9 * time.Second}},
			want: mcp.V20250618, received: probed + " " + handshaken, takes: 2 * time.Second},

		// Rule U5: a recognised modern error never leads to an older revision.
		{name: "rejects, and lists an older revision",
			server: modernAndLegacy(unsupported(`"2025-06-18","2024-11-05"`)), want: mcp.V20250618,
			received: probed + " " + handshaken},
		{name: "rejects a revision once that it lists", server: modern(unsupported(`"2026-07-28"`), discovered),
			want: mcp.V20260728, received: probed + " " + probed},
		{name: "rejects a revision always that it lists",
			server: modernAndLegacy(unsupported(`"2026-07-28","2025-06-18"`)), fails: reports(-32022),
			received: probed + " " + probed},
		{name: "rejects, with no common revision", server: modernAndLegacy(unsupported(`"2099-01-01"`)),
			fails: is(call.ErrRevision), received: probed},
		{name: "rejects, and lists nothing", server: modernAndLegacy(unsupported(``)), fails: is(call.ErrRevision),
			received: probed},
		{name: "rejects, without data", server: modernAndLegacy(`"error":{"code":-32022,"message":"no"}`),
			fails: is(call.ErrRevision), received: probed},
		{name: "rejects, with malformed data",
			server: modernAndLegacy(`"error":{"code":-32022,"message":"no","data":[1]}`), fails: is(call.ErrRevision),
			received: probed},
		{name: "requires a capability", server: modernAndLegacy(`"error":{"code":-32021,"message":"no"}`),
			fails: reports(-32021), received: probed},
		{name: "reports a header mismatch", server: modernAndLegacy(`"error":{"code":-32020,"message":"no"}`),
			fails: reports(-32020), received: probed},
		{name: "rejects, slowly", server: script{Answers: answers("server/discover", unsupported(`"2099-01-01"`),
			"initialize", initialized), After: map[string]time.Duration{"server/discover": 2100 * time.Millisecond}},
			want: mcp.V20250618, received: probed + " " + handshaken, takes: 2 * time.Second},
		{name: "supports no common revision",
			server: modernAndLegacy(`"result":{"resultType":"complete","supportedVersions":["2099-01-01"],` +
				`"capabilities":{}}`), fails: is(call.ErrRevision), received: probed},
		{name: "supports older revisions only",
			server: modernAndLegacy(`"result":{"resultType":"complete","supportedVersions":["2025-06-18"],` +
				`"capabilities":{}}`), want: mcp.V20250618, received: probed + " " + handshaken},

		{name: "answers the handshake with an unknown revision",
			server: script{Answers: answers("initialize", strings.ReplaceAll(initialized, "2025-06-18", "1999-01-01")),
				Otherwise: methodNotFound},
			fails: is(call.ErrRevision), received: probed + " initialize"},
		{name: "answers the handshake with a modern revision",
			server: script{Answers: answers("initialize", strings.ReplaceAll(initialized, "2025-06-18", "2026-07-28")),
				Otherwise: methodNotFound},
			fails: is(call.ErrRevision), received: probed + " initialize"},
		{name: "rejects the handshake", server: script{Otherwise: methodNotFound}, fails: reports(-32601),
			received: probed + " initialize"},
		{name: "malformed result of the handshake", server: script{Answers: answers("initialize",
			`"result":{"protocolVersion":7}`), Otherwise: methodNotFound},
			fails: is(call.ErrInvalidResponse), received: probed + " initialize"},
		{name: "never answers", server: script{}, fails: is(context.DeadlineExceeded), received: probed + " initialize",
			takes: 12 * time.Second},
		{name: "exits at once", server: script{Otherwise: "!close"}, fails: is(call.ErrConnectionLost),
			received: probed},
		{name: "exits during the handshake", server: script{Answers: answers("initialize", "!close"),
			Otherwise: methodNotFound}, fails: is(call.ErrConnectionLost), received: probed + " initialize"},

		// Rule S1: output that is not a message is skipped, and so are unexpected messages.
		{name: "prints text first", server: script{Greeting: []string{"Listening on stdio", "{}", "\xff", `"id":1`},
			Answers: answers("server/discover", discovered)},
			want: mcp.V20260728, received: probed},
		{name: "sends notifications first", server: script{Greeting: []string{
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		}, Answers: answers("server/discover", discovered)}, want: mcp.V20260728, received: probed},
		{name: "sends unexpected responses", server: script{Greeting: []string{
			`{"jsonrpc":"2.0","id":99,"result":{}}`, `{"jsonrpc":"2.0","id":"1","result":{}}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`,
		}, Answers: answers("server/discover", discovered)}, want: mcp.V20260728, received: probed},

		// One revision only.
		{name: "pinned to a legacy revision", server: script{Answers: dual}, pinned: mcp.V20250618, want: mcp.V20250618,
			received: handshaken},
		{name: "pinned to a legacy revision that the server does not choose", server: script{Answers: dual},
			pinned: mcp.V20251125, fails: is(call.ErrRevision), received: handshaken},
		{name: "pinned to the modern revision", server: script{Answers: dual}, pinned: mcp.V20260728,
			want: mcp.V20260728, received: probed},
		{name: "pinned to the modern revision, slow answer",
			server: script{Answers: dual, After: map[string]time.Duration{"server/discover": 9 * time.Second}},
			pinned: mcp.V20260728, want: mcp.V20260728, received: probed, takes: 9 * time.Second},
		{name: "pinned to the modern revision, unknown to the server", server: legacy(methodNotFound),
			pinned: mcp.V20260728, fails: reports(-32601), received: probed},
		{name: "pinned to the modern revision, rejected by the server",
			server: modernAndLegacy(unsupported(`"2025-06-18"`)), pinned: mcp.V20260728, fails: is(call.ErrRevision),
			received: probed},
	}
}

func modernAndLegacy(probe string) script {
	return script{Answers: answers("server/discover", probe, "initialize", initialized), Otherwise: methodNotFound}
}

func TestDialFindsTheEra(t *testing.T) {
	for _, test := range matrix() {
		inBubble(t, test.name, func(t *testing.T) {
			to, rec := target(&test.server)
			d := quiet()
			d.Revision = test.pinned
			start := time.Now()
			c, err := d.Dial(t.Context(), to)
			must.CheckEqual(t, time.Since(start), test.takes)
			test.check(t, c, err)
			must.CheckEqual(t, strings.TrimSuffix(rec.methods(), " tools/call"), test.received)
		})
	}
}

// check compares the outcome of a Dial with the expected one, and calls a tool.
func (test *compat) check(t *testing.T, c *client.Client, err error) {
	t.Helper()
	if err != nil {
		must.CheckThat(t, test.want == "" && test.fails(err), "got %v", err)
		return
	}
	defer c.Close()
	if test.want == "" {
		t.Fatalf("Dial succeeded in %s, want an error", c.Revision())
	}
	must.CheckEqual(t, c.Revision(), test.want)
	name := "old"
	if test.want.Modern() {
		name = "new"
	}
	got := c.Server().Info.Name
	must.CheckThat(t, got == name || got == "", "the server's name is %q, want %q", got, name)
	wantCalled(t, c, "a")
}

// The outcome must not depend on the timing of real processes.
func TestDialFindsTheEraOfAProcess(t *testing.T) {
	for _, test := range matrix() {
		if test.takes > 0 || strings.Contains(test.name, "exits") ||
			strings.HasPrefix(test.name, "legacy: ") && test.name != "legacy: -32601" {
			continue // needs real time, is tested elsewhere, or resembles another case
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := quiet()
			d.Revision = test.pinned
			d.Timeouts.Probe = -1 // otherwise the methods depend on the speed of the machine
			c, err := d.Dial(t.Context(), child(t, &test.server))
			test.check(t, c, err)
		})
	}
}

// Rule S7: the client answers requests of servers in sessions only.
func TestServerRequestsAreAnsweredInSessionsOnly(t *testing.T) {
	requests := `!lines {"jsonrpc":"2.0","id":"p","method":"ping"}
{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{}}
{"jsonrpc":"2.0","id":"u","method":"unknown/method"}
{"jsonrpc":"2.0","id":$id,` + called + `}`
	for _, test := range []struct {
		server *script
		want   []string
	}{
		{modernServer(), nil},
		{legacyServer(), []string{
			`response {"jsonrpc":"2.0","id":"p","result":{}}`,
			`response {"jsonrpc":"2.0","id":"s","error":{"code":-32601,`,
			`response {"jsonrpc":"2.0","id":"u","error":{"code":-32601,`,
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			test.server.Answers["tools/call"] = []string{requests}
			to, rec := target(test.server)
			d := quiet()
			c := must.Get(d.Dial(t.Context(), to))(t)
			defer c.Close()
			must.Check(t, must.Err(c.CallTool(t.Context(), "a", nil)))
			synctest.Wait() // until the responses are sent
			revision := c.Revision()
			c.Close()
			received := rec.methods()
			for _, want := range test.want {
				must.CheckContains(t, received, want, revision)
			}
			must.CheckEqual(t, strings.Count(received, "response "), len(test.want), revision, received)
		})
	}
}

// The compatibility matrix of 2026-07-28, basic/versioning, over HTTP
// (basic/transports/streamable-http, Backward Compatibility).

// mock is an HTTP server with fixed answers.
type mock struct {
	answers   map[string][]reply // answers by method, in order; the last one is repeated
	otherwise reply              // the answer to all other methods

	streams chan string // messages of the event stream; not nil for a server of 2024-11-05

	mu       sync.Mutex
	received []string
	counts   map[string]int
}

// reply is an HTTP response. $id in the body is replaced by the id of the request.
type reply struct {
	status int
	kind   string // content type; empty means JSON
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
		m.count(r.Method)
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
	n := m.count(msg.Method)
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
	if answer.status == 0 { // never answer
		<-r.Context().Done()
		return
	}
	answer.write(w, msg.ID)
}

func (r *reply) write(w http.ResponseWriter, id jsonrpc.ID) {
	w.Header().Set("Content-Type", r.kind)
	if r.kind == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	for name, values := range r.header {
		w.Header()[name] = values
	}
	w.WriteHeader(r.status)
	io.WriteString(w, strings.ReplaceAll(r.body, "$id", id.String()))
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

// count records a method and returns how often it has been received.
func (m *mock) count(method string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.received = append(m.received, method)
	if m.counts == nil {
		m.counts = make(map[string]int)
	}
	m.counts[method]++
	return m.counts[method]
}

func (m *mock) methods() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.received, " ")
}

// dial serves the mock over HTTP and connects to it, until the test ends.
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

func TestDialFindsTheEraOverHTTP(t *testing.T) {
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
	const fellBack = probed + " " + handshaken
	for _, test := range []struct {
		name     string
		answers  map[string][]reply
		sse      bool // the server speaks HTTP+SSE, the transport of 2024-11-05
		pinned   mcp.Revision
		want     mcp.Revision
		fails    func(error) bool
		received string
	}{
		{name: "modern", answers: all("server/discover", ok(discovered)), want: mcp.V20260728, received: probed},
		{name: "modern, and the answer is an event", answers: all("server/discover",
			reply{200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":$id," + discovered + "}\n\n", nil}),
			want: mcp.V20260728, received: probed},

		{name: "legacy: an empty result", answers: all("server/discover", ok(`"result":{}`)), want: mcp.V20250618,
			received: fellBack},
		{name: "legacy: -32601 with 200", answers: all("server/discover", ok(methodNotFound)), want: mcp.V20250618,
			received: fellBack},
		{name: "legacy: -32601 with 404", answers: all("server/discover", failing(404, methodNotFound)),
			want: mcp.V20250618, received: fellBack},
		{name: "legacy: -32000 without id", answers: all("server/discover",
			reply{400, "",
				`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`,
				nil}), want: mcp.V20250618, received: fellBack},
		{name: "legacy: 400 and text", answers: all("server/discover", status(400, "no session")), want: mcp.V20250618,
			received: fellBack},
		{name: "legacy: 400 and nothing", answers: all("server/discover", status(400, "")), want: mcp.V20250618,
			received: fellBack},
		{name: "legacy: 404", answers: all("server/discover", status(404, "nothing here")), want: mcp.V20250618,
			received: fellBack},
		{name: "legacy: 405", answers: all("server/discover", status(405, "")), want: mcp.V20250618,
			received: fellBack},
		{name: "legacy: 415", answers: all("server/discover", status(415, "")), want: mcp.V20250618,
			received: fellBack},
		{name: "legacy: 422", answers: all("server/discover", status(422, `{"detail":[]}`)), want: mcp.V20250618,
			received: fellBack},
		{name: "2024-11-05", answers: all("initialize", ok(strings.ReplaceAll(initialized, "2025-06-18",
			"2024-11-05"))), sse: true, want: mcp.V20241105,
			received: probed + " initialize GET " + handshaken},

		// Errors that are independent of the era do not cause a fallback.
		{name: "401", answers: all("server/discover", status(401, "")), fails: hasStatus(401), received: probed},
		{name: "401 with an error", answers: all("server/discover",
			failing(401, `"error":{"code":-32001,"message":"token?"}`)), fails: hasStatus(401), received: probed},
		{name: "403", answers: all("server/discover", status(403, "")), fails: hasStatus(403), received: probed},
		{name: "429", answers: all("server/discover", status(429, "")), fails: hasStatus(429), received: probed},
		{name: "500", answers: all("server/discover", status(500, "")), fails: hasStatus(500), received: probed},
		{name: "503 with an error", answers: all("server/discover",
			failing(503, `"error":{"code":-32603,"message":"later"}`)), fails: hasStatus(503), received: probed},
		{name: "redirect", answers: all("server/discover",
			reply{302, "text/plain", "", http.Header{"Location": {"https://example.com/"}}}), fails: hasStatus(302),
			received: probed},

		// Rule U5: errors that only modern servers report.
		{name: "rejects, and lists an older revision", answers: all("server/discover",
			failing(400, unsupported(`"2025-06-18"`))), want: mcp.V20250618, received: fellBack},
		{name: "rejects a revision once that it lists", answers: all("server/discover",
			[]reply{failing(400, unsupported(`"2026-07-28"`)), ok(discovered)}), want: mcp.V20260728,
			received: probed + " " + probed},
		{name: "rejects a revision always that it lists",
			answers: all("server/discover", failing(400, unsupported(`"2026-07-28","2025-06-18"`))),
			fails:   reports(-32022), received: probed + " " + probed},
		{name: "rejects, with no common revision", answers: all("server/discover",
			failing(400, unsupported(`"2099-01-01"`))), fails: is(call.ErrRevision), received: probed},
		{name: "requires a capability", answers: all("server/discover",
			failing(400, `"error":{"code":-32021,"message":"no"}`)), fails: reports(-32021), received: probed},
		{name: "reports a header mismatch", answers: all("server/discover",
			failing(400, `"error":{"code":-32020,"message":"no"}`)), fails: reports(-32020), received: probed},
		{name: "supports no common revision", answers: all("server/discover",
			ok(`"result":{"resultType":"complete","supportedVersions":["2099-01-01"],"capabilities":{}}`)),
			fails: is(call.ErrRevision), received: probed},
		{name: "supports older revisions only", answers: all("server/discover",
			ok(`"result":{"resultType":"complete","supportedVersions":["2025-06-18"],"capabilities":{}}`)),
			want: mcp.V20250618, received: fellBack},

		{name: "answers the handshake with an unknown revision",
			answers: all("server/discover", status(400, ""), "initialize",
				ok(strings.ReplaceAll(initialized, "2025-06-18", "1999-01-01"))),
			fails: is(call.ErrRevision), received: probed + " initialize"},
		{name: "not an MCP endpoint", answers: map[string][]reply{}, fails: hasStatus(404),
			received: probed + " initialize GET"},
		{name: "web page", answers: all("server/discover", reply{200, "text/html", "<html>", nil}, "initialize",
			reply{200, "text/html", "<html>", nil}),
			fails: func(err error) bool {
				return strings.Contains(err.Error(), "MCP endpoint")
			}, received: probed + " initialize"},

		{name: "pinned to a legacy revision", answers: all("server/discover", ok(discovered)), pinned: mcp.V20250618,
			want: mcp.V20250618, received: handshaken},
		{name: "pinned to the modern revision", answers: all("server/discover", status(400, "")), pinned: mcp.V20260728,
			fails: hasStatus(400), received: probed},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &mock{answers: test.answers, otherwise: status(404, "")}
			if test.sse {
				m.streams = make(chan string, 10)
			}
			d := quiet()
			d.Revision = test.pinned
			c, err := m.dial(t, d)
			(&compat{want: test.want, fails: test.fails}).check(t, c, err)
			must.CheckEqual(t, strings.TrimSuffix(m.methods(), " tools/call"), test.received)
		})
	}
}

// The client does not fall back to an older revision if the server does not answer.
func TestUnresponsiveServerIsAnError(t *testing.T) {
	t.Parallel()
	m := &mock{}
	d := quiet()
	d.Timeouts.Initialize = time.Second // limits connecting, too
	must.CheckIs(t, must.Err(m.dial(t, d)), context.DeadlineExceeded)
	must.CheckEqual(t, m.methods(), probed)
}

func TestInvalidURLsAreRejected(t *testing.T) {
	for _, url := range []string{"", "example.com/mcp", "ftp://example.com", "http://", "http://[::1", "/mcp",
		"file:///etc/passwd"} {
		_, err := client.Dial(t.Context(), client.URL(url))
		must.CheckThat(t, err != nil && (strings.Contains(err.Error(), "http://") || strings.Contains(err.Error(),
			"malformed")), "%q: %v", url, err)
	}
}
