package inspect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	library "github.com/parley-mcp/parley/server"
)

// waitLimit is the time-out of everything that a test waits for.
const waitLimit = time.Minute

// page is a program that does what the page does.
type page struct {
	t     *testing.T
	url   string
	token string
	apps  string
	stop  func() // ends the inspector

	mu       sync.Mutex
	changed  chan struct{} // closed after each update
	servers  []serverState
	question []*question
	calls    map[uint64]call
	messages []entry
}

// start runs an inspector of servers, and reads its events.
func start(t *testing.T, servers ...Server) *page {
	t.Helper()
	return run(t, &Inspector{Servers: servers, Version: "test",
		Add: func(_ context.Context, url string) (Server, error) { return serverAt(url), nil }})
}

// run runs an inspector, and reads its events.
func run(t *testing.T, i *Inspector) *page {
	t.Helper()
	var listeners [2]net.Listener
	for n := range listeners {
		var err error
		if listeners[n], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { must.Check(t, i.Run(ctx, listeners[0], listeners[1])) })
	p := &page{
		t: t, url: "http://" + listeners[0].Addr().String(), token: i.Token(),
		apps:    "http://" + listeners[1].Addr().String(),
		changed: make(chan struct{}), calls: make(map[uint64]call),
	}
	running.Go(func() { p.follow(ctx) })
	p.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(p.stop)
	return p
}

// serverAt returns the server at a URL, without logins.
func serverAt(url string) Server {
	return Server{
		Name: url, Words: []string{url}, Target: client.URL(url),
		Dialer: func(context.Context) (*client.Dialer, error) {
			return &client.Dialer{Name: "test", Logger: slog.New(slog.DiscardHandler)}, nil
		},
	}
}

// demoServer serves the demo tools, and returns them as a server of the page.
func demoServer(t *testing.T) Server {
	t.Helper()
	s := demo.New("test")
	s.Logger = slog.New(slog.DiscardHandler)
	served := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		must.Check(t, s.Shutdown(ctx))
		served.Close()
	})
	one := serverAt(served.URL)
	one.Name = "demo"
	return one
}

func (p *page) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	req := must.Get(http.NewRequestWithContext(ctx, method, p.url+path, body))(p.t)
	req.Header.Set("Authorization", "Bearer "+p.token)
	return req
}

// follow reads the event stream until ctx ends.
func (p *page) follow(ctx context.Context) {
	resp, err := http.DefaultClient.Do(p.request(ctx, http.MethodGet, "/api/events", nil))
	if err != nil {
		must.CheckThat(p.t, ctx.Err() != nil, "%v", err)
		return
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var u update
		if err := json.Unmarshal(line, &u); err != nil {
			p.t.Errorf("%v: %.300s", err, line)
			return
		}
		p.mu.Lock()
		if u.State != nil {
			p.servers, p.question = u.State.Servers, u.State.Questions
		}
		for _, c := range u.Calls {
			p.calls[c.Number] = c
		}
		p.messages = append(p.messages, u.Messages...)
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// await waits until the state satisfies a condition.
func (p *page) await(what string, done func() bool) {
	p.t.Helper()
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	for {
		p.mu.Lock()
		ok, changed := done(), p.changed
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			p.mu.Lock()
			defer p.mu.Unlock()
			p.t.Fatalf("%s: not within %v: servers %+v, calls %+v", what, waitLimit, p.servers, p.calls)
		}
	}
}

// get sends a GET request and decodes the JSON of its response.
func (p *page) get(path string, into any) {
	p.t.Helper()
	if status, body := p.do(http.MethodGet, path, nil); status != http.StatusOK || json.Unmarshal(body, into) != nil {
		p.t.Fatalf("GET %s: %d %.500s", path, status, body)
	}
}

// post sends a request of the page, which must succeed.
func (p *page) post(path string, in, into any) {
	p.t.Helper()
	raw := must.Get(json.Marshal(in))(p.t)
	status, body := p.do(http.MethodPost, path, raw)
	if status != http.StatusOK || into != nil && json.Unmarshal(body, into) != nil {
		p.t.Fatalf("POST %s: %d %.500s", path, status, body)
	}
}

func (p *page) do(method, path string, body []byte) (int, []byte) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), waitLimit)
	defer cancel()
	resp := must.Get(http.DefaultClient.Do(p.request(ctx, method, path, bytes.NewReader(body))))(p.t)
	defer resp.Body.Close()
	text := must.Get(io.ReadAll(resp.Body))(p.t)
	return resp.StatusCode, text
}

// connect connects to the server demo.
func (p *page) connect(change func(*Settings)) {
	p.t.Helper()
	settings := defaultSettings("")
	change(&settings)
	p.post("/api/servers/demo/connect", settings, nil)
	p.await("connection", func() bool { return len(p.servers) > 0 && p.servers[0].State == stateReady })
}

// call starts a call of the server demo and returns its number.
func (p *page) call(r callRequest) uint64 {
	p.t.Helper()
	var started struct{ Call uint64 }
	p.post("/api/servers/demo/calls", r, &started)
	return started.Call
}

// finished waits for the end of a call, and returns it and its result.
func (p *page) finished(number uint64) (c call, result mcp.CallToolResult) {
	p.t.Helper()
	p.await("end of the call", func() bool { c = p.calls[number]; return c.Number != 0 && c.ended() })
	status, body := p.do(http.MethodGet, "/api/calls/"+jsonNumber(number)+"/result", nil)
	if status == http.StatusOK {
		must.Do(p.t, json.Unmarshal(body, &result))
	}
	return c, result
}

func jsonNumber(n uint64) string {
	raw, _ := json.Marshal(n)
	return string(raw)
}

func text(r mcp.CallToolResult) string {
	for _, block := range r.Content {
		if t, ok := block.(*mcp.TextContent); ok {
			return t.Text
		}
	}
	return ""
}

func TestPageListsToolsAndCallsThem(t *testing.T) {
	for _, revision := range mcp.Revisions() {
		p := start(t, demoServer(t))
		p.connect(func(s *Settings) { s.Revision = revision })
		var tools struct{ Entries []mcp.Tool }
		p.get("/api/servers/demo/tools", &tools)
		must.That(t, len(tools.Entries) >= 10, "%s: tools %+v", revision, tools)
		p.get("/api/servers/demo/tools?refresh=1", &tools)
		p.connect(func(s *Settings) { s.Revision = revision })
		p.await("new version of the tools", func() bool { return p.servers[0].Lists[0] == 2 })
		p.get("/api/servers/demo/tools", &tools)
		c, result := p.finished(p.call(callRequest{Method: mcp.MethodCallTool, Name: "greet",
			Arguments: json.RawMessage(`{"name":"Ada"}`)}))
		if c.State != callDone || !strings.Contains(text(result), "Ada") {
			t.Errorf("%s: call %+v, result %+v", revision, c, result)
		}
		c, result = p.finished(p.call(callRequest{Method: mcp.MethodCallTool, Name: "fail"}))
		if c.State != callDone || !c.IsError || !result.IsError {
			t.Errorf("%s: call %+v, result %+v", revision, c, result)
		}
	}
}

func TestTimelinesHaveTheQuestionsAndRoundsOfACall(t *testing.T) {
	for revision, rounds := range map[mcp.Revision]int{mcp.V20251125: 1, mcp.Latest: 2} {
		p := start(t, demoServer(t))
		p.connect(func(s *Settings) { s.Revision = revision })
		number := p.call(callRequest{Method: mcp.MethodCallTool, Name: "book_table",
			Arguments: json.RawMessage(`{"restaurant":"Roma"}`)})
		var asked *question
		p.await("question", func() bool {
			if len(p.question) == 1 {
				asked = p.question[0]
			}
			return asked != nil
		})
		if asked.Call != number || asked.Kind != questionForm || !bytes.Contains(asked.Schema, []byte(`"people"`)) {
			t.Errorf("%s: question %+v", revision, asked)
		}
		path := "/api/questions/" + jsonNumber(asked.Number)
		if status, body := p.do(http.MethodPost, path,
			[]byte(`{"action":"accept","content":{"date":"2027-01-31","people":99,"seat":"window",`+
				`"remind":true}}`)); status != http.StatusBadRequest || !bytes.Contains(body, []byte(`"/people"`)) {
			t.Errorf("%s: the answer to an invalid form is %d %s", revision, status, body)
		}
		p.post(path, map[string]any{"action": "accept", "content": map[string]any{"date": "2027-01-31", "people": 3,
			"seat": "window", "remind": true}}, nil)
		c, result := p.finished(number)
		must.CheckContains(t, text(result), "for 3 on 2027-01-31", revision)
		must.CheckEqual(t, c.Rounds, rounds, revision)
		var kinds []string
		for _, s := range c.Steps {
			kinds = append(kinds, s.Kind)
		}
		want := "sent question answer result end"
		if rounds == 2 {
			want = "sent input question answer sent result end"
		}
		must.CheckEqual(t, strings.Join(kinds, " "), want, revision, "the timeline")
	}
}

func TestStatusOfATaskDoesNotContinueACallThatHasEnded(t *testing.T) {
	h := newHub(t.Context(), time.Now)
	c := &call{State: callAsking, Task: &taskState{ID: "1"}}
	h.taskChanged(c, new(entry), "1", string(mcp.TaskWorking), "")
	must.CheckEqual(t, c.State, callRunning, "a call whose task works")
	c.State = callDone
	h.taskChanged(c, new(entry), "1", string(mcp.TaskInputRequired), "")
	h.taskChanged(c, new(entry), "1", string(mcp.TaskWorking), "late")
	if c.State != callDone || c.Task.Message != "late" {
		t.Errorf("a call that has ended is %s, its task %+v", c.State, c.Task)
	}
}

func TestTimelinesHaveTheTaskOfACall(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.Latest} {
		p := start(t, demoServer(t))
		p.connect(func(s *Settings) { s.Revision = revision })
		number := p.call(callRequest{Method: mcp.MethodCallTool, Name: "bake",
			Arguments: json.RawMessage(`{"kind":"plum","milliseconds":1}`), Task: true})
		p.await("question", func() bool { return len(p.question) == 1 && p.calls[number].Task != nil })
		p.mu.Lock()
		asked := p.question[0].Number
		p.mu.Unlock()
		p.post("/api/questions/"+jsonNumber(asked), map[string]any{"action": "accept",
			"content": map[string]any{"icing": "sugar", "candles": 4}}, nil)
		// The last status can arrive after the result of the call.
		p.await("end of the task", func() bool { return p.calls[number].Task.Status == string(mcp.TaskCompleted) })
		c, result := p.finished(number)
		if !strings.Contains(text(result), "candles: 4") || c.Task == nil ||
			c.Task.Status != string(mcp.TaskCompleted) {
			t.Errorf("%s: call %+v, result %q", revision, c, text(result))
		}
		steps, _ := json.Marshal(c.Steps)
		for _, want := range []string{`"text":"task is working`, `"text":"task is input_required`,
			`"text":"task is completed`} {
			must.CheckContains(t, string(steps), want, revision, "the timeline lacks", steps)
		}
	}
}

func TestPageWaitsForATaskOfAnotherProgram(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.Latest} {
		one := demoServer(t)
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		elicit := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			t.Error("the other program is asked")
			return nil, errDeclined
		}
		c, err := (&client.Dialer{Name: "other", Revision: revision, Elicit: elicit,
			Logger: slog.New(slog.DiscardHandler)}).Dial(ctx, one.Target)
		must.Do(t, err)
		defer c.Close()
		task := must.Get(c.StartTool(ctx, "bake", map[string]any{"kind": "plum", "milliseconds": 1}))(t)
		p := start(t, one)
		p.connect(func(s *Settings) { s.Revision = revision })
		number := p.call(callRequest{Method: mcp.MethodGetTask, Name: task.ID(), TaskID: task.ID()})
		p.await("question", func() bool { return len(p.question) == 1 })
		p.mu.Lock()
		asked := p.question[0].Number
		p.mu.Unlock()
		p.post("/api/questions/"+jsonNumber(asked), map[string]any{"action": "accept",
			"content": map[string]any{"icing": "sugar", "candles": 4}}, nil)
		c2, result := p.finished(number)
		if !strings.Contains(text(result), "candles: 4") || c2.State != callDone || c2.Task == nil {
			t.Errorf("%s: call %+v, result %q", revision, c2, text(result))
		}
	}
}

func TestCancelEndsACall(t *testing.T) {
	p := start(t, demoServer(t))
	p.connect(func(*Settings) {})
	number := p.call(callRequest{Method: mcp.MethodCallTool, Name: "book_table",
		Arguments: json.RawMessage(`{"restaurant":"Roma"}`)})
	p.await("question", func() bool { return len(p.question) == 1 })
	p.post("/api/calls/"+jsonNumber(number)+"/cancel", none{}, nil)
	if c, _ := p.finished(number); c.State != callCancelled {
		t.Errorf("call %+v", c)
	}
	p.await("end of the question", func() bool { return len(p.question) == 0 })
}

// A call takes as long as the user waits, for example for a server at a breakpoint.
func TestCallsHaveNoTimeout(t *testing.T) {
	s := &library.Server{Name: "slow", Version: "1", Logger: slog.New(slog.DiscardHandler)}
	library.AddTool(s, mcp.Tool{Name: "pause"}, func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(100 * time.Millisecond):
			return "resumed", nil
		}
	})
	served := httptest.NewServer(s)
	defer served.Close()
	one := serverAt(served.URL)
	one.Name = "demo" // as page.connect calls it
	one.Dialer = func(context.Context) (*client.Dialer, error) {
		return &client.Dialer{Name: "test", Logger: slog.New(slog.DiscardHandler),
			Timeouts: client.Timeouts{Tool: time.Millisecond, Max: time.Millisecond}}, nil
	}
	p := start(t, one)
	p.connect(func(*Settings) {})
	number := p.call(callRequest{Method: mcp.MethodCallTool, Name: "pause", Arguments: json.RawMessage(`{}`)})
	if c, result := p.finished(number); c.State != callDone || text(result) != "resumed" {
		t.Errorf("call %+v", c)
	}
	p.stop()
	must.Check(t, s.Shutdown(context.Background()))
}

func TestSettingsDecideWhichCapabilitiesAreDeclared(t *testing.T) {
	p := start(t, demoServer(t))
	p.connect(func(s *Settings) {
		*s = Settings{Sampling: true,
			Extensions: map[string]json.RawMessage{"com.example/jobs": json.RawMessage(`{"max":3}`)}}
	})
	found := p.search("com.example/jobs")
	must.That(t, len(found) != 0, "no message declares the extension")
	message := p.message(found[0])
	if !strings.Contains(message.Text, `"com.example/jobs":{"max":3}`) ||
		!strings.Contains(message.Text, `"sampling":`) || strings.Contains(message.Text, `"elicitation":`) {
		t.Errorf("the client sends %s", message.Text)
	}
}

// shownMessage is a message as the page receives it.
type shownMessage struct {
	entry
	Text     string
	Exchange *exchange
}

func (p *page) message(number uint64) (m shownMessage) {
	p.t.Helper()
	p.get("/api/messages/"+jsonNumber(number), &m)
	return m
}

func (p *page) search(words string) (found []uint64) {
	p.t.Helper()
	p.get("/api/search?text="+words, &found)
	return found
}

func TestLogHasMessagesWithTheirHeadersAndWithoutCredentials(t *testing.T) {
	one := demoServer(t)
	one.Target.(*client.HTTPTarget).Header = http.Header{"Authorization": {"Bearer secret-1"}, "X-Tenant": {"secret-2"}}
	p := start(t, one)
	p.connect(func(*Settings) {})
	number := p.call(callRequest{Method: mcp.MethodCallTool, Name: "greet",
		Arguments: json.RawMessage(`{"name":"Ada"}`)})
	p.finished(number)
	var request, response entry
	p.await("messages", func() bool {
		for _, m := range p.messages {
			if m.Method == mcp.MethodCallTool && m.Sent {
				request = m
			} else if m.Method == mcp.MethodCallTool {
				response = m
			}
		}
		return response.Number != 0
	})
	if request.Call != number || request.Subject != "greet" || response.Request != request.Number ||
		response.Call != number || response.Status != 200 {
		t.Errorf("request %+v, response %+v", request, response)
	}
	m := p.message(request.Number)
	if m.Exchange == nil || m.Exchange.Status != 200 ||
		m.Exchange.RequestHeader.Get("Mcp-Method") != mcp.MethodCallTool {
		t.Fatalf("message %+v", m)
	}
	must.CheckEqual(t, m.Exchange.RequestHeader.Get("Authorization"), hidden, m.Exchange.RequestHeader)
	must.CheckEqual(t, m.Exchange.RequestHeader.Get("X-Tenant"), hidden, m.Exchange.RequestHeader)
	found := p.search("secret-")
	must.CheckThat(t, len(found) == 0, "messages %v have credentials", found)
	if found := p.search("mcp-method"); len(found) == 0 {
		t.Error("the search ignores headers")
	}
}
