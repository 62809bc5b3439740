package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
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
