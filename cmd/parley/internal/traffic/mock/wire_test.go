package mock

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/transport"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

const faulty = `
tools:
  - name: fail
    inputSchema: {type: object, properties: {how: {type: string}}}
    responses:
      - {when: {how: disconnect}, fault: disconnect}
      - {when: {how: truncate}, fault: truncate}
      - {when: {how: malformed}, fault: malformed}
      - {when: {how: status}, status: 503, retryAfter: 1500ms}
      - {when: {how: rate}, fault: rate-limit, retryAfter: 2s}
      - {when: {how: invalid}, result: {content: "none"}}
      - {when: {how: silence}, fault: no-response}
      - {when: {how: late}, latency: 1m, text: late}
      - {when: {how: midway}, steps: [{progress: 1}], fault: disconnect}
      - text: fine
requests:
  - {method: prompts/list, times: 1, status: 500}
  - {method: tools/call, name: other, error: {code: -32001, message: other}}
`

// post sends a tools/call to a handler, and returns the response.
func post(t *testing.T, url string, revision mcp.Revision, how, accept string) (*http.Response, string, error) {
	t.Helper()
	params, extra := "", map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "fail"}
	if revision.Modern() {
		params = `,"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"` + string(revision) +
			`","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{}}`
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fail",`+
		`"arguments":{"how":%q}%s}}`, how, params)
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body)))(t)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	req.Header.Set("Mcp-Protocol-Version", string(revision))
	for name, value := range extra {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

func serve(t *testing.T, m *Mock) string {
	t.Helper()
	s := httptest.NewServer(m.Handler(m.Server()))
	s.Config.ErrorLog = nil
	t.Cleanup(func() { s.Close(); _ = m.Server().Shutdown(t.Context()) })
	return s.URL
}

func TestFaultsOfHTTPResponses(t *testing.T) {
	url := serve(t, yamlMock(t, faulty))
	for _, accept := range []string{"application/json, text/event-stream", "application/json"} {
		if resp, text, err := post(t, url, mcp.V20260728, "disconnect", accept); err == nil || resp != nil {
			t.Errorf("disconnect: got %+v %s", resp, text)
		}
		if resp, text, err := post(t, url, mcp.V20260728, "truncate", accept); err == nil || resp == nil ||
			!strings.Contains(text, `{"jsonrpc":"2.0"`) || strings.HasSuffix(strings.TrimSpace(text), "}") {
			t.Errorf("truncate: got %s, %v", text, err)
		}
		if resp, text, err := post(t, url, mcp.V20260728, "malformed", accept); err != nil || resp.StatusCode != 200 ||
			!strings.Contains(text, invalidJSON) {
			t.Errorf("malformed: got %s, %v", text, err)
		}
		if resp, text, err := post(t, url, mcp.V20260728, "status", accept); err != nil || resp.StatusCode != 503 ||
			resp.Header.Get("Retry-After") != "2" || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("status: got %+v %s, %v", resp, text, err)
		}
		if resp, text, err := post(t, url, mcp.V20260728, "rate", accept); err != nil || resp.StatusCode != 429 ||
			resp.Header.Get("Retry-After") != "2" {
			t.Errorf("rate limit: got %+v %s, %v", resp, text, err)
		}
		if resp, text, err := post(t, url, mcp.V20260728, "invalid", accept); err != nil || resp.StatusCode != 200 ||
			!strings.Contains(text, `"content":"none"`) {
			t.Errorf("invalid result: got %+v %s, %v", resp, text, err)
		}
		if resp, text, err := post(t, url, mcp.V20260728, "none", accept); err != nil || resp.StatusCode != 200 ||
			!strings.Contains(text, "fine") {
			t.Errorf("no fault: got %+v %s, %v", resp, text, err)
		}
	}
	resp, text, err := post(t, url, mcp.V20260728, "midway", "application/json, text/event-stream")
	if err == nil || resp == nil || !strings.Contains(text, "notifications/progress") ||
		strings.Contains(text, `"id":7`) {
		t.Errorf("midway: got %s, %v", text, err)
	}
}

func TestFaultsOfSessionsOverHTTP(t *testing.T) {
	url := serve(t, yamlMock(t, faulty))
	for _, revision := range []mcp.Revision{mcp.V20250326, mcp.V20251125} {
		c := must.Get((&client.Dialer{Revision: revision}).Dial(t.Context(), client.URL(url)))(t)
		defer c.Close()
		for how, check := range map[string]func(error) bool{
			"disconnect": func(err error) bool { return errors.Is(err, call.ErrConnectionLost) },
			"truncate":   func(err error) bool { return errors.Is(err, call.ErrConnectionLost) },
			"malformed": func(err error) bool {
				return errors.Is(err, call.ErrInvalidResponse) || errors.Is(err, call.ErrConnectionLost)
			},
			"status": func(err error) bool {
				e, ok := errors.AsType[*call.OverloadError](err)
				return ok && e.RetryAfter == 2*time.Second
			},
			"rate": func(err error) bool { _, ok := errors.AsType[*call.OverloadError](err); return ok },
			"none": func(err error) bool { return err == nil },
		} {
			if _, err := c.CallTool(t.Context(), "fail", map[string]any{"how": how}); !check(err) {
				t.Errorf("%s: %s: got %v", revision, how, err)
			}
		}
	}
}

func TestFaultsOverByteStreams(t *testing.T) {
	for how, want := range map[string]string{
		"disconnect": "",
		"truncate":   `{"jsonrpc":"2.0","id":7`,
		"malformed":  invalidJSON,
		"status":     "mock: HTTP status 503",
		"rate":       "retryAfterMs",
		"none":       "fine",
	} {
		here, there := transport.Pipe()
		m := yamlMock(t, faulty)
		served := make(chan error, 1)
		go func() { served <- m.ServeConn(t.Context(), there) }()
		request := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fail",`+
			`"arguments":{"how":%q},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`, how)
		must.Do(t, here.Write(t.Context(), []byte(request)))
		message, err := here.Read(t.Context())
		if want == "" && !errors.Is(err, io.EOF) || want != "" && !strings.Contains(string(message), want) {
			t.Errorf("%s: got %s, %v", how, message, err)
		}
		if how == "disconnect" || how == "truncate" {
			if message, err := here.Read(t.Context()); !errors.Is(err, io.EOF) {
				t.Errorf("%s: the connection continues with %s, %v", how, message, err)
			}
		}
		here.Close()
		<-served
	}
}

func TestLatencyDelaysTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mcptest.Dial(t, yamlMock(t,
			faulty+"  - {method: prompts/get, latency: 3s}\nprompts: [{name: p, text: x}]\n").Server())
		start := time.Now()
		if got, err := client.CallTool[string](t.Context(), c, "fail", map[string]any{"how": "late"},
			client.WithTimeout(time.Hour)); err != nil || got != "late" {
			t.Errorf("got %q, %v", got, err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("took %v", took)
		}
		start = time.Now()
		if _, err := c.GetPrompt(t.Context(), "p", nil); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("the latency of a request: %v, %v", time.Since(start), err)
		}
		start = time.Now()
		if _, err := c.CallTool(t.Context(), "fail", map[string]any{"how": "silence"},
			client.WithTimeout(time.Hour)); err == nil {
			t.Error("there is a response")
		}
		if took := time.Since(start); took != maxSilence {
			t.Errorf("silence took %v", took)
		}
	})
}

const jobs = `
tools:
  - name: job
    task: required
    inputSchema: {type: object, properties: {how: {type: string}}}
    responses:
      - {when: {how: silence}, fault: no-response}
      - {when: {how: disconnect}, fault: disconnect}
`

func TestATaskWithoutAResponseContinuesUntilItIsCancelled(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		synctest.Test(t, func(t *testing.T) {
			c := mcptest.Dial(t, yamlMock(t, jobs).Server(), mcptest.WithRevision(revision))
			task := must.Get(c.StartTool(t.Context(), "job", map[string]any{"how": "silence"}))(t)
			time.Sleep(maxSilence - time.Second)
			if state, err := task.Get(t.Context()); err != nil || state.Status != mcp.TaskWorking {
				t.Errorf("%s: got %+v, %v", revision, state, err)
			}
			if err := task.Cancel(t.Context()); err != nil {
				t.Errorf("%s: %v", revision, err)
			}
			if state, err := task.Get(t.Context()); err != nil || state.Status != mcp.TaskCancelled {
				t.Errorf("%s: after the cancellation, got %+v, %v", revision, state, err)
			}
		})
	}
}

func TestATaskCannotEndWithAFaultOfTheConnection(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		c := mcptest.Dial(t, yamlMock(t, jobs).Server(), mcptest.WithRevision(revision))
		if _, err := c.CallTool(t.Context(), "job", map[string]any{"how": "disconnect"}); err == nil ||
			!strings.Contains(err.Error(), "mock: a task can end with a result, an error or no response only") {
			t.Errorf("%s: got %v", revision, err)
		}
	}
}

func TestRulesOfRequestsComeFirst(t *testing.T) {
	url := serve(t, yamlMock(t, faulty+"prompts: [{name: p, text: x}]\n"))
	c := must.Get(client.Dial(t.Context(), client.URL(url)))(t)
	defer c.Close()
	prompts := func() (n int, err error) {
		for _, err := range c.Prompts(t.Context()) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	var status *call.StatusError
	if _, err := prompts(); !errors.As(err, &status) || status.Status != 500 {
		t.Errorf("the first list: %v", err)
	}
	if n, err := prompts(); err != nil || n != 1 {
		t.Errorf("the second list: %d, %v", n, err)
	}
	if _, err := c.CallTool(t.Context(), "other", nil); err == nil ||
		!strings.Contains(err.Error(), "other (code -32001)") {
		t.Errorf("got %v", err)
	}
}

func TestRequestsOfTheServerAreNotFaulty(t *testing.T) {
	c := &faultyConn{faults: map[string]*outcome{"7": {Fault: disconnect}}}
	if c.take([]byte(`{"jsonrpc":"2.0","id":7,"method":"roots/list"}`)) != nil {
		t.Error("a request has the fault of a response")
	}
	if c.take([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}`)) == nil ||
		c.take([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}`)) != nil {
		t.Error("one response must have the fault")
	}
}

func TestTheHeaderOfAFaultIsNotThatOfTheResponse(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(wireKey{}).(wire).spoil("", &outcome{Status: 503})
		w.Header().Set("Mcp-Session-Id", "x")
		w.Header().Set("Content-Length", "2")
		_, _ = w.Write([]byte("{}"))
	})
	w := httptest.NewRecorder()
	new(Mock).Handler(next).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != 503 || w.Header().Get("Mcp-Session-Id") != "" || w.Header().Get("Content-Length") != "" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
	next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(wireKey{}).(wire).spoil("", &outcome{Fault: malformed})
		w.Header().Set("Content-Length", "2")
		_, _ = w.Write([]byte("{}"))
	})
	w = httptest.NewRecorder()
	new(Mock).Handler(next).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != 200 || w.Header().Get("Content-Length") != "" || w.Body.String() != invalidJSON {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}

// A server may write notifications of a call after its handler has returned.
func TestNotificationsAreSentBeforeAFault(t *testing.T) {
	const (
		comment  = ": keep-alive\n\n"
		progress = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n"
		response = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n"
	)
	for _, test := range []struct {
		fault  outcome
		writes []string
		status int // 0 if the connection ends before the header
		body   string
		broken bool
	}{
		{outcome{Fault: disconnect}, []string{response}, 0, "", true},
		{outcome{Fault: disconnect}, []string{progress, response}, 200, progress, true},
		{outcome{Fault: disconnect}, []string{comment, progress + response}, 200, comment + progress, true},
		{outcome{Fault: truncate}, []string{progress, response}, 200,
			progress + response[:len(response)-len(response)/2], true},
		{outcome{Fault: malformed}, []string{progress, response}, 200,
			progress + strings.Replace("event: message\ndata: %s\n\n", "%s", invalidJSON, 1), false},
		{outcome{Status: 503}, []string{response}, 503, "mock: HTTP status 503\n", false},
		{outcome{Status: 503}, []string{progress, response}, 200, progress, true},
	} {
		client := httptest.NewRecorder()
		client.Code = 0
		w := &faultyWriter{ResponseWriter: client}
		w.spoil("7", &test.fault)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		for _, text := range test.writes {
			if n, err := io.WriteString(w, text); n != len(text) || err != nil {
				t.Errorf("got %d, %v", n, err)
			}
			must.Check(t, w.FlushError())
		}
		broken := w.end()
		if client.Code != test.status || client.Body.String() != test.body || broken != test.broken {
			t.Errorf("%+v of %q: status %d, body %q, broken %t", test.fault, test.writes, client.Code, client.Body,
				broken)
		}
	}
}
