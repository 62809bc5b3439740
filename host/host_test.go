package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// start starts h and closes it when the test ends.
func start(t *testing.T, h *host.Host) *host.Host {
	t.Helper()
	h.Logger = slog.New(slog.DiscardHandler)
	must.Do(t, h.Start())
	t.Cleanup(func() { h.Close() })
	return h
}

// await waits until the status of a server satisfies a condition.
func await(t *testing.T, h *host.Host, name string, condition func(host.ServerStatus) bool) host.ServerStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var last host.ServerStatus
	for s := range h.Watch(ctx) {
		if s.Name != name {
			continue
		}
		if last = s; condition(s) {
			return s
		}
	}
	t.Fatalf("the condition on server %s does not become true; it is %v (%v)", name, last.State, last.Err)
	return last
}

func isReady(s host.ServerStatus) bool { return s.State == host.Ready }
func isDown(s host.ServerStatus) bool  { return s.State == host.Down }

// who calls the tool "who" of a server.
func who(t *testing.T, h *host.Host, name string) (identity, error) {
	t.Helper()
	var id identity
	result, err := h.Client(name).CallTool(t.Context(), "who", nil)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(result.StructuredContent, &id); err != nil {
		t.Fatalf("%s: %v", result.StructuredContent, err)
	}
	return id, nil
}

func TestCallToolReachesNamedServer(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "one"), inMemory(t, "two")}})
	for _, name := range []string{"one", "two"} {
		// The first call waits until the server is ready.
		must.CheckEqual(t, must.Get(who(t, h, name))(t).Name, name)
	}
	must.CheckIs(t, must.Err(h.Client("three").CallTool(t.Context(), "who", nil)), host.ErrUnknown)
}

func TestCallFindsToolByMergedName(t *testing.T) {
	for name, want := range map[string]error{
		"two__who":   nil,
		"two__why":   host.ErrUnknown,
		"three__who": host.ErrUnknown,
		"who":        host.ErrUnknown,
	} {
		// The call comes before the servers are ready.
		h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "one"), inMemory(t, "two")}})
		result, err := h.Call(t.Context(), name, nil)
		if !errors.Is(err, want) || err == nil && !strings.Contains(string(result.StructuredContent), `"two"`) {
			t.Errorf("Call(%s): %+v, %v; want %v", name, result, err, want)
		}
	}
}

func TestToolsMergesListsOfAllServers(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{
		inMemory(t, "one"), {Name: "missing", Target: client.Command("no-such-program-anywhere")}, inMemory(t, "two"),
	}})
	err := h.WaitReady(t.Context())
	must.CheckThat(t, err != nil, "WaitReady returns nil, want the error of the missing server")
	var names []string
	for _, tool := range h.Tools() {
		names = append(names, tool.Name)
		must.CheckEqual(t, tool.Name, tool.Server+"__"+tool.Definition.Name, tool)
	}
	want := []string{"one__die", "one__who", "two__die", "two__who"}
	must.CheckThat(t, slices.Equal(names, want), "tools: %q, want %q", names, want)
}

func TestWaitReadyNamesServersThatFailed(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{
		{Name: "first", Target: client.Command("no-such-program-anywhere")},
		inMemory(t, "fine"),
		{Name: "second", Target: client.Command("no-such-program-anywhere")},
	}})
	err := h.WaitReady(t.Context())
	down := new(host.DownError)
	must.CheckThat(t, errors.As(err, &down) && down.Server == "first" && errors.Is(err, exec.ErrNotFound),
		"WaitReady: %v", err)
	text := fmt.Sprint(err)
	must.CheckThat(t, strings.Contains(text, `"first"`) && strings.Contains(text, `"second"`) &&
		!strings.Contains(text, `"fine"`), "WaitReady: %v", err)
}

func TestWaitReadyEndsWithContextAndHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host.Host{
			Servers: []host.ServerConfig{{Name: "slow", Target: client.URL("http://slow.example/mcp")}},
			Dialer:  client.Dialer{HTTPClient: &http.Client{Transport: &silent{reached: make(chan struct{})}}},
			Logger:  slog.New(slog.DiscardHandler),
		}
		must.CheckIs(t, h.WaitReady(t.Context()), call.ErrClosed)
		must.CheckIs(t, must.Err(h.Call(t.Context(), "a__b", nil)), call.ErrClosed)
		must.Do(t, h.Start())
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := h.WaitReady(ctx); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), `"slow" is still starting`) {
			t.Errorf("WaitReady with a time-out: %v", err)
		}
		waited := make(chan error, 1)
		go func() { waited <- h.WaitReady(t.Context()) }()
		synctest.Wait()
		h.Close()
		must.CheckIs(t, <-waited, call.ErrClosed)
	})
}

func TestServerThatDoesNotStartDoesNotAffectOthers(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{
		{Name: "missing", Target: client.Command("no-such-program-anywhere")},
		inMemory(t, "fine"),
	}})
	missing := await(t, h, "missing", isDown)
	must.CheckIs(t, missing.Err, exec.ErrNotFound)
	fine := await(t, h, "fine", isReady)
	must.CheckThat(t, len(fine.Tools) == 2 && fine.Revision != "" && fine.Server.Info.Name == "fine",
		"status: %+v", fine)
	must.Check(t, must.Err(who(t, h, "fine")))
	_, err := who(t, h, "missing")
	var down *host.DownError
	must.CheckThat(t, errors.As(err, &down) && down.Server == "missing" &&
		strings.Contains(err.Error(), `"missing" is down`), "CallTool of a server that is down: %v", err)
}

func TestDeadChildIsReportedAndRestarted(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inProcess("mortal"), inMemory(t, "other")}})
	before := must.Get(who(t, h, "mortal"))(t)
	var exit *transport.ExitError
	if _, err := h.Client("mortal").CallTool(t.Context(), "die", nil); !errors.Is(err, call.ErrConnectionLost) ||
		!errors.As(err, &exit) {
		t.Fatalf("the call that ends the server: %v", err)
	}
	must.Check(t, must.Err(who(t, h, "other")), "the other server")
	after, err := who(t, h, "mortal") // the call waits for the next process
	must.Do(t, err)
	must.CheckThat(t, after.Pid != before.Pid, "process %d still answers", after.Pid)
}

// silent is a network in which no request is answered.
type silent struct{ reached chan struct{} }

func (s *silent) RoundTrip(req *http.Request) (*http.Response, error) {
	close(s.reached)
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func TestCloseEndsServersThatAreStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &silent{reached: make(chan struct{})}
		h := &host.Host{
			Servers: []host.ServerConfig{{Name: "slow", Target: client.URL("http://slow.example/mcp")}},
			Dialer:  client.Dialer{HTTPClient: &http.Client{Transport: network}},
			Logger:  slog.New(slog.DiscardHandler),
		}
		must.Do(t, h.Start())
		<-network.reached
		called := make(chan error, 1)
		go func() {
			_, err := h.Client("slow").CallTool(t.Context(), "who", nil)
			called <- err
		}()
		synctest.Wait()
		begin := time.Now()
		var closing sync.WaitGroup
		for range 3 {
			closing.Go(func() { h.Close() })
		}
		closing.Wait()
		took := time.Since(begin)
		must.CheckThat(t, took <= time.Second, "Close took %v", took)
		must.CheckIs(t, <-called, call.ErrClosed)
		must.CheckIs(t, must.Err(h.Client("slow").CallTool(t.Context(), "who", nil)), call.ErrClosed)
	})
}

func TestWatchEndsWithContextAndHost(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "one")}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for s := range h.Watch(ctx) {
		if s.State == host.Ready {
			cancel()
		}
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for range h.Watch(context.Background()) {
		}
	}()
	h.Close()
	must.Receive(t, watched, "Watch")
}

func TestStartRejectsInvalidConfig(t *testing.T) {
	target := client.URL("http://127.0.0.1:1/mcp")
	for fault, servers := range map[string][]host.ServerConfig{
		"no name":                  {{Target: target}},
		"two underscores":          {{Name: "a__b", Target: target}},
		"an underscore at the end": {{Name: "a_", Target: target}},
		"a space":                  {{Name: "a b", Target: target}},
		"a name of 65 letters":     {{Name: strings.Repeat("a", 65), Target: target}},
		"the same name twice":      {{Name: "a", Target: target}, {Name: "a", Target: target}},
		"no target":                {{Name: "a"}},
	} {
		h := &host.Host{Servers: servers}
		err := h.Start()
		must.CheckThat(t, err != nil, "Start with %s returns nil", fault)
		must.Check(t, h.Close(), fault)
	}
	must.Check(t, (&host.ServerConfig{Name: strings.Repeat("aZ0-_9", 10) + "abcd"}).Check())
}

func TestHostStartsOnce(t *testing.T) {
	h := start(t, &host.Host{})
	err := h.Start()
	must.CheckThat(t, err != nil, "the second Start returns nil")
	h = &host.Host{}
	must.Check(t, h.Close())
	if err := h.Start(); err == nil {
		t.Error("Start after Close returns nil")
	}
}

func TestResourcesAndPromptsCanBeListedAndUsed(t *testing.T) {
	s := newServer("library")
	server.AddStatic(s, mcp.Resource{URI: "lib://guide", Name: "guide"}, "the guide")
	server.AddPrompt(s, mcp.Prompt{Name: "review"}, func(_ context.Context, in struct {
		Tone string `json:"tone" enum:"plain,witty"`
	}) (string, error) {
		return "a " + in.Tone + " review", nil
	})
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, s, "library")}})
	status := await(t, h, "library", isReady)
	must.CheckThat(t, len(status.Tools) == 2 && len(status.Resources) == 1 && len(status.Templates) == 0 &&
		len(status.Prompts) == 1, "status: %+v", status)
	if p := status.Prompts[0]; p.Name != "library__review" || p.Server != "library" || p.Definition.Name != "review" {
		t.Errorf("prompt: %+v", p)
	}
	resource := must.Get(h.Client("library").ReadResource(t.Context(), "lib://guide"))(t)
	must.CheckEqual(t, resource.Contents[0].Text, "the guide", resource)
	prompt := must.Get(h.Client("library").GetPrompt(t.Context(), "review", map[string]string{"tone": "plain"}))(t)
	must.CheckEqual(t, len(prompt.Messages), 1, prompt)
	completion, err := h.Client("library").Complete(t.Context(), mcp.CompleteParams{
		Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "review"},
		Argument: mcp.CompleteArgument{Name: "tone", Value: "wi"},
	})
	must.CheckThat(t, err == nil && slices.Equal(completion.Values, []string{"witty"}),
		"Complete: %+v, %v", completion, err)
}

func TestInvalidExtensionsAreRejected(t *testing.T) {
	for want, extensions := range map[string][]host.Extension{
		"jobs":                           {{ID: "jobs"}},
		"tasks are forwarded without it": {{ID: "io.modelcontextprotocol/tasks"}},
		"Settings must be a JSON object": {{ID: "com.example/a", Settings: json.RawMessage(`[]`)}},
		`must not be listed twice`:       {{ID: "com.example/a"}, {ID: "com.example/a"}},
		"method a/b must not be listed twice": {{ID: "com.example/a", Requests: []string{"a/b"}},
			{ID: "com.example/b", Requests: []string{"a/b"}}},
		"belongs to the protocol":               {{ID: "com.example/a", Requests: []string{"tools/call"}}},
		"must begin with notifications/":        {{ID: "com.example/a", Notifications: []string{"a/b"}}},
		"of no requests, must begin with notif": {{ID: "com.example/a", Requests: []string{"notifications/a"}}},
	} {
		config := inMemory(t, "s")
		config.Extensions = extensions
		must.CheckFails(t, config.Check(), want, extensions)
	}
}

// A host sends only the methods that its configuration names.
func TestMethodsMustBeConfigured(t *testing.T) {
	config := inMemory(t, "s")
	config.Extensions = []host.Extension{{ID: "com.example/a", Requests: []string{"a/b"},
		Notifications: []string{"notifications/a"}}}
	h := start(t, &host.Host{Servers: []host.ServerConfig{config}})
	must.CheckIs(t, must.Err(h.Client("s").CallExtension(t.Context(), "a/c", nil)), host.ErrUnknown)
	must.CheckIs(t, h.Client("s").NotifyExtension(t.Context(), "a/b", nil), host.ErrUnknown)
	must.Check(t, h.Client("s").NotifyExtension(t.Context(), "notifications/a", nil))
	must.CheckIs(t, must.Err(h.Client("other").CallExtension(t.Context(), "a/b", nil)), host.ErrUnknown)
}

// Only the servers that receive the roots of the program are notified when they change.
func TestServersAreNotifiedOfChangedRoots(t *testing.T) {
	notified := make(chan string, 10)
	newServer := func(name string) host.ServerConfig {
		s := &server.Server{Name: name, Middleware: wiretest.OnRootsChanged(func(context.Context) { notified <- name })}
		return configOf(t, s, name)
	}
	own := newServer("own")
	own.Roots = []mcp.Root{{URI: "file:///own"}}
	h := &host.Host{
		Servers: []host.ServerConfig{own, newServer("files")},
		Dialer: client.Dialer{Revision: mcp.V20251125, Roots: func(context.Context) ([]mcp.Root, error) {
			return []mcp.Root{{URI: "file:///work"}}, nil
		}},
	}
	start(t, h)
	must.Do(t, h.WaitReady(t.Context()))
	h.NotifyRootsChanged(t.Context())
	must.CheckEqual(t, must.Receive(t, notified, "the notification of a server"), "files")
	must.Check(t, h.Close())
	h.NotifyRootsChanged(t.Context()) // has no effect after Close
	if len(notified) > 0 {
		t.Errorf("the server %s was notified", <-notified)
	}
}

const asChild = "PARLEY_HOST_TEST_CHILD"

// The test binary is also a server to run as a child process.

func TestMain(m *testing.M) {
	if os.Getenv(asChild) == "1" {
		s := newServer("child")
		server.AddStatic(s, mcp.Resource{URI: "lib://a", Name: "a"}, "a")
		if err := s.Run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

type none struct{}

type identity struct {
	Name string `json:"name"`
	Pid  int    `json:"pid"`
}

// newServer returns a server with the tools "who", which returns its identity, and
// "die", which ends its process.
func newServer(name string) *server.Server {
	s := &server.Server{Name: name, Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "who"}, func(context.Context, none) (identity, error) {
		return identity{name, os.Getpid()}, nil
	})
	server.AddTool(s, mcp.Tool{Name: "die"}, func(context.Context, none) (string, error) {
		os.Exit(3)
		return "", nil
	})
	return s
}

// inMemory returns the config of a server in this process. It can be dialled only once.
func inMemory(t *testing.T, name string) host.ServerConfig { return configOf(t, newServer(name), name) }

// configOf returns the config of a server in this process.
func configOf(t *testing.T, s *server.Server, name string) host.ServerConfig {
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

// inProcess returns the config of a server in a child process.
func inProcess(name string) host.ServerConfig {
	p := &client.CommandTarget{}
	p.Path, p.Env = os.Args[0], []string{asChild + "=1"}
	return host.ServerConfig{Name: name, Target: p}
}
