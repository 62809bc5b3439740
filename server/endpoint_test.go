package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
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
	must.Do(t, json.Unmarshal([]byte(a.body), &m), a)
	if m.Error != nil {
		code = m.Error.Code
	}
	return code, string(m.ID)
}

// do sends one request. Headers are pairs of names and values; a header Host sets the host.
func (e *endpoint) do(method, path, body string, header ...string) answer {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), wiretest.Patience)
	defer cancel()
	return e.answer(wiretest.NewRequest(ctx, method, e.http.URL+path, body, header...))
}

// answer sends a request and reads the response.
func (e *endpoint) answer(req *http.Request) answer {
	e.t.Helper()
	resp := must.Get(e.http.Client().Do(req))(e.t)
	return answer{resp.StatusCode, resp.Header, wiretest.Text(e.t, resp), resp.Close}
}

func (e *endpoint) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	e.t.Helper()
	resp := must.Get(e.http.Client().Do(wiretest.NewRequest(ctx, method, e.http.URL+path, body, header...)))(e.t)
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
	must.That(e.t, a.status == http.StatusOK && id != "", "initialize: %s", a)
	header := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", version}
	if a := e.do(http.MethodPost, "/", wiretest.Initialized, header...); a.status != http.StatusAccepted ||
		a.body != "" {
		e.t.Fatalf("initialized: %s", a)
	}
	return header
}

// alive checks that the server still serves.
func (e *endpoint) alive() {
	e.t.Helper()
	a := e.modern("1", mcp.MethodDiscover, "")
	must.CheckEqual(e.t, a.status, http.StatusOK, "the server is not what it was", a)
}

const foreign = "http://evil.example"

const countCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"to":3},` +
	`"_meta":{"progressToken":1}}}`

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
	must.Equal(e.t, first.Name, "endpoint", first)
	p.endpoint = first.Data
	return p
}

// ready opens a pair and starts its session.
func (e *endpoint) ready() *pair {
	e.t.Helper()
	p := e.pair("/")
	e.do("POST", p.endpoint, fmt.Sprintf(wiretest.Initialize, "2024-11-05"))
	p.Data()
	return p
}

// requestHead returns the request line and the headers of an HTTP/1.1 request, without those of its body.
func requestHead(method, path string, header ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	if method == http.MethodPost {
		b.WriteString("Content-Type: application/json\r\n")
	}
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	return b.String()
}

// rawPost returns the bytes of a POST request.
func rawPost(body string, header ...string) string {
	return requestHead("POST", "/", header...) + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
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

// connect opens a raw connection to the server, for requests that no HTTP client would send.
func (e *endpoint) connect() *net.TCPConn {
	e.t.Helper()
	conn := must.Get(net.Dial("tcp", e.http.Listener.Addr().String()))(e.t)
	e.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(wiretest.Patience))
	return conn.(*net.TCPConn)
}

// progressCall calls the tool "wait" with a progress token.
const progressCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait",` +
	`"_meta":{"progressToken":1}}}`

// modernCall returns a call of a tool in 2026-07-28 with a progress token, and its headers.
func modernCall(members string) (body string, header []string) {
	body, header = wiretest.Modern("1", mcp.MethodCallTool, members)
	return strings.Replace(body, `"_meta":{`, `"_meta":{"progressToken":1,`, 1), header
}

// callOf opens a call of the tool "wait", and waits until its first progress notification has arrived.
func (e *endpoint) callOf(ctx context.Context, era string) (*wiretest.Events, waiting) {
	e.t.Helper()
	var stream *wiretest.Events
	switch era {
	case "modern":
		body, header := modernCall(`"name":"wait"`)
		stream = wiretest.Stream(e.t, e.open(ctx, "POST", "/", body, header...))
	case "legacy":
		stream = wiretest.Stream(e.t, e.open(ctx, "POST", "/", progressCall, e.session("2025-11-25")...))
	default:
		p := e.ready()
		e.do("POST", p.endpoint, progressCall)
		stream = p.Events
	}
	must.Contains(e.t, stream.Data(), "notifications/progress")
	return stream, <-e.waiting
}

const waitCall = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait"}}`

// principalOfToken is a verifier whose principal is the token.
func principalOfToken(_ context.Context, token string) (*auth.Info, error) {
	who, err := principal.New("https://issuer.example", token, "")
	return &auth.Info{Principal: who, Audience: []string{"http://localhost"}, Expiry: time.Now().Add(time.Hour)}, err
}

const pingBody = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// patience is how long a test waits for a message that should arrive at once.
const patience = time.Minute

// linked has the functions of a Server for gateways.

// line is the client of a server that a test writes line by line.
type line struct{ *wiretest.Peer }

// connectLine serves a connection in memory until the test ends.
func connectLine(t testing.TB, s *server.Server) *line {
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	return &line{wiretest.Connect(t, s.ServeConn)}
}

// request returns a request of 2026-07-28 with these members of params.
func request(id int, method, params string) string {
	body, _ := wiretest.Modern(strconv.Itoa(id), method, params)
	return body
}

// ask sends a request and returns its result or error.
func (l *line) ask(method, params string) (result []byte, err *jsonrpc.Error) {
	l.T.Helper()
	l.Send(request(1, method, params))
	text := l.Receive()
	m, invalid := jsonrpc.Parse([]byte(text), jsonrpc.Limits{})
	must.CheckThat(l.T, invalid == nil && m.Kind == jsonrpc.Response && m.ID == jsonrpc.IntID(1),
		"%s was answered with %s: %v", method, text, invalid)
	return m.Raw, m.Err
}

// wantError fails unless the response is an error with this code and these words in its text.
func (l *line) wantError(method, params string, code int64, words string) {
	l.T.Helper()
	result, err := l.ask(method, params)
	must.CheckThat(l.T, err != nil && err.Code == code && strings.Contains(err.Message, words),
		"%s %.200s: %s, %v, want code %d and %q", method, params, result, err, code, words)
}

// called is the outcome of a tool call.
type called struct {
	text       string // of all text blocks
	structured string
	failed     bool
}

func (l *line) callTool(params string) called {
	l.T.Helper()
	raw, err := l.ask(mcp.MethodCallTool, params)
	if err != nil {
		l.T.Errorf("tools/call %s: %v", params, err)
		return called{}
	}
	var result mcp.CallToolResult
	must.Check(l.T, result.UnmarshalJSON(raw), params, raw)
	c := called{structured: string(result.StructuredContent), failed: result.IsError}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			c.text += text.Text
		}
	}
	return c
}

// rawPeer is a client of 2025-11-25 that sends arbitrary params and returns the error of the response.
func rawPeer(t *testing.T, s *server.Server) func(method, params string) *jsonrpc.Error {
	l := connectLine(t, s)
	l.Handshake("2025-11-25")
	return func(method, params string) *jsonrpc.Error {
		t.Helper()
		raw := l.Ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
		m := must.Get(jsonrpc.Parse([]byte(raw), jsonrpc.Limits{}))(t)
		must.Equal(t, m.Kind, jsonrpc.Response, method, raw)
		return m.Err
	}
}

// surface is one way to send raw messages to a server: a revision on a wire.
type surface struct {
	revision mcp.Revision
	// ask sends a request with these members of params, and returns the response.
	ask func(id int, method, members string) string
	// notify sends a notification and waits until the server has processed it. It returns the
	// response, or "" if the server sends no response.
	notify func(method, members string) string
}

// onEverySurface tests a server on each wire of each revision: a stream, HTTP, and for
// 2024-11-05 the HTTP+SSE pair.
func onEverySurface(t *testing.T, newServer func() *server.Server, f func(t *testing.T, s surface)) {
	for _, r := range mcp.Revisions() {
		t.Run(string(r)+"/stream", func(t *testing.T) { f(t, streamSurface(t, newServer(), r)) })
		if revision.HTTPWithSSE.In(r) {
			t.Run(string(r)+"/pair", func(t *testing.T) { f(t, pairSurface(t, newServer(), r)) })
		} else {
			t.Run(string(r)+"/http", func(t *testing.T) { f(t, httpSurface(t, newServer(), r)) })
		}
	}
}

// message returns a request, or a notification if id is 0, of revision r.
func message(r mcp.Revision, id int, method, members string) string {
	switch {
	case r.Modern() && strings.Contains(members, `"_meta":{`):
		members = strings.Replace(members, `"_meta":{`, strings.TrimSuffix(wiretest.Meta, "}")+",", 1)
	case r.Modern():
		members = strings.Trim(members+","+wiretest.Meta, ",")
	}
	if id == 0 {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{%s}}`, method, members)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, members)
}

// probeID is the id of the request that follows a notification.
const probeID = 999

func streamSurface(t *testing.T, s *server.Server, r mcp.Revision) surface {
	l := connectLine(t, s)
	if !r.Modern() {
		l.Send(fmt.Sprintf(wiretest.Initialize, r))
		l.Receive()
		l.Send(wiretest.Initialized)
	}
	return surface{
		revision: r,
		ask: func(id int, method, members string) string {
			l.Send(message(r, id, method, members))
			return l.Receive()
		},
		notify: func(method, members string) string {
			l.Send(message(r, 0, method, members))
			l.Send(message(r, probeID, "unknown/method", ""))
			if response := l.Receive(); !strings.Contains(response, fmt.Sprint(probeID)) {
				l.Receive()
				return response
			}
			return ""
		},
	}
}

func pairSurface(t *testing.T, s *server.Server, r mcp.Revision) surface {
	e := endpointOf(t, s)
	p := e.pair("/")
	post := func(body string) {
		t.Helper()
		a := e.do(http.MethodPost, p.endpoint, body)
		must.CheckEqual(t, a.status, http.StatusAccepted, body, a)
	}
	post(fmt.Sprintf(wiretest.Initialize, r))
	p.Data()
	post(wiretest.Initialized)
	return surface{
		revision: r,
		ask: func(id int, method, members string) string {
			post(message(r, id, method, members))
			data := p.Data()
			return data
		},
		notify: func(method, members string) string {
			post(message(r, 0, method, members))
			post(message(r, probeID, "unknown/method", ""))
			if data := p.Data(); !strings.Contains(data, fmt.Sprint(probeID)) {
				p.Data()
				return data
			}
			return ""
		},
	}
}

func httpSurface(t *testing.T, s *server.Server, r mcp.Revision) surface {
	e := endpointOf(t, s)
	var session []string
	if !r.Modern() {
		session = e.session(string(r))
	}
	post := func(id int, method, members string) string {
		header := append([]string{"Accept", "application/json"}, session...)
		if r.Modern() {
			header = append(header, "MCP-Protocol-Version", string(r), "Mcp-Method", method)
			if name, ok := nameIn(members); ok {
				header = append(header, "Mcp-Name", name)
			}
		}
		return e.do(http.MethodPost, "/", message(r, id, method, members), header...).body
	}
	return surface{
		revision: r,
		ask:      post,
		notify:   func(method, members string) string { return post(0, method, members) },
	}
}

// nameIn returns the value of the first member of members if that is name or uri.
func nameIn(members string) (name string, ok bool) {
	for _, member := range []string{`"name":"`, `"uri":"`} {
		if rest, found := strings.CutPrefix(members, member); found {
			name, _, ok = strings.Cut(rest, `"`)
			return name, ok
		}
	}
	return "", false
}
