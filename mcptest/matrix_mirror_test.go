package mcptest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type query struct {
	Region string  `json:"region,omitempty" mcp-header:"Region"`
	Shard  *int64  `json:"shard,omitempty" mcp-header:"Shard"`
	Dry    *bool   `json:"dry,omitempty" mcp-header:"Dry-Run"`
	Query  string  `json:"query,omitempty"`
	Weight float64 `json:"weight,omitempty"`
	Where  *struct {
		Zone string `json:"zone,omitempty" mcp-header:"Zone"`
	} `json:"where,omitempty"`
}

// mirroring returns a server with a tool whose parameters have header names.
func mirroring() *server.Server {
	s := newServer()
	server.AddTool(s, mcp.Tool{Name: "query", Description: "Queries a region."},
		func(_ context.Context, q query) (string, error) {
			raw, err := json.Marshal(q)
			return string(raw), err
		})
	return s
}

// The parameters are mirrored in HTTP headers. Other transports ignore the header names. The
// client need not have listed the tool before.
func TestParametersWithHeaderNamesWorkEverywhere(t *testing.T) {
	shard, dry := int64(-7), true
	everywhere(t, mirroring, func(t *testing.T, c *client.Client) {
		for _, q := range []query{
			{},
			{Region: "us-west1", Shard: &shard, Dry: &dry, Query: "q", Weight: 1.5},
			{Region: " Zürich\n"},
			{Region: "=?base64?literal?="},
			{Where: &struct {
				Zone string `json:"zone,omitempty" mcp-header:"Zone"`
			}{"a"}},
		} {
			want, _ := json.Marshal(q)
			must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "query", q))(t), string(want), want)
		}
	})
}

// recorder is an HTTP server that records the headers of tool calls and counts lists.
type recorder struct {
	*httptest.Server
	mu    sync.Mutex
	calls []http.Header
	lists int
}

func record(t *testing.T, s http.Handler) *recorder {
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		switch req.Header.Get("Mcp-Method") {
		case mcp.MethodCallTool:
			r.calls = append(r.calls, req.Header.Clone())
		case mcp.MethodListTools:
			r.lists++
		}
		r.mu.Unlock()
		s.ServeHTTP(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) take() (calls []http.Header, lists int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, lists = r.calls, r.lists
	r.calls, r.lists = nil, 0
	return calls, lists
}

func dialModern(t *testing.T, url string, configure ...func(*client.Dialer)) *client.Client {
	t.Helper()
	d := &client.Dialer{Revision: mcp.V20260728}
	for _, f := range configure {
		f(d)
	}
	c := must.Get(d.Dial(t.Context(), client.URL(url)))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Rule U1: values that are not valid in a header are encoded. Absent parameters and parameters
// without a header name have no header.
func TestParametersAreMirroredInHeaders(t *testing.T) {
	r := record(t, mirroring())
	c := dialModern(t, r.URL)
	for range c.Tools(t.Context()) {
	}
	for _, tt := range []struct {
		arguments string
		want      map[string]string
	}{
		{`{}`, nil},
		{`{"region":"us-west1","shard":42.0,"dry":false,"query":"secret","weight":2}`,
			map[string]string{"Region": "us-west1", "Shard": "42", "Dry-Run": "false"}},
		{`{"region":""}`, map[string]string{"Region": ""}},
		{`{"region":"a b"}`, map[string]string{"Region": "a b"}},
		{`{"region":" a"}`, map[string]string{"Region": "=?base64?IGE=?="}},
		{`{"region":"a\r\nX-Evil: 1"}`, map[string]string{"Region": "=?base64?YQ0KWC1FdmlsOiAx?="}},
		{`{"region":"ü"}`, map[string]string{"Region": "=?base64?w7w=?="}},
		{`{"where":{"zone":"z"}}`, map[string]string{"Zone": "z"}},
		{`{"where":{}}`, nil},
	} {
		result := must.Get(c.CallTool(t.Context(), "query", json.RawMessage(tt.arguments)))(t)
		must.CheckThat(t, !result.IsError, "%s: %+v", tt.arguments, result)
		calls, _ := r.take()
		must.Equal(t, len(calls), 1, tt.arguments)
		got := make(map[string]string)
		for name, values := range calls[0] {
			if param, ok := strings.CutPrefix(name, "Mcp-Param-"); ok {
				got[param] = strings.Join(values, "|")
			}
		}
		must.CheckEqual(t, fmt.Sprint(got), fmt.Sprint(tt.want), tt.arguments, got, tt.want)
		must.CheckEqual(t, calls[0].Get("X-Evil"), "", "an argument has injected a header")
	}
}

// The client lists the tools only when the server rejects a call because of missing headers.
func TestToolsAreListedWhenHeadersAreUnknown(t *testing.T) {
	s := mirroring()
	r := record(t, s)
	c := dialModern(t, r.URL)
	call := func(arguments string, wantCalls, wantLists int) {
		t.Helper()
		result := must.Get(c.CallTool(t.Context(), "query", json.RawMessage(arguments)))(t)
		must.That(t, !result.IsError, "%s: %+v", arguments, result)
		if calls, lists := r.take(); len(calls) != wantCalls || lists != wantLists {
			t.Errorf("%s: %d calls and %d lists, want %d and %d", arguments, len(calls), lists, wantCalls, wantLists)
		}
	}
	call(`{"query":"q"}`, 1, 0)
	call(`{"region":"a"}`, 2, 1)
	call(`{"region":"b"}`, 1, 0)
	s.RemoveTool("query") // register it again with another header name
	err := s.RegisterTool(mcp.Tool{Name: "query",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string",` +
			`"x-mcp-header":"Area"}}}`)},
		func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) { return &mcp.CallToolResult{}, nil })
	must.Do(t, err)
	call(`{"region":"c"}`, 2, 1)
	call(`{"region":"d"}`, 1, 0)
}

func TestHeaderMismatchIsRetriedOnce(t *testing.T) {
	s := mirroring()
	rejecting := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Mcp-Method") != mcp.MethodCallTool {
			s.ServeHTTP(w, req)
			return
		}
		body, _ := io.ReadAll(req.Body)
		m, _ := jsonrpc.Parse(body, jsonrpc.Limits{})
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(mcp.CodeHeaderMismatch, "header mismatch"), false))
	})
	r := record(t, rejecting)
	c := dialModern(t, r.URL)
	for i, want := range []int{2, 1} { // the second call does not retry, because the headers are known
		_, err := c.CallTool(t.Context(), "query", json.RawMessage(`{"region":"a"}`))
		var reported *jsonrpc.Error
		must.CheckThat(t, errors.As(err, &reported) && reported.Code == mcp.CodeHeaderMismatch, "call %d: %v", i, err)
		calls, lists := r.take()
		must.CheckThat(t, len(calls) == want && lists == 1, "call %d: %d calls, %d lists", i, len(calls), lists)
	}
}

func TestIntegersBeyond2To53AreNotMirrored(t *testing.T) {
	r := record(t, mirroring())
	c := dialModern(t, r.URL)
	for range c.Tools(t.Context()) {
	}
	_, err := c.CallTool(t.Context(), "query", json.RawMessage(`{"shard":9007199254740992}`))
	must.CheckThat(t, err != nil, "the call with 2^53 succeeds")
	calls, _ := r.take()
	must.CheckEqual(t, len(calls), 0, "the client has sent a request")
	must.Check(t, must.Err(c.CallTool(t.Context(), "query", json.RawMessage(`{"shard":9007199254740991}`))))
}

// Rule T18: the server rejects a call whose headers differ from its arguments.
func TestHeadersMustMatchArguments(t *testing.T) {
	s := mirroring()
	const absent = "\x00"
	for _, tt := range []struct {
		arguments, name, header string
		accepted                bool
	}{
		{`{"region":"Hello"}`, "Region", "Hello", true},
		{`{"region":"Hello"}`, "region", "Hello", true}, // header names are case-insensitive
		{`{"region":"Hello"}`, "Region", " Hello ", true},
		{`{"region":"Hello"}`, "Region", "hello", false},
		{`{"region":"Hello"}`, "Region", "=?base64?SGVsbG8=?=", true},
		{`{"region":"Hello"}`, "Region", "=?base64?SGVsbG8?=", false},
		{`{"region":"Hello"}`, "Region", "=?base64?SGVs!!!bG8=?=", false},
		{`{"region":"Hello"}`, "Region", "=?BASE64?SGVsbG8=?=", false},
		{`{"region":"SGVsbG8="}`, "Region", "SGVsbG8=", true},
		{`{"region":"=?base64?SGVsbG8="}`, "Region", "=?base64?SGVsbG8=", true},
		{`{"region":"Hello"}`, "Region", absent, false},
		{`{"region":"Hello"}`, "Region", "Hell\xf6", false},
		{`{"region":""}`, "Region", "", true},
		{`{}`, "Region", "Hello", false},
		{`{}`, "Region", "", false},
		{`{}`, "Other", "anything", true}, // not a parameter of the tool
		{`{"shard":42}`, "Shard", "42", true},
		{`{"shard":42}`, "Shard", "42.0", true},
		{`{"shard":42.0}`, "Shard", "42", true},
		{`{"shard":42}`, "Shard", "4.2e1", true},
		{`{"shard":42}`, "Shard", "43", false},
		{`{"shard":42}`, "Shard", "0x2a", false},
		{`{"shard":42}`, "Shard", "+42", false},
		{`{"shard":42}`, "Shard", "1e999999999", false},
		{`{"shard":42}`, "Shard", "", false},
		{`{"shard":9007199254740993}`, "Shard", "9007199254740992", false},
		{`{"dry":true}`, "Dry-Run", "true", true},
		{`{"dry":true}`, "Dry-Run", "True", false},
		{`{"dry":true}`, "Dry-Run", "1", false},
		{`{"where":{"zone":"a"}}`, "Zone", "a", true},
		{`{"where":{"zone":"a"}}`, "Zone", "b", false},
		{`{"zone":"a"}`, "Zone", "a", false}, // the parameter is where.zone
	} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query","arguments":` + tt.arguments +
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`
		req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", bytes.NewReader([]byte(body)))
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Mcp-Protocol-Version": "2026-07-28",
			"Mcp-Method": "tools/call", "Mcp-Name": "query",
		} {
			req.Header.Set(name, value)
		}
		if tt.header != absent {
			req.Header.Set("Mcp-Param-"+tt.name, tt.header)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		rejected := w.Code == http.StatusBadRequest && strings.Contains(w.Body.String(), `"code":-32020`)
		if tt.accepted != !rejected || tt.accepted && (w.Code != http.StatusOK ||
			strings.Contains(w.Body.String(), `"error"`)) {
			t.Errorf("%s with %s: %q: status %d, %s", tt.arguments, tt.name, tt.header, w.Code, w.Body)
		}
	}
	// A header must not occur twice.
	req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query",`+
			`"arguments":{"region":"a"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`))
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"},
		"Mcp-Name":         {"query"},
		"Mcp-Param-Region": {"a", "a"},
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	must.CheckEqual(t, w.Code, http.StatusBadRequest, "a duplicate header: status")
}

// invalidHeaderNames are schemas with an invalid x-mcp-header. Package schema tests all kinds.
var invalidHeaderNames = map[string]string{
	"space":        `{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"a b"}}}`,
	"number":       `{"type":"object","properties":{"r":{"type":"number","x-mcp-header":"R"}}}`,
	"within-items": `{"type":"object","properties":{"r":{"type":"array","items":{"type":"string","x-mcp-header":"R"}}}}`,
}

// Rule U2.
func TestServerRejectsToolsWithInvalidHeaderNames(t *testing.T) {
	for name, input := range invalidHeaderNames {
		s := newServer()
		err := s.RegisterTool(mcp.Tool{Name: name, InputSchema: json.RawMessage(input)},
			func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) { return &mcp.CallToolResult{}, nil })
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), "x-mcp-header"), "%s: %v", name, err)
	}
}

// Rule U2.
func TestClientOmitsToolsWithInvalidHeaderNames(t *testing.T) {
	tools := []string{`{"name":"valid_tool","inputSchema":{"type":"object","properties":{"r":{"type":"string",` +
		`"x-mcp-header":"R"}}}}`}
	for name, input := range invalidHeaderNames {
		tools = append(tools, `{"name":"`+name+`","inputSchema":`+input+`}`)
	}
	list := `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` + strings.Join(tools, ",") + `]}`
	s := newServer()
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Mcp-Method") != mcp.MethodListTools {
			s.ServeHTTP(w, req)
			return
		}
		body, _ := io.ReadAll(req.Body)
		m, _ := jsonrpc.Parse(body, jsonrpc.Limits{})
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(list)))
	}))
	defer foreign.Close()
	var log bytes.Buffer
	c := dialModern(t, foreign.URL, func(d *client.Dialer) { d.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	var names []string
	for tool, err := range c.Tools(t.Context()) {
		must.Do(t, err)
		names = append(names, tool.Name)
	}
	must.CheckEqual(t, fmt.Sprint(names), "[valid_tool]", names)
	for name := range invalidHeaderNames {
		must.CheckContains(t, log.String(), "tool="+name+" ", "the log does not contain", name)
	}
}
