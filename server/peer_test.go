package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

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
