//go:build integration

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	mcpserver "github.com/parley-mcp/parley/server"
)

// fleet contains two replicas of a server that share a Redis server. The test names the replica that
// receives each request.
type fleet struct {
	t        *testing.T
	monitor  *monitor
	replicas [2]*mcpserver.Server
	urls     [2]string
	sessions []string    // sessions to end with endSessions
	waiting  chan func() // receives, for each handler that waits, a function that lets it return
}

func newFleet(t *testing.T, redis *server, m *monitor) *fleet {
	f := &fleet{t: t, monitor: m, waiting: make(chan func())}
	for i := range f.replicas {
		o := at(redis.addr)
		o.Conns = 1 // so that the address of a connection identifies the replica
		shared := connect(t, o)
		s := &mcpserver.Server{Store: shared, Keys: [][]byte{make([]byte, 32)}, Logger: slog.New(slog.DiscardHandler),
			Limits: mcpserver.Limits{CallsPerSecond: -1}} // operations for the rate limit would depend on earlier calls
		f.addTools(s)
		endpoint := httptest.NewServer(s)
		t.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // some tasks still wait for an answer
			err := s.Shutdown(ctx)
			must.CheckThat(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
			endpoint.Close()
		})
		f.replicas[i], f.urls[i] = s, endpoint.URL
	}
	return f
}

type noArguments struct{}

type person struct {
	Name string `json:"name"`
}

func (f *fleet) addTools(s *mcpserver.Server) {
	add := func(name string, do func(context.Context) error, options ...mcpserver.Option) {
		mcpserver.AddTool(s, mcp.Tool{Name: name}, func(ctx context.Context, _ noArguments) (string, error) {
			return "done", do(ctx)
		}, options...)
	}
	ask := func(ctx context.Context) error {
		_, err := mcpserver.Elicit[person](ctx, "name?")
		return err
	}
	wait := func(ctx context.Context) error {
		release := make(chan struct{})
		select {
		case f.waiting <- sync.OnceFunc(func() { close(release) }):
		case <-ctx.Done():
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	waitAndAsk := func(ctx context.Context) error {
		if err := wait(ctx); err != nil {
			return err
		}
		if err := ask(ctx); err != nil {
			return err
		}
		return wait(ctx)
	}
	onceAndAsk := func(ctx context.Context) error {
		if _, err := mcpserver.Once(ctx, "pay", func(context.Context, string) (string, error) {
			return "paid", nil
		}); err != nil {
			return err
		}
		return ask(ctx)
	}
	report := func(ctx context.Context) error {
		for i := range 3 {
			if err := mcpserver.Progress(ctx, float64(i+1), 3, "working"); err != nil {
				return err
			}
		}
		return nil
	}
	add("echo", func(context.Context) error { return nil })
	add("report", report)
	add("report_and_wait", func(ctx context.Context) error {
		if err := report(ctx); err != nil {
			return err
		}
		return wait(ctx)
	})
	add("ask", ask)
	add("ask_parked", waitAndAsk, mcpserver.Parked())
	add("once", onceAndAsk)
	add("wait", wait)
	add("job", wait, mcpserver.AsTask(mcpserver.TaskOptions{}))
	add("job_with_question", waitAndAsk, mcpserver.AsTask(mcpserver.TaskOptions{}))
	for _, name := range []string{"a", "b"} {
		mcpserver.AddResource(s, mcp.Resource{URI: "note://" + name, Name: name},
			func(context.Context) (string, error) { return name, nil })
	}
}

// send sends a request to a replica and returns the response, whose status must be 2xx.
func (f *fleet) send(replica int, method, body string, headers ...string) *http.Response {
	f.t.Helper()
	resp := wiretest.Do(f.t, method, f.urls[replica], body, headers...)
	if resp.StatusCode/100 != 2 {
		f.t.Fatalf("%s %s: status %d: %s", method, body, resp.StatusCode, wiretest.Text(f.t, resp))
	}
	resp.Body = &events{wiretest.ReadEvents(resp.Body), resp.Body}
	return resp
}

// events is the body of a response. until reads its events.
type events struct {
	*wiretest.Events
	io.ReadCloser
}

// Close implements io.Closer.
func (e *events) Close() error { return e.ReadCloser.Close() }

// until reads an event stream up to the first event that contains text, and returns that event.
func (f *fleet) until(resp *http.Response, text string) wiretest.Event {
	f.t.Helper()
	return resp.Body.(*events).Until(f.t, text)
}

// text reads a response to its end.
func (f *fleet) text(resp *http.Response) string {
	f.t.Helper()
	text := wiretest.Text(f.t, resp)
	must.That(f.t, !strings.Contains(text, `"error":`), "%s", text)
	return text
}

// find returns what the first group of a pattern matches in a text.
func (f *fleet) find(pattern, text string) string {
	f.t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	must.That(f.t, found != nil, "%s is missing in %s", pattern, text)
	return found[1]
}

// session is a session of 2025-11-25.
type session struct {
	*fleet
	id string
}

const initializeBody = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"clientInfo":{"name":"test","version":"1"},"capabilities":{"elicitation":{}}}}`

// begin sends initialize to the first replica.
func (f *fleet) begin() session {
	f.t.Helper()
	s := session{f, f.send(0, http.MethodPost, initializeBody).Header.Get("Mcp-Session-Id")}
	f.sessions = append(f.sessions, s.id)
	return s
}

// endSessions ends the sessions and their streams, so that they cause no operations during later calls.
func (f *fleet) endSessions() {
	f.t.Helper()
	f.monitor.begin()
	ended := 0
	for _, id := range f.sessions {
		for _, url := range f.urls {
			r, err := http.NewRequestWithContext(f.t.Context(), http.MethodDelete, url, nil)
			must.Do(f.t, err)
			r.Header.Set("Mcp-Session-Id", id)
			resp, err := http.DefaultClient.Do(r)
			must.Do(f.t, err)
			resp.Body.Close()
			if resp.StatusCode/100 == 2 {
				ended++
			}
		}
	}
	f.sessions = nil
	f.monitor.await(ended, "Publish") // the notification of the other replica follows the response
}

// session begins a session at the first replica. When it returns, both replicas have served requests of the
// session.
func (f *fleet) session() session {
	f.t.Helper()
	s := f.begin()
	s.notify(0, "initialized", "")
	for replica := range f.replicas {
		s.request(replica, "ping", "")
	}
	return s
}

// open sends a request in the session, with further headers. The response may be an event stream.
func (s session) open(replica int, method, params string, headers ...string) *http.Response {
	s.t.Helper()
	return s.send(replica, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method,
		params), append(headers, "Mcp-Session-Id", s.id)...)
}

func (s session) request(replica int, method, params string) string {
	s.t.Helper()
	return s.text(s.open(replica, method, params))
}

func (s session) notify(replica int, notification, params string) {
	s.t.Helper()
	s.text(s.send(replica, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s","params":{%s}}`,
		notification, params), "Mcp-Session-Id", s.id))
}

// respond answers a question that arrived as an event of a stream.
func (s session) respond(replica int, question wiretest.Event) {
	s.t.Helper()
	id := s.find(`"id":([0-9]+|"[^"]*")`, question.Data)
	s.text(s.send(replica, http.MethodPost, `{"jsonrpc":"2.0","id":`+id+
		`,"result":{"action":"accept","content":{"name":"Ada"}}}`, "Mcp-Session-Id", s.id))
}

// get opens the standalone stream, or resumes a stream after an event.
func (s session) get(replica int, event wiretest.Event) *http.Response {
	s.t.Helper()
	headers := []string{"Mcp-Session-Id", s.id, "Accept", "text/event-stream"}
	if event.ID != "" {
		headers = append(headers, "Last-Event-ID", event.ID)
	}
	return s.send(replica, http.MethodGet, "", headers...)
}

// listen opens the standalone stream, and subscribe subscribes to a resource. They wait until the other replica is
// notified.
func (s session) listen(replica int) *http.Response {
	s.t.Helper()
	s.monitor.begin()
	stream := s.get(replica, wiretest.Event{})
	s.monitor.await(1, "Publish")
	return stream
}

func (s session) subscribe(replica int, uri string) {
	s.t.Helper()
	s.monitor.begin()
	s.request(replica, "resources/subscribe", fmt.Sprintf(`"uri":%q`, uri))
	s.monitor.await(1, "Publish")
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// modern sends a request of 2026-07-28. name is the name of a tool, or the ID of a task.
func (f *fleet) modern(replica int, method, name, params string) *http.Response {
	f.t.Helper()
	headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		headers = append(headers, "Mcp-Name", name)
	}
	if params != "" {
		params += ","
	}
	return f.send(replica, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method,
		params+modernMeta), headers...)
}

func (f *fleet) modernCall(replica int, tool, more string) string {
	f.t.Helper()
	return f.text(f.modern(replica, "tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":{}%s`, tool, more)))
}

// answered returns the params with which a client repeats a call that required input.
func (f *fleet) answered(response string) string {
	f.t.Helper()
	return fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}`, f.find(`"requestState":"([^"]*)"`, response),
		f.answers(response))
}

func (f *fleet) answers(response string) string {
	f.t.Helper()
	return fmt.Sprintf(`%q:{"action":"accept","content":{"name":"Ada"}}`,
		f.find(`"inputRequests":\{"([^"]*)"`, response))
}

// inBackground calls request in a goroutine. The channel is closed when request has returned.
func (f *fleet) inBackground(request func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		request()
	}()
	return done
}
