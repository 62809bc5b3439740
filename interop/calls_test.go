//go:build integration

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// offerCalls adds tools for cancellation and logging, and the method of an extension.
func offerCalls(s *server.Server) {
	var cancelled atomic.Int64
	server.AddTool(s, mcp.Tool{Name: "wait", Description: "Wait to be cancelled"},
		func(ctx context.Context, _ struct{}) (string, error) {
			if err := server.Progress(ctx, 1, 0, ""); err != nil {
				return "", err
			}
			<-ctx.Done()
			cancelled.Add(1)
			return "", ctx.Err()
		})
	server.AddTool(s, mcp.Tool{Name: "cancelled", Description: "The number of cancelled calls of wait"},
		func(context.Context, struct{}) (string, error) {
			return fmt.Sprint(cancelled.Load()), nil
		})
	server.AddTool(s, mcp.Tool{Name: "talk", Description: "Log at four levels"},
		func(ctx context.Context, _ struct{}) (string, error) {
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
				server.Logger(ctx).WithGroup("interop").Log(ctx, level, "this is "+level.String())
			}
			return "logged", nil
		})
	server.AddExtension(s, server.Extension{ID: shouting,
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){
			shoutMethod: func(_ context.Context, params json.RawMessage) (any, error) {
				var in struct{ Text string }
				if err := json.Unmarshal(params, &in); err != nil {
					return nil, err
				}
				return map[string]string{"shouted": strings.ToUpper(in.Text)}, nil
			},
		}})
}

// useCalls cancels a call, calls tools that log and ping, and calls the method of an extension.
func useCalls(t *testing.T, p *peer) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := p.CallTool(ctx, "wait", nil, client.WithProgress(func(float64, float64, string) { cancel() }))
	must.CheckThat(t, errors.Is(err, context.Canceled), "a cancelled call: %v", err)
	for text := ""; text != "1"; { // until the cancellation has arrived
		text, err = client.CallTool[string](t.Context(), p.Client, "cancelled", nil)
		must.Do(t, err, "cancelled", text)
	}

	must.Do(t, p.SetLogLevel(t.Context(), mcp.LevelWarning))
	must.Do(t, must.Err(p.CallTool(t.Context(), "talk", nil)))
	for _, want := range []mcp.LoggingLevel{mcp.LevelWarning, mcp.LevelError} {
		if got := must.Receive(t, p.logged, "the log message"); got.Level != want || got.Logger != "interop" || !json.Valid(got.Data) {
			t.Errorf("logged %+v, want a message at level %s", got, want)
		}
	}

	if p.Revision() < mcp.V20260728 { // 2026-07-28 has no pings
		text, err := client.CallTool[string](t.Context(), p.Client, "ping", nil)
		must.CheckThat(t, err == nil && text == "pong", "ping by the server: %q, %v", text, err)
	}

	result, err := p.CallExtension(t.Context(), shoutMethod, map[string]string{"text": "hey"})
	shouted, _ := jsonrpc.Get(result, "shouted")
	must.CheckThat(t, err == nil && string(shouted) == `"HEY"`, "a method of an extension: %s, %v", result, err)
}

// The extension "shouting" has one method.
const (
	shouting    = "com.example/shouting"
	shoutMethod = "com.example/shout"
)

// loggedMessage is a log message that a client peer received.
type loggedMessage struct {
	Level, Logger string
	Data          json.RawMessage
}

// callsObservation is what a client peer reports about cancellation, logging, pings and the extension.
type callsObservation struct {
	Error     *observedError
	Wait      callObservation
	Cancelled callObservation
	Logs      []loggedMessage
	Ping      *struct{ Error *observedError }
	Shout     *struct { // nil through a gateway, which does not forward it
		Shouted string
		Error   *observedError
	}
}

func (o callsObservation) check(t *testing.T, revision string) {
	t.Helper()
	must.That(t, o.Error == nil, "calls: %+v", o.Error)
	if o.Wait.Error == nil || o.Cancelled.text() != "1" {
		t.Errorf("a cancelled call: %+v; cancelled calls at the server: %q, want 1", o.Wait, o.Cancelled.text())
	}
	var levels []string
	for _, log := range o.Logs {
		levels = append(levels, log.Level)
	}
	must.CheckThat(t, slices.Equal(levels, []string{"warning", "error"}),
		"logged: %+v, want a warning and an error", o.Logs)
	must.CheckThat(t, revision >= "2026-07-28" || o.Ping != nil && o.Ping.Error == nil, "ping: %+v", o.Ping)
	must.CheckThat(t, o.Shout == nil || o.Shout.Shouted == "HEY", "a method of an extension: %+v", o.Shout)
}

// Node closes connections that are idle for five seconds, and a Go server may do the same without an announcement.
// Calls that clients send around that time arrive.
func TestNoCallIsLostWhenServersCloseIdleConnections(t *testing.T) {
	t.Parallel()
	ours := httptest.NewUnstartedServer(newServer())
	ours.Config.IdleTimeout = 5 * time.Second
	ours.Start()
	defer ours.Close()
	urls := []string{listen(t, node(t, "v1-server.mjs", "http", "0")), ours.URL}
	var calls sync.WaitGroup
	for i := range 40 {
		c := dial(t, new(client.Dialer), client.URL(urls[i%2]))
		calls.Go(func() {
			<-time.After(4900*time.Millisecond + time.Duration(i)*5*time.Millisecond)
			_, err := client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "a"})
			must.CheckThat(t, err == nil, "client %d: %v", i, err)
		})
	}
	calls.Wait()
}

// offerChanges adds a tool that changes the server, and a tool that returns the number of notifications about roots.
func offerChanges(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "change", Description: "Change the server"}, func(_ context.Context, in struct {
		What string  `json:"what" enum:"tools,prompts,resources,resource"`
		URI  *string `json:"uri"`
	}) (string, error) {
		empty := func(context.Context, struct{}) (string, error) { return "", nil }
		switch in.What {
		case "tools":
			server.AddTool(s, mcp.Tool{Name: "temporary"}, empty)
			s.RemoveTool("temporary")
		case "prompts":
			server.AddPrompt(s, mcp.Prompt{Name: "temporary"}, empty)
			s.RemovePrompt("temporary")
		case "resources":
			server.AddStatic(s, mcp.Resource{URI: "test://temporary", Name: "temporary"}, "")
			s.RemoveResource("test://temporary")
		case "resource":
			s.ResourceUpdated(*in.URI)
		}
		return "changed", nil
	})
	var rootsChanged atomic.Int64
	s.Middleware = append(s.Middleware, wiretest.OnRootsChanged(func(context.Context) { rootsChanged.Add(1) })...)
	server.AddTool(s, mcp.Tool{Name: "roots_changed", Description: "The number of changes of roots"},
		func(context.Context, struct{}) (string, error) { return fmt.Sprint(rootsChanged.Load()), nil })
}

// useChanges watches a server, in sessions and by subscriptions/listen, and notifies it that the roots have changed.
func useChanges(t *testing.T, p *peer) {
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan client.Change, 16)
	watched := make(chan error, 1)
	go func() {
		for change, err := range p.Watch(ctx, client.WatchFilter{Tools: true, Prompts: true, Resources: true,
			URIs: []string{"test://watched"}}) {
			if err != nil {
				watched <- err
				return
			}
			changes <- change
		}
		watched <- nil
	}()
	for range 4 { // one of each kind at the start
		change := must.Receive(t, changes, "the change")
		must.CheckThat(t, change.Resync, "first change: %+v, want Resync", change)
	}
	for what, want := range map[string]client.Change{
		"tools":     {Kind: client.ToolsChanged},
		"prompts":   {Kind: client.PromptsChanged},
		"resources": {Kind: client.ResourcesChanged},
		"resource":  {Kind: client.ResourceUpdated, URI: "test://watched"},
	} {
		arguments := map[string]string{"what": what}
		if want.URI != "" {
			arguments["uri"] = want.URI
		}
		must.Do(t, must.Err(p.CallTool(t.Context(), "change", arguments)))
		got := must.Receive(t, changes, "the change")
		must.CheckThat(t, got == want, "change of %s: %+v, want %+v", what, got, want)
	}
	cancel()
	err := must.Receive(t, watched, "Watch")
	must.CheckThat(t, err == nil, "Watch ended with %v", err)

	must.Do(t, p.NotifyRootsChanged(t.Context()))
	if p.Revision() < mcp.V20260728 { // 2026-07-28 has no such notification
		for text := ""; text != "1"; {
			var err error
			text, err = client.CallTool[string](t.Context(), p.Client, "roots_changed", nil)
			must.Do(t, err, "roots_changed", text)
		}
	}
}

// changesObservation is the change notifications that a client peer received.
type changesObservation struct {
	Error   *observedError
	Changes []struct{ Method, URI string }
	Honored *struct {
		ToolsListChanged, PromptsListChanged, ResourcesListChanged bool
		ResourceSubscriptions                                      []string
	}
	Closed       string
	RootsChanged callObservation
}

func (o changesObservation) check(t *testing.T, revision string) {
	t.Helper()
	must.That(t, o.Error == nil, "changes: %+v", o.Error)
	// A temporary tool causes one or two notifications.
	var methods []string
	for _, change := range o.Changes {
		methods = append(methods, change.Method)
	}
	if methods = slices.Compact(methods); !slices.Equal(methods, []string{
		"notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated",
	}) || o.Changes[len(o.Changes)-1].URI != "test://watched" {
		t.Errorf("changes: %+v", o.Changes)
	}
	if revision >= "2026-07-28" {
		h := o.Honored
		must.CheckThat(t, h != nil && h.ToolsListChanged && h.PromptsListChanged && h.ResourcesListChanged &&
			len(h.ResourceSubscriptions) == 1, "subscriptions: %+v", h)
	} else if o.RootsChanged.text() != "1" {
		t.Errorf("the server received %q changes of roots, want 1", o.RootsChanged.text())
	}
}

// useCache makes requests twice whose results are fresh for a minute (2026-07-28, server/utilities/caching).
func useCache(t *testing.T, p *peer) {
	list := func(options ...client.CallOption) {
		for _, err := range p.Tools(t.Context(), options...) {
			must.Do(t, err)
		}
	}
	read := func(options ...client.CallOption) {
		must.Do(t, must.Err(p.ReadResource(t.Context(), "test://watched", options...)))
	}
	again := 0 // how many second requests are sent
	if p.Revision() < mcp.V20260728 {
		again = 1
	}
	for method, request := range map[string]func(...client.CallOption){"tools/list": list, "resources/read": read} {
		request(client.WithRefresh())
		before := p.sent(method)
		request()
		sent := p.sent(method) - before
		must.CheckThat(t, sent == again, "%s: %d second requests, want %d", method, sent, again)
		request(client.WithRefresh())
		sent = p.sent(method) - before
		must.CheckThat(t, sent == again+1, "%s: %d requests with a refresh, want %d", method, sent, again+1)
	}
}

// cacheObservation is the number of second requests of a client peer.
type cacheObservation struct {
	Error         *observedError
	Prompts, Read int
}

func (o cacheObservation) check(t *testing.T, revision string) {
	t.Helper()
	want := cacheObservation{Prompts: 1, Read: 1}
	if revision >= "2026-07-28" {
		want = cacheObservation{}
	}
	must.CheckEqual(t, o, want, "second requests")
}

// The official client of the tasks extension calls a tool that runs as a task and asks a question, and listens to the
// task.
func TestTasksOfOurServerWithTheClientOfTheExtension(t *testing.T) {
	s := &server.Server{Name: "tasks", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "job", Description: "Greet as a task"},
		func(ctx context.Context, _ struct{}) (string, error) {
			who, err := server.Elicit[struct {
				Name string `json:"name"`
			}](ctx, "Who are you?")
			return "Hello, " + who.Name, err
		}, server.AsTask(server.TaskOptions{TTL: time.Hour, PollInterval: 100 * time.Millisecond}))
	endpoint := httptest.NewServer(s)
	defer endpoint.Close()
	defer func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // the task of a client that has failed waits for an answer
		_ = s.Shutdown(ctx)
	}()
	type result struct {
		ResultType string
		Content    []struct{ Text string }
	}
	var seen struct {
		Kind             string
		Questions        []string
		Result, Notified result
	}
	run(t, node(t, "tasks-client.mjs", "http", endpoint.URL), &seen)
	must.CheckThat(t, seen.Kind == "task" && slices.Equal(seen.Questions, []string{"Who are you?"}), "%+v", seen)
	for _, got := range []result{seen.Result, seen.Notified} {
		must.CheckThat(t, got.ResultType == "complete" && len(got.Content) == 1 && got.Content[0].Text == "Hello, Ada",
			"%+v", got)
	}
}
