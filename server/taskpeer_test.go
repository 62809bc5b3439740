package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
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

// methods are the methods about a task.
func (w taskWire) methods() []string {
	if w.revision.Modern() {
		return []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodUpdateTask}
	}
	return []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodTaskResult}
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
	taskClient = `{"elicitation":{"form":{},"url":{}},"sampling":{},` +
		`"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	tasklessClient   = `{"elicitation":{"form":{},"url":{}},"sampling":{}}`
	initializeParams = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,` +
		`"clientInfo":{"name":"c","version":"1"},"capabilities":%s}}`
)

// connect connects a client to s, as the principal if it has a name.
func (w taskWire) connect(t testing.TB, s *server.Server, who ...string) *taskPeer {
	t.Helper()
	p := &taskPeer{t: t, revision: w.revision, declared: cmp.Or(w.declared, taskClient),
		sent: make(map[int]sentRequest)}
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
	err := s.Shutdown(ctx)
	must.CheckThat(t, err == nil || err == context.Canceled || strings.Contains(err.Error(), "context canceled"),
		"Shutdown: %v", err)
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
	p.send = func(body, _, _ string) { must.Check(p.t, near.Write(ctx, []byte(body)), body) }
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
		must.Check(p.t, spec.ValidateMessage(p.revision, []byte(<-ready), mcp.MethodInitialize))
		p.send(wiretest.Initialized, "", "")
	}
}

func (p *taskPeer) serveHTTP(s *server.Server, who string) {
	web := httptest.NewServer(s)
	ctx, stop := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	header := []string{"MCP-Protocol-Version", string(p.revision)}
	if s.Auth != nil {
		header = append(header, "Authorization", "Bearer "+who)
	}
	do := func(verb, body, method, name string) *http.Response {
		req := wiretest.NewRequest(ctx, verb, web.URL, body, header...)
		if p.revision.Modern() {
			req.Header.Set("Mcp-Method", method)
			if name != "" {
				req.Header.Set("Mcp-Name", name)
			}
		}
		resp, err := web.Client().Do(req)
		if err != nil {
			must.CheckThat(p.t, ctx.Err() != nil, "%s: %v", body, err)
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
	p.close = func() {}
	if !p.revision.Modern() {
		resp := do(http.MethodPost, fmt.Sprintf(initializeParams, p.revision, p.declared), "", "")
		must.Check(p.t, spec.ValidateMessage(p.revision, []byte(wiretest.Text(p.t, resp)), mcp.MethodInitialize))
		header = append(header, "Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"))
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
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		for events := wiretest.ReadEvents(resp.Body); ; {
			data := events.Data()
			if data == "" {
				return
			}
			p.take(data, resp.StatusCode, true)
		}
	}
	if raw, _ := io.ReadAll(resp.Body); len(raw) > 0 {
		p.take(string(raw), resp.StatusCode, false)
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
	must.Check(p.t, spec.ValidateMessage(p.revision, []byte(raw), method))
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
		meta := fmt.Sprintf(`"_meta":{%s"io.modelcontextprotocol/protocolVersion":%q,`+
			`"io.modelcontextprotocol/clientCapabilities":%s}`, p.meta, p.revision, p.declared)
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
	return must.Receive(p.t, reply, "the request")
}

// must returns the result of a request, which must have one.
func (p *taskPeer) must(method, members string) json.RawMessage {
	p.t.Helper()
	r := p.ask(method, members)
	must.That(p.t, r.err == nil, "%s %s: %s", method, members, r.raw)
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
		URI: "http://localhost", Issuers: []string{"https://issuer.example"},
		Verifier: auth.VerifierFunc(principalOfToken),
	}
	return s
}

// taskState is a task as the server describes it, of either kind.
type taskState struct {
	TaskID        string         `json:"taskId"`
	Status        mcp.TaskStatus `json:"status"`
	StatusMessage string         `json:"statusMessage"`
	CreatedAt     time.Time      `json:"createdAt"`
	LastUpdatedAt time.Time      `json:"lastUpdatedAt"`
	TTL           *int64         `json:"ttl"`
	TTLMs         *int64         `json:"ttlMs"`

	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	} `json:"inputRequests"`
	Result json.RawMessage `json:"result"`
	Error  *jsonrpc.Error  `json:"error"`

	raw string
}

// taskCall returns the members of a call of a tool as a task.
func (p *taskPeer) taskCall(tool, arguments string) string {
	members := fmt.Sprintf(`"name":%q,"arguments":{%s}`, tool, arguments)
	if !p.revision.Modern() {
		members += `,"task":{}`
	}
	return members
}

// create calls a tool as a task and returns the task.
func (p *taskPeer) create(tool string) taskState {
	p.t.Helper()
	return p.created(p.must(mcp.MethodCallTool, p.taskCall(tool, "")))
}

// created returns the task in the result of a call.
func (p *taskPeer) created(result json.RawMessage) taskState {
	p.t.Helper()
	var legacy struct {
		Task json.RawMessage `json:"task"`
	}
	raw := result
	if !p.revision.Modern() {
		must.Do(p.t, json.Unmarshal(result, &legacy))
		raw = legacy.Task
	} else if !strings.Contains(string(result), `"resultType":"task"`) {
		p.t.Fatalf("no task: %s", result)
	}
	return p.decode(raw)
}

func (p *taskPeer) decode(raw json.RawMessage) taskState {
	p.t.Helper()
	s := taskState{raw: string(raw)}
	err := json.Unmarshal(raw, &s)
	must.That(p.t, err == nil && s.TaskID != "", "no task: %s: %v", raw, err)
	return s
}

func taskMembers(id string) string { return fmt.Sprintf(`"taskId":%q`, id) }

// get returns the state of a task.
func (p *taskPeer) get(id string) taskState {
	p.t.Helper()
	return p.decode(p.must(mcp.MethodGetTask, taskMembers(id)))
}

// until polls a task until it has the status.
func (p *taskPeer) until(id string, status mcp.TaskStatus) taskState {
	p.t.Helper()
	timeout := time.After(wiretest.Patience)
	for {
		s := p.get(id)
		if s.Status == status {
			return s
		}
		must.That(p.t, !s.Status.Terminal(), "the task ended: %s, want %s", s.raw, status)
		select {
		case <-time.After(time.Millisecond):
		case <-timeout:
			p.t.Fatalf("status %s: %s, want %s", s.Status, s.raw, status)
		}
	}
}

// outcome returns the result or error of a task that asks no questions. It fails unless the task
// ends with the status.
func (p *taskPeer) outcome(id string, status mcp.TaskStatus) (result json.RawMessage, err *jsonrpc.Error) {
	p.t.Helper()
	s := p.until(id, status)
	if p.revision.Modern() {
		return s.Result, s.Error
	}
	r := p.ask(mcp.MethodTaskResult, taskMembers(id))
	return r.result, r.err
}

// update answers questions of a task of 2026-07-28.
func (p *taskPeer) update(id, responses string) {
	p.t.Helper()
	p.must(mcp.MethodUpdateTask, fmt.Sprintf(`"taskId":%q,"inputResponses":%s`, id, responses))
}

// accepted is the answer of a user who fills in the form.
func acceptName(name string) string {
	return fmt.Sprintf(`{"action":"accept","content":{"name":%q}}`, name)
}

// taskJob is a call of the tool "work".
type taskJob struct {
	ctx    context.Context
	finish chan string
	ended  chan struct{} // closed when the handler returns
}

type nameForm struct {
	Name string `json:"name"`
}

// taskServer returns a server with a tool for each way in which a task can end, and the calls of
// the tool "work".
func taskServer() (s *server.Server, jobs chan *taskJob) {
	s, jobs = quiet(), make(chan *taskJob, 100)
	optional := server.AsTask(server.TaskOptions{})
	add := func(name string, handle func(context.Context, struct{}) (string, error), options ...server.Option) {
		server.AddTool(s, mcp.Tool{Name: name}, handle, options...)
	}
	done := func(context.Context, struct{}) (string, error) { return "done", nil }
	work := func(ctx context.Context, _ struct{}) (string, error) {
		j := &taskJob{ctx, make(chan string), make(chan struct{})}
		defer close(j.ended)
		jobs <- j
		select {
		case text := <-j.finish:
			return text, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	ask := func(ctx context.Context, _ struct{}) (string, error) {
		who, err := server.Elicit[nameForm](ctx, "Who?", server.Keyed("who"))
		return "Hello, " + who.Name, err
	}
	add("plain", done)
	add("quick", done, optional)
	add("never", done, server.AsTask(server.TaskOptions{Support: mcp.TaskForbidden}))
	add("only", done, server.AsTask(server.TaskOptions{Support: mcp.TaskRequired}))
	add("work", work, optional)
	add("fail", func(context.Context, struct{}) (string, error) { return "", errors.New("it failed") }, optional)
	add("broken", func(context.Context, struct{}) (string, error) {
		return "", &jsonrpc.Error{Code: 1234, Message: "it broke", Data: json.RawMessage(`{"why":"test"}`)}
	}, optional)
	add("panic", func(context.Context, struct{}) (string, error) { panic("hunter2") }, optional)
	add("exit", func(context.Context, struct{}) (string, error) { runtime.Goexit(); return "", nil }, optional)
	add("ask", ask, optional)
	add("chat", func(ctx context.Context, _ struct{}) (string, error) {
		var first, second, third nameForm
		err := server.Ask(ctx, server.ElicitInto(&first, "Who?"), server.ElicitInto(&second, "Who else?"))
		if err == nil {
			err = server.Ask(ctx, server.ElicitInto(&third, "Who?")) // with the same content as the first
		}
		return first.Name + ", " + second.Name + ", " + third.Name, err
	}, optional)
	return s, jobs
}
