package server_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// taskWire is a revision that has tasks, on a wire.
type taskWire struct {
	revision mcp.Revision
	http     bool
	declared string // capabilities of the client; empty means taskClient
}

// onTaskWires tests both kinds of tasks on each wire.
func onTaskWires(t *testing.T, f func(t *testing.T, w taskWire)) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		onWires(t, r, f)
	}
}

func onWires(t *testing.T, r mcp.Revision, f func(t *testing.T, w taskWire)) {
	t.Run(string(r)+"/stream", func(t *testing.T) { f(t, taskWire{revision: r}) })
	t.Run(string(r)+"/http", func(t *testing.T) { f(t, taskWire{revision: r, http: true}) })
}

// taskPeer is a client of tasks that sends raw messages. It validates every message of the server
// with the official schemas.
type taskPeer struct {
	t        testing.TB
	revision mcp.Revision
	// declared are the capabilities of the client: in 2026-07-28 of the next request, and
	// otherwise of the session.
	declared string
	// meta are further members of _meta of the requests, each followed by a comma.
	meta string
	// answer returns the result for a request of the server, or the error if it begins with "error:".
	// If it is empty the request has no response.
	answer func(m *jsonrpc.Message) string

	send  func(body, method, name string) // what arrives goes to take
	close func()                          // ends the connection, or the session

	mu       sync.Mutex
	lastID   int
	sent     map[int]sentRequest
	notified []string // the notifications of the server
}

type sentRequest struct {
	method string
	reply  chan taskReply
}

// taskReply is a response.
type taskReply struct {
	raw    string
	status int  // of HTTP
	events bool // the response is in an event stream
	result json.RawMessage
	err    *jsonrpc.Error
}

const (
	taskClient       = `{"elicitation":{"form":{},"url":{}},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	tasklessClient   = `{"elicitation":{"form":{},"url":{}},"sampling":{}}`
	initializeParams = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"clientInfo":{"name":"c","version":"1"},"capabilities":%s}}`
)

// connect connects a client to s, as the principal if it has a name.
func (w taskWire) connect(t testing.TB, s *server.Server, who ...string) *taskPeer {
	t.Helper()
	p := &taskPeer{t: t, revision: w.revision, declared: cmp.Or(w.declared, taskClient), sent: make(map[int]sentRequest)}
	p.answer = func(m *jsonrpc.Message) string {
		t.Errorf("unexpected request of the server: %s", m.Method)
		return "{}"
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	t.Cleanup(func() { shutdownNow(t, s) })
	if w.http {
		p.serveHTTP(s, strings.Join(who, ""))
	} else {
		p.serveStream(s, who)
	}
	return p
}

// shutdownNow ends the server and the handlers of its tasks.
func shutdownNow(t testing.TB, s *server.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); err != nil && err != context.Canceled && !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("Shutdown: %v", err)
	}
}

func (p *taskPeer) serveStream(s *server.Server, who []string) {
	near, far := transport.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	served, read := make(chan error, 1), make(chan struct{})
	caller := principal.Anonymous
	if len(who) > 0 {
		caller = person(p.t, who[0])
	}
	go func() { served <- s.ServeConnAs(ctx, far, caller) }()
	p.send = func(body, _, _ string) {
		if err := near.Write(ctx, []byte(body)); err != nil {
			p.t.Errorf("send %s: %v", body, err)
		}
	}
	ready := make(chan string, 1)
	go func() {
		defer close(read)
		first := !p.revision.Modern()
		for {
			raw, err := near.Read(ctx)
			switch {
			case err != nil:
				return
			case first:
				ready <- string(raw)
			default:
				p.take(string(raw), 0, false)
			}
			first = false
		}
	}()
	p.close = sync.OnceFunc(func() {
		near.Close()
		<-served
		stop()
		<-read
	})
	p.t.Cleanup(p.close)
	if !p.revision.Modern() {
		p.send(fmt.Sprintf(initializeParams, p.revision, p.declared), "", "")
		if err := spec.ValidateMessage(p.revision, []byte(<-ready), mcp.MethodInitialize); err != nil {
			p.t.Error(err)
		}
		p.send(wiretest.Initialized, "", "")
	}
}

func (p *taskPeer) serveHTTP(s *server.Server, who string) {
	web := httptest.NewServer(s)
	ctx, stop := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if s.Auth != nil {
		header.Set("Authorization", "Bearer "+who)
	}
	do := func(verb, body, method, name string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, verb, web.URL, strings.NewReader(body))
		if err != nil {
			p.t.Error(err)
			return nil
		}
		req.Header = header.Clone()
		if p.revision.Modern() {
			req.Header.Set("Mcp-Method", method)
			if name != "" {
				req.Header.Set("Mcp-Name", name)
			}
		}
		resp, err := web.Client().Do(req)
		if err != nil {
			if ctx.Err() == nil {
				p.t.Errorf("%s: %v", body, err)
			}
			return nil
		}
		return resp
	}
	p.send = func(body, method, name string) {
		sending.Go(func() {
			if resp := do(http.MethodPost, body, method, name); resp != nil {
				p.readBody(resp)
			}
		})
	}
	header.Set("MCP-Protocol-Version", string(p.revision))
	p.close = func() {}
	if !p.revision.Modern() {
		resp := do(http.MethodPost, fmt.Sprintf(initializeParams, p.revision, p.declared), "", "")
		raw, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err := spec.ValidateMessage(p.revision, raw, mcp.MethodInitialize); err != nil {
			p.t.Error(err)
		}
		header.Set("Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"))
		do(http.MethodPost, wiretest.Initialized, "", "").Body.Close()
		p.close = func() { do(http.MethodDelete, "", "", "").Body.Close() }
	}
	p.t.Cleanup(func() {
		stop()
		sending.Wait()
		web.Close()
	})
}

// readBody takes the messages of a response.
func (p *taskPeer) readBody(resp *http.Response) {
	defer resp.Body.Close()
	scan := bufio.NewScanner(resp.Body)
	scan.Buffer(nil, 16<<20)
	events := resp.Header.Get("Content-Type") == "text/event-stream"
	for scan.Scan() {
		line := scan.Text()
		if events {
			line, _ = strings.CutPrefix(line, "data: ")
		}
		if strings.HasPrefix(line, "{") {
			p.take(line, resp.StatusCode, events)
		}
	}
}

// take validates a message, passes responses on and answers requests.
func (p *taskPeer) take(raw string, status int, events bool) {
	m, err := jsonrpc.Parse([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		p.t.Errorf("received %s: %v", raw, err)
		return
	}
	method := ""
	if m.Kind == jsonrpc.Response {
		id, _ := m.ID.Int()
		p.mu.Lock()
		sent := p.sent[int(id)]
		p.mu.Unlock()
		if method = sent.method; method == "" {
			p.t.Errorf("unexpected response: %s", raw)
			return
		}
		defer func() { sent.reply <- taskReply{raw, status, events, json.RawMessage(m.Raw), m.Err} }()
	}
	if err := spec.ValidateMessage(p.revision, []byte(raw), method); err != nil {
		p.t.Error(err)
	}
	switch m.Kind {
	case jsonrpc.Notification:
		p.mu.Lock()
		p.notified = append(p.notified, raw)
		p.mu.Unlock()
	case jsonrpc.Request:
		text := p.answer(&m)
		if fault, ok := strings.CutPrefix(text, "error:"); text == "" {
			return
		} else if ok {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, fault), "", "")
		} else {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, text), "", "")
		}
	}
}

// start sends a request with these members of params.
func (p *taskPeer) start(method, members string) <-chan taskReply {
	p.t.Helper()
	name := ""
	for _, member := range []string{"name", "uri", "taskId"} {
		if raw, ok := jsonrpc.Get([]byte("{"+members+"}"), member); ok && raw[0] == '"' {
			name = jsonrpc.Unquote(raw)
		}
	}
	if p.revision.Modern() {
		meta := fmt.Sprintf(`"_meta":{%s"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s}`, p.meta, p.revision, p.declared)
		members = strings.Trim(members+","+meta, ",")
	} else if p.meta != "" {
		members = strings.Trim(members+`,"_meta":{`+strings.TrimSuffix(p.meta, ",")+"}", ",")
	}
	reply := make(chan taskReply, 1)
	p.mu.Lock()
	p.lastID++
	id := p.lastID
	p.sent[id] = sentRequest{method, reply}
	p.mu.Unlock()
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, members), method, name)
	return reply
}

// ask sends a request and returns the response.
func (p *taskPeer) ask(method, members string) taskReply {
	p.t.Helper()
	return p.await(p.start(method, members))
}

func (p *taskPeer) await(reply <-chan taskReply) taskReply {
	p.t.Helper()
	select {
	case r := <-reply:
		return r
	case <-time.After(wiretest.Patience):
		p.t.Fatal("no response")
		return taskReply{}
	}
}

// must returns the result of a request, which must have one.
func (p *taskPeer) must(method, members string) json.RawMessage {
	p.t.Helper()
	r := p.ask(method, members)
	if r.err != nil {
		p.t.Fatalf("%s %s: %s", method, members, r.raw)
	}
	return r.result
}

// notifications returns the notifications of the server so far, one on each line.
func (p *taskPeer) notifications() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.notified, "\n")
}

// wantError fails unless the response is an error with this code and these words in its text.
func (p *taskPeer) wantError(method, members string, code int64, words string) {
	p.t.Helper()
	if r := p.ask(method, members); r.err == nil || r.err.Code != code || !strings.Contains(r.err.Message, words) {
		p.t.Errorf("%s %.300s: %s, want code %d and %q", method, members, r.raw, code, words)
	}
}

// authenticated makes s accept the names of principals as tokens.
func authenticated(s *server.Server) *server.Server {
	s.Auth = &auth.ProtectedResource{
		URI: "http://localhost", Issuers: []string{"https://issuer.example"}, Verifier: auth.VerifierFunc(principalOfToken),
	}
	return s
}
