package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// endpoint is a server over HTTP on the loopback interface, with a client that writes raw requests.
type endpoint struct {
	t       *testing.T
	server  *server.Server
	http    *httptest.Server
	waiting chan waiting // calls of the tool "wait"

	// arrived receives the contexts of the HTTP requests with the header X-Watched.
	arrived chan context.Context
}

// waiting is a call of the tool "wait".
type waiting struct {
	ctx     context.Context
	release chan struct{} // closed to end the call
	ended   chan error    // the result of reporting progress at the end
}

func newEndpoint(t *testing.T, configure ...func(*server.Server)) *endpoint {
	t.Helper()
	s := httpServer()
	calls := addWait(s)
	for _, f := range configure {
		f(s)
	}
	e := endpointOf(t, s)
	e.waiting = calls
	return e
}

// endpointOf serves s over HTTP until the test ends.
func endpointOf(t *testing.T, s *server.Server) *endpoint {
	t.Helper()
	e := &endpoint{t: t, server: s, arrived: make(chan context.Context, 100)}
	e.http = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header["X-Watched"] != nil {
			e.arrived <- r.Context()
		}
		e.server.ServeHTTP(w, r)
	}))
	e.http.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	e.http.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.server.Shutdown(ctx)
		e.http.CloseClientConnections()
		e.http.Close()
	})
	return e
}

func httpServer() *server.Server {
	s := &server.Server{Name: "s", Version: "1", Logger: slog.New(slog.DiscardHandler)}
	server.AddTool(s, mcp.Tool{Name: "echo"}, func(_ context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	server.AddTool(s, mcp.Tool{Name: "big"}, func(_ context.Context, in struct {
		Bytes int `json:"bytes"`
	}) (string, error) {
		return strings.Repeat("x", in.Bytes), nil
	})
	server.AddTool(s, mcp.Tool{Name: "count"}, func(ctx context.Context, in struct {
		To int `json:"to"`
	}) (string, error) {
		for i := range in.To {
			if err := server.Progress(ctx, float64(i+1), float64(in.To), strings.Repeat("x", 1000)); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	return s
}

// addWait adds the tool "wait", which reports progress, waits until it is released or cancelled, and
// reports progress again.
func addWait(s *server.Server) chan waiting {
	calls := make(chan waiting, 200)
	server.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
		_ = server.Progress(ctx, 1, 2, "")
		w := waiting{ctx, make(chan struct{}), make(chan error, 1)}
		calls <- w
		select {
		case <-w.release:
		case <-ctx.Done():
		}
		err := server.Progress(ctx, 2, 2, "")
		w.ended <- err
		return "waited", err
	})
	return calls
}

// answer is the response to one request.
type answer struct {
	status int
	header http.Header
	body   string
	closed bool // whether the connection was closed after the response
}

func (a answer) String() string { return fmt.Sprintf("%d %s %s", a.status, a.header, a.body) }

// code returns the code of the error in the body, 0 if there is none, and the raw id.
func (a answer) code(t *testing.T) (code int64, id string) {
	t.Helper()
	if a.body == "" {
		return 0, ""
	}
	var m struct {
		ID    json.RawMessage
		Error *jsonrpc.Error
	}
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		t.Fatalf("%v: %s", err, a)
	}
	if m.Error != nil {
		code = m.Error.Code
	}
	return code, string(m.ID)
}

// do sends one request. Headers are pairs of names and values; a header Host sets the host.
func (e *endpoint) do(method, path, body string, header ...string) answer {
	e.t.Helper()
	resp := e.open(e.t.Context(), method, path, body, header...)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(raw), resp.Close}
}

func (e *endpoint) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	e.t.Helper()
	resp, err := e.http.Client().Do(wiretest.NewRequest(ctx, method, e.http.URL+path, body, header...))
	if err != nil {
		e.t.Fatal(err)
	}
	return resp
}

func (e *endpoint) modern(id, method, params string, header ...string) answer {
	e.t.Helper()
	body, own := wiretest.Modern(id, method, params)
	return e.do(http.MethodPost, "/", body, append(own, header...)...)
}

// session starts a session of a revision and returns the headers of its requests.
func (e *endpoint) session(version string) []string {
	e.t.Helper()
	a := e.do(http.MethodPost, "/", fmt.Sprintf(wiretest.Initialize, version))
	id := a.header.Get("Mcp-Session-Id")
	if a.status != http.StatusOK || id == "" {
		e.t.Fatalf("initialize: %s", a)
	}
	header := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", version}
	if a := e.do(http.MethodPost, "/", wiretest.Initialized, header...); a.status != http.StatusAccepted || a.body != "" {
		e.t.Fatalf("initialized: %s", a)
	}
	return header
}

// alive checks that the server still serves.
func (e *endpoint) alive() {
	e.t.Helper()
	if a := e.modern("1", mcp.MethodDiscover, ""); a.status != http.StatusOK {
		e.t.Errorf("the server is not what it was: %s", a)
	}
}

const foreign = "http://evil.example"

// Rules T1, T2: the origin is checked for each method, in each era, on each of its endpoints.
func TestOriginIsCheckedOnEveryMethod(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	pairURL := e.pair("/").endpoint
	modernBody, modernHeader := wiretest.Modern("1", mcp.MethodDiscover, "")
	own := e.http.URL
	for what, send := range map[string]func(header ...string) int{
		"POST, stateless": func(h ...string) int { return e.do("POST", "/", modernBody, append(h, modernHeader...)...).status },
		"POST, handshake": func(h ...string) int {
			return e.do("POST", "/", fmt.Sprintf(wiretest.Initialize, "2025-11-25"), h...).status
		},
		"POST, session": func(h ...string) int {
			return e.do("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, append(h, session...)...).status
		},
		"POST, 2024-11-05": func(h ...string) int {
			return e.do("POST", pairURL, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, h...).status
		},
		"GET, session":    func(h ...string) int { return e.status("GET", append(h, session...)...) },
		"GET, 2024-11-05": func(h ...string) int { return e.status("GET", append(h, "Accept", "text/event-stream")...) },
		"GET, stateless":  func(h ...string) int { return e.status("GET", append(h, "MCP-Protocol-Version", "2026-07-28")...) },
		"DELETE":          func(h ...string) int { return e.status("DELETE", append(h, session...)...) },
		"OPTIONS":         func(h ...string) int { return e.status("OPTIONS", h...) },
		"PUT":             func(h ...string) int { return e.status("PUT", h...) },
		"HEAD":            func(h ...string) int { return e.status("HEAD", h...) },
	} {
		for _, header := range [][]string{
			{"Origin", foreign}, {"Origin", "null"}, {"Origin", own + ".evil.example"}, {"Origin", own, "Origin", own}, {"Origin", "http://user@localhost"},
			{"Host", "evil.example"}, {"Host", "evil.example", "Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"},
		} {
			if status := send(header...); status != http.StatusForbidden {
				t.Errorf("%s with %q: %d", what, header, status)
			}
		}
	}
	// The session still exists after a foreign page has tried to end it.
	if a := e.do("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, append(session, "Origin", own)...); a.status != http.StatusOK {
		t.Errorf("its own origin: %s", a)
	}
}

// status sends a request without a body and returns the status. It does not wait for the body.
func (e *endpoint) status(method string, header ...string) int {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	defer cancel()
	resp := e.open(ctx, method, "/", "", header...)
	resp.Body.Close()
	return resp.StatusCode
}

// Rule T2.
func TestARejectedOriginGetsAnErrorWithoutAnID(t *testing.T) {
	e := newEndpoint(t)
	a := e.modern("7", mcp.MethodDiscover, "", "Origin", foreign)
	if code, id := a.code(t); a.status != http.StatusForbidden || code == 0 || id != "" || a.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("%s", a)
	}
	if !strings.Contains(a.body, foreign) {
		t.Errorf("it does not say which: %s", a)
	}
}

// Rule T1.
func TestTheServerUsesItsAllowedOriginsAndHosts(t *testing.T) {
	e := newEndpoint(t, func(s *server.Server) {
		s.AllowedOrigins = []string{"https://app.example"}
		s.AllowedHosts = []string{"mcp.example"}
	})
	for _, tc := range []struct {
		host, origin string
		want         int
	}{
		{"mcp.example", "https://app.example", 200}, {"mcp.example:8443", "", 200}, {"mcp.example", "https://mcp.example", 200},
		{"mcp.example", foreign, 403}, {"127.0.0.1", "https://app.example", 403}, {"localhost", "", 403},
	} {
		if a := e.modern("1", mcp.MethodDiscover, "", "Host", tc.host, "Origin", tc.origin); a.status != tc.want {
			t.Errorf("Host %s, Origin %s: %s", tc.host, tc.origin, a)
		}
	}
}

func TestContentTypesAreNegotiated(t *testing.T) {
	e := newEndpoint(t)
	for _, tc := range []struct {
		contentType, accept string
		status              int
		kind                string
	}{
		{"application/json", "application/json, text/event-stream", 200, "application/json"},
		{"application/json; charset=utf-8", "*/*", 200, "application/json"},
		{"application/json", "text/event-stream", 200, "text/event-stream"},
		{"application/json", "application/json", 200, "application/json"},
		{"application/json", "text/html", 406, "application/json"},
		{"text/plain", "application/json, text/event-stream", 415, "application/json"},
		{"", "application/json, text/event-stream", 415, "application/json"},
	} {
		a := e.modern("1", mcp.MethodDiscover, "", "Content-Type", tc.contentType, "Accept", tc.accept)
		if a.status != tc.status || a.header.Get("Content-Type") != tc.kind {
			t.Errorf("%q, %q: %s", tc.contentType, tc.accept, a)
		}
	}
}

// A client that does not accept event streams receives no progress, and gets its result.
func TestAClientThatDoesNotAcceptEventStreamsGetsJSON(t *testing.T) {
	e := newEndpoint(t)
	for era, ask := range map[string]func() answer{
		"modern": func() answer {
			body, header := wiretest.Modern("1", "tools/call", `"name":"count","arguments":{"to":3}`)
			body = strings.Replace(body, `"_meta":{`, `"_meta":{"progressToken":1,`, 1)
			return e.do("POST", "/", body, append(header, "Accept", "application/json")...)
		},
		"legacy": func() answer {
			return e.do("POST", "/", countCall, append(e.session("2025-11-25"), "Accept", "application/json")...)
		},
	} {
		if a := ask(); a.status != 200 || a.header.Get("Content-Type") != "application/json" || !strings.Contains(a.body, `"text":"done"`) {
			t.Errorf("%s: %s", era, a)
		}
	}
}

const countCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"to":3},"_meta":{"progressToken":1}}}`

// pair is the client's side of the 2024-11-05 transport.
type pair struct {
	*wiretest.Events
	endpoint string // path and query
	close    func()
}

func (e *endpoint) pair(path string) *pair {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	p := &pair{Events: wiretest.Stream(e.t, e.open(ctx, "GET", path, "", "Accept", "text/event-stream")), close: cancel}
	first, _ := p.Next()
	if first.Name != "endpoint" {
		e.t.Fatalf("the stream begins with %+v", first)
	}
	p.endpoint = first.Data
	return p
}

// Rule T5: the first event names the endpoint; responses to messages posted there come on the stream.
func TestPairBeginsWithItsEndpoint(t *testing.T) {
	e := newEndpoint(t)
	p := e.pair("/")
	if !strings.HasPrefix(p.endpoint, "/?sessionId=") || len(p.endpoint) < len("/?sessionId=")+22 {
		t.Errorf("endpoint %q", p.endpoint)
	}
	post := func(body string, status int) {
		t.Helper()
		if a := e.do("POST", p.endpoint, body); a.status != status || status == 202 && a.body != "" {
			t.Errorf("%s: %s", body, a)
		}
	}
	post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 202)
	if data := p.Data(); !strings.Contains(data, `"code":-32600`) || !strings.Contains(data, `"id":1`) {
		t.Errorf("before the handshake: %s", data)
	}
	post(fmt.Sprintf(wiretest.Initialize, "2024-11-05"), 202)
	if data := p.Data(); !strings.Contains(data, `"protocolVersion":"2024-11-05"`) {
		t.Errorf("%s", data)
	}
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202)
	post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":{"to":2},"_meta":{"progressToken":"p"}}}`, 202)
	for _, want := range []string{`"progress":1`, `"progress":2`, `"text":"done"`} {
		if data := p.Data(); !strings.Contains(data, want) {
			t.Errorf("%s, want %s", data, want)
		}
	}
	post(`{"jsonrpc":"2.0","id":3,"method":"ping"`, 400)
	post(`[{"jsonrpc":"2.0","id":3,"method":"ping"}]`, 400)
	post(`{"jsonrpc":"2.0","id":99,"result":{}}`, 202)
	if a := e.do("POST", "/?sessionId=AAAAAAAAAAAAAAAAAAAAAA", `{"jsonrpc":"2.0","id":3,"method":"ping"}`); a.status != 404 {
		t.Errorf("another session's: %s", a)
	}
	post(`{"jsonrpc":"2.0","id":4,"method":"ping"}`, 202)
	if data := p.Data(); data != `{"jsonrpc":"2.0","id":4,"result":{}}` {
		t.Errorf("%s", data)
	}
}

// The end of the stream ends the session and its requests in flight.
// Rule T5.
func TestPairEndsWithItsStream(t *testing.T) {
	e := newEndpoint(t)
	p := e.pair("/")
	e.do("POST", p.endpoint, fmt.Sprintf(wiretest.Initialize, "2024-11-05"))
	p.Data()
	e.do("POST", p.endpoint, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}}`)
	w := <-e.waiting
	p.close()
	<-w.ctx.Done()
	<-w.ended
	eventually(t, func() bool {
		return e.do("POST", p.endpoint, `{"jsonrpc":"2.0","id":3,"method":"ping"}`).status == 404
	})
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, happened func() bool) {
	t.Helper()
	timeout := time.After(wiretest.Patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("it has not happened")
		}
	}
}

// The endpoint has the path that the client requested, wherever the program has mounted the server.
// Rule T5.
func TestPairNamesThePathThatTheClientRequested(t *testing.T) {
	s := httpServer()
	mux := http.NewServeMux()
	mux.Handle("/deep/mcp/", http.StripPrefix("/deep/mcp", s))
	e := &endpoint{t: t, server: s, http: httptest.NewServer(mux)}
	t.Cleanup(func() {
		_ = s.Shutdown(context.Background())
		e.http.Close()
	})
	for path, want := range map[string]string{"/deep/mcp/a%2Fb?x=1": "/deep/mcp/a%2Fb?sessionId=", "/deep/mcp/": "/deep/mcp/?sessionId="} {
		p := e.pair(path)
		if !strings.HasPrefix(p.endpoint, want) {
			t.Errorf("%s: %s", path, p.endpoint)
		}
		if a := e.do("POST", p.endpoint, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); a.status != 202 {
			t.Errorf("%s", a)
		}
	}
}

// A stream without a handshake ends.
func TestAPairWithoutAHandshakeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := httpServer()
		begun := time.Now()
		rec := inBubble(s, "GET", "", "Accept", "text/event-stream")
		if took := time.Since(begun); took != 30*time.Second || !strings.Contains(rec.Body.String(), "endpoint") {
			t.Errorf("after %v: %s", took, rec.Body)
		}
	})
}

// Rule T6: 2026-07-28 has the method POST only, and no sessions.
func TestTheModernEraHasOnlyPOST(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	for _, method := range []string{"GET", "DELETE"} {
		for _, more := range [][]string{nil, session[:2], {"Accept", "text/event-stream"}, {"Last-Event-ID", "1"}} {
			a := e.do(method, "/", "", append([]string{"MCP-Protocol-Version", "2026-07-28"}, more...)...)
			if a.status != 405 || a.header.Get("Allow") != "POST" {
				t.Errorf("%s with %q: %s", method, more, a)
			}
		}
	}
	for _, id := range []string{session[1], "nonsense", strings.Repeat("x", 5000)} {
		a := e.modern("1", mcp.MethodDiscover, "", "Mcp-Session-Id", id, "Last-Event-ID", "7")
		if a.status != 200 || a.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("with a session id: %s", a)
		}
	}
	if a := e.do("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session...); a.status != 200 {
		t.Errorf("the session: %s", a)
	}
	for _, method := range []string{"PUT", "PATCH", "OPTIONS", "TRACE"} {
		if a := e.do(method, "/", ""); a.status != 405 || a.header.Get("Allow") == "" {
			t.Errorf("%s: %s", method, a)
		}
	}
}

// Rule T7: an accepted notification or response gets status 202 without a body, any other 4xx.
func TestNotificationsAndResponsesAreAcceptedWithoutABody(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	const (
		notice   = `{"jsonrpc":"2.0","method":"notifications/whatever"}`
		response = `{"jsonrpc":"2.0","id":1,"result":{}}`
		failure  = `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`
	)
	for _, tc := range []struct {
		what, body string
		header     []string
		status     int
	}{
		{"a session's notification", notice, session, 202},
		{"a session's response", response, session, 202},
		{"a session's error", failure, session, 202},
		{"a notification without a session", notice, nil, 400},
		{"a response without a session", response, nil, 400},
		{"a notification of an unknown session", notice, []string{"Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA"}, 404},
		{"a response that is none", `{"jsonrpc":"2.0","id":1,"result":7}`, session, 400},
		{"a notification with odd params", `{"jsonrpc":"2.0","method":"x","params":[]}`, session, 400},
		{"a stateless notification", notice, []string{"MCP-Protocol-Version", "2026-07-28"}, 202},
		{"a stateless notification of an unknown version", notice, []string{"MCP-Protocol-Version", "2199-01-01"}, 400},
		{"a stateless response", response, []string{"MCP-Protocol-Version", "2026-07-28"}, 400},
		{"a stateless response in a session", response, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Session-Id", session[1]}, 400},
	} {
		a := e.do("POST", "/", tc.body, tc.header...)
		if a.status != tc.status || (a.body == "") != (tc.status == 202) {
			t.Errorf("%s: %s", tc.what, a)
		}
		// The id belongs to a request of the server, so the error must not repeat it.
		if _, id := a.code(t); id != "" && id != "null" {
			t.Errorf("%s: the id is repeated: %s", tc.what, a)
		}
	}
	e.alive()
}

// Rule T14: a version that does not exist, or does not match the session, is rejected.
func TestUnknownVersionsAreRejected(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, tc := range []struct {
		method, body string
		header       []string
		status       int
	}{
		{"POST", ping, []string{"Mcp-Session-Id", session[1], "MCP-Protocol-Version", "2199-01-01"}, 400},
		{"POST", ping, []string{"Mcp-Session-Id", session[1], "MCP-Protocol-Version", "nonsense"}, 400},
		{"GET", "", []string{"Mcp-Session-Id", session[1], "MCP-Protocol-Version", "nonsense", "Accept", "text/event-stream"}, 400},
		{"GET", "", []string{"MCP-Protocol-Version", "nonsense", "Accept", "text/event-stream"}, 400},
		{"DELETE", "", []string{"Mcp-Session-Id", session[1], "MCP-Protocol-Version", "2199-01-01"}, 400},
		{"POST", ping, []string{"Mcp-Session-Id", session[1], "MCP-Protocol-Version", "2025-11-25", "MCP-Protocol-Version", "2025-11-25"}, 400},
		{"POST", ping, []string{"Mcp-Session-Id", session[1], "Mcp-Session-Id", session[1]}, 400},
		{"POST", ping, []string{"Mcp-Session-Id", session[1]}, 200}, // the session implies the version
		{"POST", ping, []string{"Mcp-Session-Id", session[1], "MCP-Protocol-Version", "2025-06-18"}, 200},
		{"POST", fmt.Sprintf(wiretest.Initialize, "2025-11-25"), []string{"MCP-Protocol-Version", "nonsense"}, 400},
		{"POST", fmt.Sprintf(wiretest.Initialize, "2025-11-25"), []string{"MCP-Protocol-Version", "2025-06-18"}, 200},
	} {
		if a := e.do(tc.method, "/", tc.body, tc.header...); a.status != tc.status {
			t.Errorf("%s with %q: %s", tc.method, tc.header, a)
		}
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v999.0.0","io.modelcontextprotocol/clientCapabilities":{}}}}`
	a := e.do("POST", "/", body, "MCP-Protocol-Version", "v999.0.0", "Mcp-Method", "tools/list")
	code, id := a.code(t)
	if a.status != 400 || code != mcp.CodeUnsupportedVersion || id != "1" || !strings.Contains(a.body, `"requested":"v999.0.0"`) {
		t.Errorf("%s", a)
	}
	var rejection struct {
		Error struct{ Data mcp.UnsupportedVersionData }
	}
	var discovered struct{ Result mcp.DiscoverResult }
	if json.Unmarshal([]byte(a.body), &rejection) != nil || json.Unmarshal([]byte(e.modern("1", mcp.MethodDiscover, "").body), &discovered) != nil ||
		len(rejection.Error.Data.Supported) == 0 || fmt.Sprint(rejection.Error.Data.Supported) != fmt.Sprint(discovered.Result.SupportedVersions) {
		t.Errorf("%s lists others than %v", a, discovered.Result.SupportedVersions)
	}
}

// Rules T15, T16, T17, T19, J12: the requests of the conformance suite, with their statuses.
func TestHeadersMustMatchTheRequest(t *testing.T) {
	e := newEndpoint(t)
	name64 := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	body := func(method, params, meta string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"the id","method":%q,"params":{%s"_meta":{%s}}}`, method, params, meta)
	}
	const (
		version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
		caps    = `"io.modelcontextprotocol/clientCapabilities":{}`
		full    = version + "," + caps
		echo    = `"name":"echo","arguments":{"text":"hi"},`
	)
	v := "MCP-Protocol-Version"
	for _, tc := range []struct {
		what, body string
		header     []string
		status     int
		code       int64
	}{
		{"no version header", body("tools/list", "", full), []string{"Mcp-Method", "tools/list"}, 400, -32020},
		{"no _meta", `{"jsonrpc":"2.0","id":"the id","method":"tools/list"}`, []string{v, "2026-07-28", "Mcp-Method", "tools/list"}, 400, -32602},
		{"no version in _meta", body("tools/list", "", caps), []string{v, "2026-07-28", "Mcp-Method", "tools/list"}, 400, -32602},
		{"no capabilities", body("tools/list", "", version), []string{v, "2026-07-28", "Mcp-Method", "tools/list"}, 400, -32602},
		{"other version in _meta", body("tools/list", "", strings.Replace(full, "2026-07-28", "v999.0.0", 1)), []string{v, "2026-07-28", "Mcp-Method", "tools/list"}, 400, -32020},
		{"legacy version in the header", body("tools/list", "", full), []string{v, "2025-11-25", "Mcp-Method", "tools/list"}, 400, -32020},
		{"no Mcp-Method", body("tools/list", "", full), []string{v, "2026-07-28"}, 400, -32020},
		{"another Mcp-Method", body("tools/list", "", full), []string{v, "2026-07-28", "Mcp-Method", "prompts/list"}, 400, -32020},
		{"Mcp-Method in another case", body("tools/list", "", full), []string{v, "2026-07-28", "Mcp-Method", "TOOLS/LIST"}, 400, -32020},
		{"header names in another case", body("tools/list", "", full), []string{"mcp-protocol-VERSION", "2026-07-28", "MCP-METHOD", "tools/list"}, 200, 0},
		{"no Mcp-Name", body("tools/call", echo, full), []string{v, "2026-07-28", "Mcp-Method", "tools/call"}, 400, -32020},
		{"another Mcp-Name", body("tools/call", echo, full), []string{v, "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "other"}, 400, -32020},
		{"Mcp-Name with spaces around", body("tools/call", echo, full), []string{v, "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "  echo  "}, 200, 0},
		{"Mcp-Name in base64", body("tools/call", echo, full), []string{v, "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name64("echo")}, 200, 0},
		{"Mcp-Name in bad base64", body("tools/call", echo, full), []string{v, "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?ZWNobw?="}, 400, -32020},
		{"Mcp-Name with odd bytes", body("tools/call", strings.Replace(echo, "echo", "é", 1), full), []string{v, "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "é"}, 400, -32020},
		{"unknown method", body("unknown/method", "", full), []string{v, "2026-07-28", "Mcp-Method", "unknown/method"}, 404, -32601},
		{"removed: initialize", body("initialize", `"protocolVersion":"2025-11-25",`, full), []string{v, "2026-07-28", "Mcp-Method", "initialize"}, 404, -32601},
		{"removed: ping", body("ping", "", full), []string{v, "2026-07-28", "Mcp-Method", "ping"}, 404, -32601},
		{"removed: logging/setLevel", body("logging/setLevel", `"level":"info",`, full), []string{v, "2026-07-28", "Mcp-Method", "logging/setLevel"}, 404, -32601},
		{"removed: resources/subscribe", body("resources/subscribe", `"uri":"x:y",`, full), []string{v, "2026-07-28", "Mcp-Method", "resources/subscribe"}, 404, -32601},
		{"unknown tool", body("tools/call", `"name":"unknown",`, full), []string{v, "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "unknown"}, 200, -32602},
	} {
		a := e.do("POST", "/", tc.body, tc.header...)
		code, id := a.code(t)
		if a.status != tc.status || code != tc.code || id != `"the id"` {
			t.Errorf("%s: %s", tc.what, a)
		}
	}
	e.alive()
}

// Rules J1, J4, J5, J6, J8: a malformed message gets the right error, and the next one is served.
func TestMalformedMessagesAreAnswered(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	headers := map[string][]string{
		"session":   session,
		"stateless": {"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "ping"},
		"neither":   nil,
	}
	for what, tc := range map[string]struct {
		body string
		code int64
		id   string // in the response
	}{
		"nothing":            {" ", -32700, ""},
		"no JSON":            {"hello", -32700, ""},
		"half of it":         {`{"jsonrpc":"2.0","id":1,"method":"pi`, -32700, ""},
		"two of them":        {`{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`, -32700, ""},
		"with a BOM":         {"\xEF\xBB\xBF" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, -32700, ""},
		"not UTF-8":          {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, ""},
		"a lone surrogate":   {`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, -32700, ""},
		"UTF-16":             {"\xff\xfe{\x00}\x00", -32700, ""},
		"duplicate members":  {`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, -32700, ""},
		"deep":               {`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200) + `}`, -32700, "1"},
		"a number":           {`7`, -32600, ""},
		"no version":         {`{"id":1,"method":"ping"}`, -32600, "1"},
		"another version":    {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600, "1"},
		"id null":            {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600, ""},
		"id a fraction":      {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600, ""},
		"id an object":       {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, ""},
		"id a list":          {`{"jsonrpc":"2.0","id":[1],"method":"ping"}`, -32600, ""},
		"id true":            {`{"jsonrpc":"2.0","id":true,"method":"ping"}`, -32600, ""},
		"id too long":        {`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"ping"}`, -32600, ""},
		"method a number":    {`{"jsonrpc":"2.0","id":1,"method":7}`, -32600, "1"},
		"method too long":    {`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 200) + `"}`, -32600, "1"},
		"params a list":      {`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, -32602, "1"},
		"method and result":  {`{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, -32600, "1"},
		"method in capitals": {`{"jsonrpc":"2.0","id":1,"Method":"ping"}`, -32700, ""},
		"an empty object":    {`{}`, -32600, ""},
		"result and error":   {`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, -32600, ""},
		"error code 1.5":     {`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":""}}`, -32600, ""},
		"a batch":            {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, ""},
		"an empty batch":     {`[]`, -32600, ""},
	} {
		for where, header := range headers {
			a := e.do("POST", "/", tc.body, header...)
			code, id := a.code(t)
			if id == "null" {
				id = ""
			}
			if a.status != 400 || code != tc.code || id != tc.id {
				t.Errorf("%s, %s: %s", what, where, a)
			}
		}
	}
	// The id null exists before 2025-11-25 only.
	for version, want := range map[string]string{"2025-06-18": "null", "2025-11-25": "", "2026-07-28": "", "": "null"} {
		if _, id := e.do("POST", "/", "hello", "MCP-Protocol-Version", version).code(t); id != want {
			t.Errorf("%q: id %q", version, id)
		}
	}
	for _, id := range []string{"9007199254740993", `"a"`, "-1", `"\u0061"`} { // echoed byte for byte
		if a := e.do("POST", "/", `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, session...); a.body != `{"jsonrpc":"2.0","id":`+id+`,"result":{}}` {
			t.Errorf("%s: %s", id, a)
		}
	}
	e.alive()
}

// Rule J7: only sessions of 2025-03-26 have batches.
func TestBatchIsServedInTheOneRevisionThatHasIt(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-03-26")
	const (
		echo   = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%[1]d"}}}`
		notice = `{"jsonrpc":"2.0","method":"notifications/whatever"}`
	)
	batch := "[" + fmt.Sprintf(echo, 2) + "," + notice + "," + fmt.Sprintf(echo, 1) + "]"
	a := e.do("POST", "/", batch, session...)
	want := `[{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"2"}]}},{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"1"}]}}]`
	if a.status != 200 || a.body != want || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s", a)
	}
	if a := e.do("POST", "/", "["+notice+","+notice+"]", session...); a.status != 202 || a.body != "" {
		t.Errorf("notifications only: %s", a)
	}
	counting := wiretest.Stream(t, e.open(t.Context(), "POST", "/", "["+countCall+"]", session...))
	for range 3 {
		if data := counting.Data(); !strings.Contains(data, "notifications/progress") {
			t.Errorf("%s", data)
		}
	}
	if data := counting.Data(); !strings.HasPrefix(data, `[{"jsonrpc":"2.0","id":1,"result"`) {
		t.Errorf("%s", data)
	}
	counting.Ends(t)
	for what, body := range map[string]string{
		"empty": "[]", "duplicate id": "[" + fmt.Sprintf(echo, 1) + "," + fmt.Sprintf(echo, 1) + "]",
		"the handshake": "[" + fmt.Sprintf(wiretest.Initialize, "2025-03-26") + "]", "101": "[" + strings.Repeat(notice+",", 100) + notice + "]",
	} {
		if a := e.do("POST", "/", body, session...); a.status != 400 {
			t.Errorf("%s: %s", what, a)
		}
	}
	if a := e.do("POST", "/", "["+fmt.Sprintf(wiretest.Initialize, "2025-03-26")+"]"); a.status != 400 || a.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("a handshake in a batch: %s", a)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	const limit = 100_000
	e := newEndpoint(t, func(s *server.Server) { s.Limits.MaxMessage = limit })
	session := e.session("2025-11-25")
	fill := func(size int) string {
		body := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`
		return body + strings.Repeat("x", size-len(body)-3) + `"}}`
	}
	for _, chunked := range []bool{false, true} {
		post := func(body string) answer {
			req, err := http.NewRequest("POST", e.http.URL, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if chunked {
				req.ContentLength = -1
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Mcp-Session-Id", session[1])
			resp, err := e.http.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			raw, _ := io.ReadAll(resp.Body)
			return answer{resp.StatusCode, resp.Header, string(raw), resp.Close}
		}
		if a := post(fill(limit)); a.status != 200 {
			t.Errorf("at the limit, chunked %v: %s", chunked, a)
		}
		a := post(fill(limit + 1))
		if code, id := a.code(t); a.status != 413 || code != -32600 || id != "" || !a.closed {
			t.Errorf("beyond the limit, chunked %v: %s", chunked, a)
		}
	}
	// A body with a Content-Length over the limit is rejected before it is read.
	conn := e.connect()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 700000000\r\n\r\n{")
	if line := readLine(t, conn); !strings.HasPrefix(line, "HTTP/1.1 413 ") {
		t.Errorf("%s", line)
	}
	e.alive()
}

// connect opens a raw connection to the server, for requests that no HTTP client would send.
func (e *endpoint) connect() *net.TCPConn {
	e.t.Helper()
	conn, err := net.Dial("tcp", e.http.Listener.Addr().String())
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(wiretest.Patience))
	return conn.(*net.TCPConn)
}

func readLine(t *testing.T, r io.Reader) string {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func TestBrokenBodiesAreRejected(t *testing.T) {
	e := newEndpoint(t)
	const head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for what, raw := range map[string]string{
		"a chunk size that is none":     head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"a chunk longer than it says":   head + "Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
		"a chunk size without end":      head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1", 5000),
		"both lengths":                  head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"two lengths":                   head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"a negative length":             head + "Content-Length: -1\r\n\r\n{}",
		"a coding that there is not":    head + "Transfer-Encoding: gzip\r\n\r\n{}",
		"a header without a colon":      head + "nonsense\r\n\r\n",
		"a folded header":               head + "X-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}",
		"a header name with a space":    head + "Mcp-Session-Id : x\r\nContent-Length: 2\r\n\r\n{}",
		"no Host":                       "POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"two Hosts":                     "POST / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"a Host and another in the URL": "POST http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
	} {
		conn := e.connect()
		_, _ = io.WriteString(conn, raw)
		_ = conn.CloseWrite()
		if line := readLine(t, conn); !strings.HasPrefix(line, "HTTP/1.1 4") && !strings.HasPrefix(line, "HTTP/1.1 5") {
			t.Errorf("%s: %s", what, line)
		}
	}
	// A body that breaks off does not block the server.
	conn := e.connect()
	_, _ = io.WriteString(conn, head+"Content-Length: 100\r\n\r\n{\"jsonrpc\"")
	_ = conn.Close()
	e.alive()
}

// callOf opens a call of the tool "wait", and waits until its first progress notification has arrived.
func (e *endpoint) callOf(ctx context.Context, era string) (*wiretest.Events, waiting) {
	e.t.Helper()
	var resp *http.Response
	if era == "modern" {
		body, header := wiretest.Modern("1", "tools/call", `"name":"wait"`)
		resp = e.open(ctx, "POST", "/", strings.Replace(body, `"_meta":{`, `"_meta":{"progressToken":1,`, 1), header...)
	} else {
		resp = e.open(ctx, "POST", "/", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","_meta":{"progressToken":1}}}`, e.session("2025-11-25")...)
	}
	stream := wiretest.Stream(e.t, resp)
	if data := stream.Data(); !strings.Contains(data, "notifications/progress") {
		e.t.Fatalf("%s", data)
	}
	return stream, <-e.waiting
}

// Rule T20: in 2026-07-28, closing the response cancels the request within a second, and no further
// message is sent for it.
func TestClosingTheResponseCancels(t *testing.T) {
	e := newEndpoint(t)
	ctx, hangUp := context.WithCancel(t.Context())
	_, w := e.callOf(ctx, "modern")
	hangUp()
	select {
	case <-w.ctx.Done():
	case <-time.After(wiretest.Patience):
		t.Fatal("the handler was not cancelled")
	}
	if err := <-w.ended; err == nil {
		t.Error("progress was reported without a request for it")
	}
	e.alive()
}

// Rule T20: a client may close its half of the connection and keep reading. It receives no further
// message, neither before nor after the first event.
func TestNoMessageIsSentForACancelledRequest(t *testing.T) {
	e := newEndpoint(t)
	for _, token := range []string{``, `"progressToken":1,`} {
		body, header := wiretest.Modern("1", "tools/call", `"name":"wait"`)
		body = strings.Replace(body, `"_meta":{`, `"_meta":{`+token, 1)
		conn := e.connect()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n", len(body))
		for i := 0; i < len(header); i += 2 {
			fmt.Fprintf(conn, "%s: %s\r\n", header[i], header[i+1])
		}
		fmt.Fprintf(conn, "\r\n%s", body)
		w := <-e.waiting
		_ = conn.CloseWrite()
		<-w.ctx.Done()
		<-w.ended
		raw, _ := io.ReadAll(conn)
		if bytes.Contains(raw, []byte(`"result"`)) || bytes.Contains(raw, []byte(`"progress":2`)) || bytes.Contains(raw, []byte(`"error"`)) {
			t.Errorf("after the cancellation came: %s", raw)
		}
	}
}

// Rule T21: before 2026-07-28, a disconnect does not cancel. The handler continues, its notifications are
// lost, and the session remains.
func TestDisconnectDoesNotCancelInASession(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	ctx, hangUp := context.WithCancel(t.Context())
	resp := e.open(ctx, "POST", "/", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","_meta":{"progressToken":1}}}`, append(session, "X-Watched", "1")...)
	wiretest.Stream(t, resp).Data()
	w := <-e.waiting
	hangUp()
	<-(<-e.arrived).Done() // the server has noticed
	if a := e.do("POST", "/", `{"jsonrpc":"2.0","id":2,"method":"ping"}`, session...); a.status != 200 {
		t.Errorf("%s", a)
	}
	if err := w.ctx.Err(); err != nil {
		t.Errorf("the handler was cancelled: %v", context.Cause(w.ctx))
	}
	close(w.release)
	if err := <-w.ended; err != nil {
		t.Errorf("progress: %v", err)
	}
	// The id can be used again.
	eventually(t, func() bool {
		return strings.Contains(e.do("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"still there"}}}`, session...).body, "still there")
	})
}

// Rule J15.
func TestACancelledRequestOfASessionGetsNoResponse(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"changed my mind"}}`
	for accept, want := range map[string]answer{
		"application/json, text/event-stream": {status: 200, header: http.Header{"Content-Type": {"text/event-stream"}}}, // the stream has no event
		"application/json":                    {status: 202},
	} {
		done := make(chan answer)
		go func() {
			done <- e.do("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`, append(session, "Accept", accept)...)
		}()
		w := <-e.waiting
		if a := e.do("POST", "/", cancel, session...); a.status != 202 {
			t.Errorf("%s", a)
		}
		<-w.ctx.Done()
		if a := <-done; a.status != want.status || a.body != "" || a.header.Get("Content-Type") != want.header.Get("Content-Type") {
			t.Errorf("%s: %s", accept, a)
		}
	}
	e.do("POST", "/", cancel, session...) // the call has ended
	e.alive()
}

// Rules T22, T23, T11: a response stream carries the notifications and the response of its own call, no
// requests, and headers that tell proxies not to buffer.
func TestTheResponseStreamBelongsToTheCall(t *testing.T) {
	e := newEndpoint(t)
	modernBody, modernHeader := wiretest.Modern("1", "tools/call", `"name":"count","arguments":{"to":50}`)
	for era, open := range map[string]func() *http.Response{
		"modern": func() *http.Response {
			return e.open(t.Context(), "POST", "/", strings.Replace(modernBody, `"_meta":{`, `"_meta":{"progressToken":1,`, 1), modernHeader...)
		},
		"legacy": func() *http.Response {
			return e.open(t.Context(), "POST", "/", strings.Replace(countCall, `"to":3`, `"to":50`, 1), e.session("2025-11-25")...)
		},
	} {
		resp := open()
		if resp.Header.Get("X-Accel-Buffering") != "no" || !strings.Contains(resp.Header.Get("Cache-Control"), "no-cache") {
			t.Errorf("%s: %v", era, resp.Header)
		}
		stream := wiretest.Stream(t, resp)
		for i := range 50 {
			data := stream.Data()
			if !strings.HasPrefix(data, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":`+strconv.Itoa(i+1)+`,`) {
				t.Fatalf("%s: %.200s", era, data)
			}
		}
		if data := stream.Data(); !strings.Contains(data, `"id":1,"result"`) {
			t.Errorf("%s: %s", era, data)
		}
		stream.Ends(t)
	}
}

func TestLargeResultsArriveCompletely(t *testing.T) {
	e := newEndpoint(t)
	const size = 3 << 20
	a := e.modern("1", "tools/call", fmt.Sprintf(`"name":"big","arguments":{"bytes":%d}`, size))
	if a.status != 200 || strings.Count(a.body, "x") < size || a.header.Get("Content-Length") != strconv.Itoa(len(a.body)) {
		t.Errorf("%d, %d bytes", a.status, len(a.body))
	}
}

// A reader that stops reading does not block the handler for ever: the data written for a call is
// bounded, and in 2026-07-28 closing the response ends the call.
func TestAReaderThatStopsBlocksOnlyItsCall(t *testing.T) {
	e := newEndpoint(t)
	body, header := wiretest.Modern("1", "tools/call", `"name":"count","arguments":{"to":50000}`)
	resp := e.open(t.Context(), "POST", "/", strings.Replace(body, `"_meta":{`, `"_meta":{"progressToken":1,`, 1), header...)
	defer resp.Body.Close() // without reading the 50 MB
	e.alive()
	if a := e.modern("1", "tools/call", `"name":"echo","arguments":{"text":"hi"}`); !strings.Contains(a.body, "hi") {
		t.Errorf("%s", a)
	}
}

// A handler that ends its goroutine after it has sent progress is answered on the event stream.
// The server goes on, the slot in the session is released, and Shutdown does not wait for it.
func TestAHandlerThatEndsItsGoroutineIsContained(t *testing.T) {
	e := newEndpoint(t, func(s *server.Server) {
		s.Limits.MaxInflight = 2
		server.AddTool(s, mcp.Tool{Name: "exit"}, func(ctx context.Context, _ struct{}) (string, error) {
			_ = server.Progress(ctx, 1, 2, "")
			runtime.Goexit()
			return "", nil
		})
	})
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exit","_meta":{"progressToken":1}}}`
	p := e.pair("/")
	e.do("POST", p.endpoint, fmt.Sprintf(wiretest.Initialize, "2024-11-05"))
	p.Data()
	for range 3 {
		e.do("POST", p.endpoint, call)
		p.Data() // progress
		if data := p.Data(); !strings.Contains(data, `"isError":true`) {
			t.Errorf("on a pair: %s", data)
		}
	}
	session := e.session("2025-11-25")
	statelessBody, statelessHeader := wiretest.Modern("1", "tools/call", `"name":"exit"`)
	for range 3 {
		for _, r := range []struct {
			body   string
			header []string
		}{{call, session}, {statelessBody, statelessHeader}} {
			conn := e.connect()
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(r.body))
			for i := 0; i < len(r.header); i += 2 {
				fmt.Fprintf(conn, "%s: %s\r\n", r.header[i], r.header[i+1])
			}
			fmt.Fprintf(conn, "\r\n%s", r.body)
			if raw, err := io.ReadAll(conn); err != nil || !bytes.Contains(raw, []byte(`"isError":true`)) {
				t.Errorf("%v %s", err, raw)
			}
		}
	}
	if a := e.do("POST", "/", pingBody, session...); a.status != 200 {
		t.Errorf("the session: %s", a)
	}
	e.alive()
	if err := e.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestShutdownWaitsForRequestsInFlight(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		e := newEndpoint(t)
		stream, w := e.callOf(t.Context(), era)
		done := make(chan error)
		go func() { done <- e.server.Shutdown(context.Background()) }()
		eventually(t, func() bool { return e.do("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"ping"}`).status == 503 })
		if w.ctx.Err() != nil {
			t.Errorf("%s: cancelled", era)
		}
		select {
		case err := <-done:
			t.Errorf("%s: Shutdown did not wait: %v", era, err)
		default:
		}
		close(w.release)
		stream.Data() // the second report
		if data := stream.Data(); !strings.Contains(data, `"text":"waited"`) {
			t.Errorf("%s: %s", era, data)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", era, err)
		}
		if err := e.server.Shutdown(context.Background()); err != nil {
			t.Errorf("%s, again: %v", era, err)
		}
		a := e.do("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("%s, after: %s", era, a)
		}
	}
}

func TestShutdownEndsOpenStreams(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	standalone := wiretest.Stream(t, e.open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream")...))
	p := e.pair("/")
	if err := e.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	standalone.Ends(t)
	p.Ends(t)
	if a := e.do("GET", "/", "", append(session, "Accept", "text/event-stream")...); a.status != 503 {
		t.Errorf("%s", a)
	}
}

// Requests in flight of a pair are answered before its stream ends.
func TestShutdownFinishesAPair(t *testing.T) {
	e := newEndpoint(t)
	p := e.pair("/")
	e.do("POST", p.endpoint, fmt.Sprintf(wiretest.Initialize, "2024-11-05"))
	p.Data()
	e.do("POST", p.endpoint, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}}`)
	w := <-e.waiting
	done := make(chan error)
	go func() { done <- e.server.Shutdown(context.Background()) }()
	eventually(t, func() bool { return e.do("POST", "/", "{}").status == 503 })
	if w.ctx.Err() != nil {
		t.Error("cancelled")
	}
	close(w.release)
	if data := p.Data(); !strings.Contains(data, `"text":"waited"`) {
		t.Errorf("%s", data)
	}
	p.Ends(t)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A Shutdown whose context ends cancels the calls, and still sends their results.
func TestShutdownCancelsWhenItsContextEnds(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		e := newEndpoint(t)
		stream, w := e.callOf(t.Context(), era)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", era, err)
		}
		<-w.ctx.Done()
		<-w.ended
		var last string
		for {
			data := stream.Data()
			if data == "" {
				break
			}
			last = data
		}
		if !strings.Contains(last, `"id":1`) {
			t.Errorf("%s: the last that came is %q", era, last)
		}
		if err := e.server.Shutdown(t.Context()); err != nil {
			t.Errorf("%s, again: %v", era, err)
		}
	}
}
