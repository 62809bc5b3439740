package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/transport"
)

var quiet = slog.New(slog.DiscardHandler)

// inMemory returns the config of a server in this process.
func inMemory(t *testing.T, name string, s *server.Server) host.ServerConfig {
	s.Logger = quiet
	near, far := transport.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.ServeConn(context.Background(), far)
	}()
	t.Cleanup(func() {
		far.Close()
		<-done
	})
	return host.ServerConfig{Name: name, Target: client.Conn(near)}
}

// gatewayTo returns the server of a gateway to servers that are all ready.
func gatewayTo(t *testing.T, servers ...host.ServerConfig) *server.Server {
	t.Helper()
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, &host.Host{Servers: servers}, s)
	return s
}

func listed(t *testing.T, c *client.Client) []*mcp.Tool {
	t.Helper()
	var tools []*mcp.Tool
	for tool, err := range c.Tools(t.Context()) {
		must.Do(t, err)
		tools = append(tools, tool)
	}
	return tools
}

type none struct{}

// answering returns a server with one tool, answer, which returns text.
func answering(text string) *server.Server {
	s := &server.Server{Name: text}
	server.AddTool(s, mcp.Tool{Name: "answer", Description: "answers " + text},
		func(context.Context, none) (string, error) { return text, nil })
	return s
}

func TestToolsHaveNamesOfTheirServersAsPrefix(t *testing.T) {
	one, two := answering("one"), answering("two")
	mcptest.Everywhere(t, func() *server.Server {
		return gatewayTo(t, inMemory(t, "first", one), inMemory(t, "second", two))
	}, func(t *testing.T, c *client.Client) {
		var names []string
		for _, tool := range listed(t, c) {
			names = append(names, tool.Name)
		}
		want := []string{"first__answer", "second__answer"}
		must.CheckThat(t, slices.Equal(names, want), "tools are %v, want %v", names, want)
		for name, want := range map[string]string{"first__answer": "one", "second__answer": "two"} {
			must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, name, nil))(t), want, name)
		}
	})
}

// The status of a task shows its progress, even for a client that has not asked for notifications.
func TestProgressOfATaskIsForwardedInItsStatus(t *testing.T) {
	up, seen := &server.Server{Name: "up", Logger: quiet}, make(chan struct{})
	server.AddTool(up, mcp.Tool{Name: "bake"}, func(ctx context.Context, _ none) (string, error) {
		err := server.Progress(ctx, 1, 2, "baking")
		<-seen
		return "baked", err
	}, server.AsTask(server.TaskOptions{PollInterval: 100 * time.Millisecond}))
	c := mcptest.Dial(t, gatewayTo(t, inMemory(t, "up", up)))
	task := must.Get(c.StartTool(t.Context(), "up__bake", nil))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for message := ""; message != "baking"; <-poll.C {
		state, err := task.Get(ctx)
		if err != nil {
			t.Errorf("the message is %q, %v", message, err)
			break
		}
		message = state.StatusMessage
	}
	close(seen)
	result := must.Get(task.Wait(t.Context()))(t)
	must.CheckThat(t, !result.IsError, "%+v", result)
}

func TestErrorsNameTheServer(t *testing.T) {
	upstream := &server.Server{}
	fail := func(name string, err error) {
		server.AddTool(upstream, mcp.Tool{Name: name}, func(context.Context, none) (string, error) { return "", err })
	}
	fail("ordinary", errors.New("out of paper"))
	fail("arguments", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "which one?",
		Data: json.RawMessage(`{"k":1}`)})
	fail("other", &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "broken"})
	c := mcptest.Dial(t, gatewayTo(t, inMemory(t, "up", upstream)))

	_, err := client.CallTool[string](t.Context(), c, "up__ordinary", nil)
	must.CheckThat(t, err != nil && strings.HasSuffix(err.Error(), ": out of paper"), "tool error: %v", err)
	var reported *jsonrpc.Error
	_, err = c.CallTool(t.Context(), "up__arguments", nil)
	must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidParams &&
		string(reported.Data) == `{"k":1}`, "invalid params: %v", err)
	var failed *client.ToolError
	_, err = client.CallTool[string](t.Context(), c, "up__other", nil)
	must.CheckThat(t, errors.As(err, &failed) && strings.Contains(err.Error(), `server "up" returned an error: broken`),
		"protocol error: %v", err)
	_, err = c.CallTool(t.Context(), "up__absent", nil)
	must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidParams, "unknown tool: %v", err)
}

// A server whose tools change 1,000 times per second is listed at most every 250 ms. The client of the gateway
// receives two notifications for each list: at the first change, and for the others 50 ms later.
func TestFrequentChangesOfAServerAreCoalesced(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		t.Run(string(r), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { coalesced(t, r) }) })
	}
}

func coalesced(t *testing.T, r mcp.Revision) {
	ctx, cancel := context.WithCancel(t.Context())
	serve := func(s *server.Server) transport.Conn {
		near, far := transport.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.ServeConn(context.Background(), far)
		}()
		t.Cleanup(func() {
			far.Close()
			<-done
		})
		return near
	}
	up := answering("up")
	up.Logger = quiet
	var requests, notifications atomic.Int32
	h := &host.Host{
		Servers: []host.ServerConfig{{Name: "up", Target: client.Conn(serve(up))}}, Logger: quiet,
		Dialer: client.Dialer{Revision: r, Trace: func(sent bool, message []byte) {
			if sent && strings.Contains(string(message), `"tools/list"`) {
				requests.Add(1)
			}
		}},
	}
	s := &server.Server{Name: "gateway", Version: "1", Logger: quiet}
	g := must.Get(gateway.New(h, s))(t)
	g.Logger = quiet
	must.Do(t, h.Start())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		g.Run(ctx)
	}()
	dialer := client.Dialer{Revision: r, Logger: quiet, Trace: func(sent bool, message []byte) {
		if !sent && strings.Contains(string(message), `"notifications/tools/list_changed"`) {
			notifications.Add(1)
		}
	}}
	c := must.Get(dialer.Dial(ctx, client.Conn(serve(s))))(t)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		}
	}()
	time.Sleep(10 * time.Second)
	requests.Store(0)
	notifications.Store(0)
	for i := range 2000 {
		server.AddTool(up, mcp.Tool{Name: fmt.Sprint("tool", i)},
			func(context.Context, none) (string, error) { return "", nil })
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Second)
	must.CheckEqual(t, len(h.Tools()), 2001)
	n := 0
	for _, err := range c.Tools(ctx, client.WithRefresh()) {
		must.Do(t, err)
		n++
	}
	must.CheckEqual(t, n, 2001)
	// A list of more than 1,000 tools needs one request for each page.
	if sent, limit := requests.Load(), int32(3*10); sent == 0 || sent > limit {
		t.Errorf("%d requests for 2,000 changes in two seconds, want at most %d", sent, limit)
	}
	if received := notifications.Load(); received == 0 || received > 2*10 {
		t.Errorf("%d notifications for 2,000 changes in two seconds, want at most 20", received)
	}
	t.Logf("%s: 2,000 changes: %d requests, %d notifications", r, requests.Load(), notifications.Load())
	cancel()
	<-watched
	<-ran
	c.Close()
	h.Close()
}

// Hosts such as the TypeScript and Python SDKs reject a whole list with a boolean subschema. Review, on which the
// lock file relies, sees what the server sends.
func TestToolsWithBooleanSubschemasAreListedWithObjects(t *testing.T) {
	const schema = `{"type":"object","properties":{"any":true,"none":false,"rest":{"items":true}},` +
		`"additionalProperties":false}`
	up := upstream{
		mcp.MethodListTools: `{"tools":[{"name":"t","inputSchema":` + schema + `,"outputSchema":` + schema + `}]}`,
		mcp.MethodCallTool:  `{"content":[{"type":"text","text":"done"}],"structuredContent":{"any":1}}`,
	}
	var reviewed atomic.Value
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{up.start(t, "up")}, Review: func(d host.Definition) error {
		if d.Kind == "tool" {
			reviewed.Store(string(d.JSON))
		}
		return nil
	}}, s)
	for _, r := range mcp.Revisions() {
		c := mcptest.Dial(t, s, mcptest.WithRevision(r))
		tools := listed(t, c)
		const want = `{"type":"object","properties":{"any":{},"none":{"not":{}},"rest":{"items":{}}},` +
			`"additionalProperties":false}`
		must.CheckEqual(t, string(tools[0].InputSchema), want, r)
		if r >= mcp.V20250618 {
			must.CheckEqual(t, string(tools[0].OutputSchema), want, r)
		}
		must.Check(t, must.Err(c.CallTool(t.Context(), "up__t", map[string]any{"any": 1})), r)
	}
	must.CheckContains(t, reviewed.Load().(string), `"any":true`, "the definition to review")
}

// Every feature works between a client of each revision and a server of each revision, over HTTP.
func TestEveryRevisionReachesEveryRevision(t *testing.T) {
	t.Parallel()
	for _, theirs := range mcp.Revisions() {
		bus := store.NewMemory()
		s := &server.Server{Name: "gateway"}
		h := &host.Host{Servers: []host.ServerConfig{matrixServer(t, theirs, bus)},
			Dialer: client.Dialer{Revision: theirs}}
		gatewaytest.Run(t, h, s, gatewaytest.OfLocalUser)
		gatewaytest.RunMatrix(t, wiretest.Serve(t, s), "up", theirs, bus)
	}
}

// matrixServer returns the config of a server with all features.
func matrixServer(t *testing.T, r mcp.Revision, bus store.Bus) host.ServerConfig {
	up := gatewaytest.NewServer(r, bus)
	stop := must.Get(up.Start(context.Background()))(t)
	t.Cleanup(stop)
	return httpConfig(t, "up", &up.Server)
}

// asksOf returns the prefix of the questions of a server to the user.
func asksOf(name string) string { return "The server \"" + name + "\" asks:\n\n> " }

// upstream is a server that answers requests with results as they are, by method. A text that begins with "error " is
// an error. In a result, <uri> stands for the URI of the request. The revision is 2025-11-25, unless at changes it.
type upstream map[string]string

// start serves until the test ends.
func (u upstream) start(t *testing.T, name string) host.ServerConfig {
	near, far := transport.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			raw, err := far.Read(context.Background())
			if err != nil {
				return
			}
			m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
			if err != nil || m.Kind != jsonrpc.Request {
				continue
			}
			if err := far.Write(context.Background(), u.answer(&m)); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		far.Close()
		<-done
	})
	return host.ServerConfig{Name: name, Target: client.Conn(near)}
}

// startHTTP serves JSON over HTTP until the test ends.
func (u upstream) startHTTP(t *testing.T, name string) host.ServerConfig {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
		if err != nil || m.Kind != jsonrpc.Request {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(u.answer(&m))
	}))
	t.Cleanup(s.Close)
	return host.ServerConfig{Name: name, Target: client.URL(s.URL)}
}

func (u upstream) answer(m *jsonrpc.Message) []byte {
	result, ok := u[m.Method]
	if !ok && m.Method == mcp.MethodInitialize {
		result, ok = initialized(mcp.V20251125), true
	}
	if !ok {
		return jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "no %s", m.Method), false)
	}
	if text, failed := strings.CutPrefix(result, "error "); failed {
		var e jsonrpc.Error
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			panic(err)
		}
		return jsonrpc.AppendError(nil, m.ID, &e, false)
	}
	uri, _ := m.Params.Get("uri")
	return jsonrpc.AppendResult(nil, m.ID, []byte(strings.ReplaceAll(result, "<uri>", jsonrpc.Unquote(uri))))
}

const offered = `"capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}}`

func initialized(r mcp.Revision) string {
	return `{"protocolVersion":"` + string(r) + `",` + offered + `,"serverInfo":{"name":"up","version":"1"}}`
}

// at returns a copy of u in another revision.
func (u upstream) at(r mcp.Revision) upstream {
	u = maps.Clone(u)
	if r.Modern() {
		u[mcp.MethodDiscover] = `{"resultType":"complete","supportedVersions":["` + string(r) + `"],` + offered +
			`,"ttlMs":0,"cacheScope":"private"}`
	} else {
		u[mcp.MethodInitialize] = initialized(r)
	}
	return u
}

func TestMain(m *testing.M) {
	if address := os.Getenv(relayAddress); address != "" {
		os.Exit(relay(address))
	}
	goleak.VerifyTestMain(m)
}
