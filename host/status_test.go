package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// When a second server claims a name, the name is withheld from the first server at the same moment.
func TestStatusesAreOfOneMoment(t *testing.T) {
	a, b := inMemory(t, "a"), inMemory(t, "b")
	a.NoPrefix, b.NoPrefix = true, true
	h := start(t, &host.Host{Servers: []host.ServerConfig{a, b}})
	must.Do(t, h.WaitReady(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2000 {
			b.Prefix, b.NoPrefix = [2]string{"b", ""}[i%2], i%2 == 1
			must.Check(t, h.SetServers([]host.ServerConfig{a, b}))
		}
	}()
	for {
		all := h.Status()
		first := slices.ContainsFunc(all[0].Tools, func(tool host.Tool) bool { return tool.Name == "who" })
		if withPrefix := !all[1].Config.NoPrefix; first != withPrefix {
			t.Errorf("the server a has the name: %t, the server b has another: %t", first, withPrefix)
			<-done
			return
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestServerThatRequiresALoginHasAStateOfItsOwn(t *testing.T) {
	var loggedIn atomic.Bool
	s := newServer("private")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loggedIn.Load() {
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	h := start(t, &host.Host{Servers: []host.ServerConfig{{Name: "private", Target: client.URL(web.URL)}}})
	status := await(t, h, "private", func(s host.ServerStatus) bool { return s.State != host.Starting })
	must.CheckThat(t, status.State == host.NeedsLogin && status.State.String() == "needs login" &&
		status.State != host.Ready && status.Err != nil, "%v: %v", status.State, status.Err)
	down := new(host.DownError)
	must.CheckThat(t, errors.As(h.WaitReady(t.Context()), &down), "WaitReady returns no *DownError")
	loggedIn.Store(true)
	await(t, h, "private", isReady) // without a call
}

func TestServerIsReadyWhileAListCannotBeUpdated(t *testing.T) {
	var broken atomic.Bool
	s := newServer("flaky")
	s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.MethodListTools && broken.Load() {
				return nil, errors.New("out of order")
			}
			return next(ctx, c)
		}
	}}
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, s, "flaky")}})
	await(t, h, "flaky", isReady)
	add := func(name string) {
		server.AddTool(s, mcp.Tool{Name: name}, func(context.Context, none) (string, error) { return "", nil })
	}
	broken.Store(true)
	add("late")
	status := await(t, h, "flaky", func(s host.ServerStatus) bool { return s.State == host.Ready && s.Incomplete != nil })
	must.CheckThat(t, len(status.Tools) == 2 && status.State == host.Ready &&
		strings.Contains(status.Incomplete.Error(), "cannot update a list"),
		"%d tools, %v", len(status.Tools), status.Incomplete)
	must.Check(t, must.Err(who(t, h, "flaky")), "a call of a degraded server")
	must.Check(t, h.WaitReady(t.Context()))
	broken.Store(false)
	add("later")
	if status := await(t, h, "flaky",
		func(s host.ServerStatus) bool {
			return s.State == host.Ready && s.Incomplete == nil
		}); len(status.Tools) != 4 || status.Incomplete != nil {
		t.Errorf("%d tools, %v", len(status.Tools), status.Incomplete)
	}
}

func TestWaitReadyWaitsForTheNamedServersOnly(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{
		inMemory(t, "fine"),
		{Name: "missing", Target: client.Command("no-such-program-anywhere")},
	}})
	must.Check(t, h.WaitReady(t.Context(), "fine"))
	must.CheckFails(t, h.WaitReady(t.Context(), "missing", "fine"), `"missing" is down`, "the server that is missing")
	must.CheckIs(t, h.WaitReady(t.Context(), "fine", "unknown"), host.ErrUnknown)
}

func TestCallsHaveADeadlineOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &server.Server{}
		cancelled := make(chan struct{})
		server.AddTool(slow, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ none) (string, error) {
			<-ctx.Done()
			close(cancelled)
			return "", ctx.Err()
		})
		h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, slow, "slow")}})
		_, err := h.Call(t.Context(), "slow__wait", nil, client.WithTimeout(time.Millisecond))
		must.CheckIs(t, err, context.DeadlineExceeded)
		<-cancelled // the server receives the cancellation
		must.CheckEqual(t, h.Status()[0].State, host.Ready)
		h.Close()
	})
}

// catalogServer answers the requests of a client without a network. It does not report changes of its tools; the
// list is fresh for 150 seconds.
type catalogServer struct {
	tool   atomic.Pointer[string] // the name of its tool
	broken atomic.Bool            // whether listing the tools fails
	lists  atomic.Int32           // number of requests for the list
}

// RoundTrip implements http.RoundTripper.
func (s *catalogServer) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	var response []byte
	switch m.Method {
	case mcp.MethodDiscover:
		response = jsonrpc.AppendResult(nil, m.ID,
			[]byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},`+
				`"ttlMs":0,"cacheScope":"private"}`))
	case mcp.MethodListTools:
		s.lists.Add(1)
		response = jsonrpc.AppendResult(nil, m.ID, fmt.Appendf(nil,
			`{"resultType":"complete","tools":[{"name":%q,"inputSchema":{"type":"object"}}],"ttlMs":150000,`+
				`"cacheScope":"private"}`, *s.tool.Load()))
	}
	if response == nil || m.Method == mcp.MethodListTools && s.broken.Load() {
		response = jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeInternalError, "out of order"), false)
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(response)),
		Body: io.NopCloser(bytes.NewReader(response)),
	}, nil
}

// A list is requested again when it is no longer fresh (2026-07-28, server/utilities/caching), and when it could
// not be updated.
func TestListsThatAreNotFreshAreUpdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &catalogServer{}
		s.tool.Store(new("before"))
		h := start(t, &host.Host{
			Servers: []host.ServerConfig{{Name: "s", Target: client.URL("http://catalog.example/mcp")}},
			Dialer:  client.Dialer{HTTPClient: &http.Client{Transport: s}},
		})
		defer h.Close()
		must.Do(t, h.WaitReady(t.Context()))
		s.tool.Store(new("after"))
		versions := map[uint64]bool{h.Status()[0].Version: true}
		time.Sleep(150 * time.Second)
		if got := mergedNames(h); !slices.Equal(got, []string{"s__before"}) || s.lists.Load() != 1 {
			t.Errorf("while the list is fresh: %q after %d requests", got, s.lists.Load())
		}
		time.Sleep(60 * time.Second)
		if got := mergedNames(h); !slices.Equal(got, []string{"s__after"}) || s.lists.Load() != 2 {
			t.Errorf("after that: %q after %d requests", got, s.lists.Load())
		}
		versions[h.Status()[0].Version] = true
		time.Sleep(time.Hour)
		versions[h.Status()[0].Version] = true
		n := s.lists.Load()
		must.CheckThat(t, n >= 15 && n <= 25, "%d requests in an hour, want one in three minutes", n)
		must.CheckEqual(t, len(versions), 2, versions)
		s.broken.Store(true)
		time.Sleep(5 * time.Minute)
		if status := h.Status()[0]; status.State != host.Ready || status.Incomplete == nil || len(status.Tools) != 1 {
			t.Errorf("the list cannot be updated: %v, %d tools", status.State, len(status.Tools))
		}
		s.broken.Store(false)
		time.Sleep(61 * time.Second)
		if status := h.Status()[0]; status.State != host.Ready || status.Incomplete != nil {
			t.Errorf("the list can be updated again: %v: %v", status.State, status.Incomplete)
		}
	})
}

// scripted returns a server of 2025-06-18 with tools and prompts whose lists are the given results.
func scripted(t *testing.T, name, tools, prompts string) host.ServerConfig {
	near, far := transport.Pipe()
	done := make(chan struct{})
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},` +
			`"serverInfo":{"name":"s","version":"1"}}`,
		"tools/list": tools, "prompts/list": prompts,
		"tools/call": `{"content":[{"type":"text","text":"called"}]}`,
	}
	go func() {
		defer close(done)
		for {
			line, err := far.Read(context.Background())
			if err != nil {
				return
			}
			m, err := jsonrpc.Parse(line, jsonrpc.Limits{})
			switch result, ok := results[m.Method]; {
			case err != nil || m.Kind != jsonrpc.Request:
			case ok:
				_ = far.Write(context.Background(), jsonrpc.AppendResult(nil, m.ID, []byte(result)))
			default:
				_ = far.Write(context.Background(), jsonrpc.AppendError(nil, m.ID,
					jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "no"), false))
			}
		}
	}()
	t.Cleanup(func() {
		far.Close()
		<-done
	})
	return host.ServerConfig{Name: name, Target: client.Conn(near)}
}

// A server with a list that cannot be decoded is degraded, not down. A list whose cursor repeats is complete.
func TestServerWithIncompleteListIsReady(t *testing.T) {
	const tools = `{"tools":[{"name":"a","inputSchema":{}}]}`
	for name, test := range map[string]struct {
		tools, prompts string
		reason         string
	}{
		"tools whose cursor repeats": {`{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"x"}`,
			`{"prompts":[{"name":"p"}]}`, ""},
		"prompts whose cursor repeats": {tools, `{"prompts":[{"name":"p"}],"nextCursor":"x"}`, ""},
		"invalid prompts":              {tools, `{"prompts":7}`, "prompts/list"},
		"complete":                     {tools, `{"prompts":[{"name":"p"}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, &host.Host{Servers: []host.ServerConfig{scripted(t, "s", test.tools, test.prompts)}})
			must.Do(t, h.WaitReady(t.Context()))
			status := h.Status()[0]
			must.CheckThat(t, len(status.Tools) == 1 && status.Err == nil, "status: %+v", status)
			if test.reason == "" && status.Incomplete != nil ||
				test.reason != "" && (!errors.Is(status.Incomplete, call.ErrInvalidResponse) ||
					!strings.Contains(status.Incomplete.Error(), test.reason)) {
				t.Errorf("incomplete: %v, want %q", status.Incomplete, test.reason)
			}
			must.Check(t, must.Err(h.Call(t.Context(), "s__a", nil)))
		})
	}
}

// eachEra runs f for revisions of each era. The only server of the host is s.
func eachEra(t *testing.T, f func(t *testing.T, s *server.Server, h *host.Host)) {
	for _, r := range []mcp.Revision{mcp.V20241105, mcp.V20251125, mcp.V20260728} {
		t.Run(string(r), func(t *testing.T) {
			s := newServer("library")
			server.AddPrompt(s, mcp.Prompt{Name: "review"},
				func(context.Context, none) (string, error) { return "", nil })
			for _, name := range []string{"a", "b"} {
				server.AddStatic(s, mcp.Resource{URI: "lib://" + name, Name: name}, name)
			}
			h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, s, "library")},
				Dialer: client.Dialer{Revision: r}})
			await(t, h, "library", isReady)
			f(t, s, h)
		})
	}
}

func TestChangedListsAreUpdated(t *testing.T) {
	eachEra(t, func(t *testing.T, s *server.Server, h *host.Host) {
		server.AddTool(s, mcp.Tool{Name: "new"}, func(context.Context, none) (string, error) { return "", nil })
		s.RemoveResource("lib://a")
		s.RemovePrompt("review")
		await(t, h, "library", func(s host.ServerStatus) bool {
			return slices.ContainsFunc(s.Tools,
				func(t host.Tool) bool { return t.Name == "library__new" }) &&
				len(s.Resources) == 1 && len(s.Prompts) == 0
		})
	})
}

func TestFrequentChangesLeadToFewListRequests(t *testing.T) {
	var requests atomic.Int32
	s := newServer("restless")
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{configOf(t, s, "restless")},
		Dialer: client.Dialer{Trace: func(sent bool, message []byte) {
			if sent && methodOf(message) == mcp.MethodListTools {
				requests.Add(1)
			}
		}},
	})
	await(t, h, "restless", isReady)
	began := time.Now()
	for i := range 1000 {
		server.AddTool(s, mcp.Tool{Name: fmt.Sprint("tool", i)},
			func(context.Context, none) (string, error) { return "", nil })
	}
	await(t, h, "restless", func(s host.ServerStatus) bool { return len(s.Tools) == 1002 })
	if n, limit := requests.Load(), int32(3+time.Since(began)/(100*time.Millisecond)); n > limit {
		t.Errorf("%d requests, want at most %d", n, limit)
	}
}

func TestSubscribersReceiveUpdates(t *testing.T) {
	eachEra(t, func(t *testing.T, s *server.Server, h *host.Host) {
		subscribe := func(uri string) (updates chan struct{}, stop func()) {
			updates = make(chan struct{}, 100)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- h.Client("library").Subscribe(ctx, uri, func() { updates <- struct{}{} }) }()
			return updates, func() {
				cancel()
				must.Check(t, <-done)
			}
		}
		expect := func(updates chan struct{}) {
			t.Helper()
			must.Receive(t, updates, "the update")
		}
		a, stopA := subscribe("lib://a")
		expect(a) // the subscription has started
		s.ResourceUpdated("lib://a")
		expect(a)
		b, stopB := subscribe("lib://b")
		expect(b)
		s.ResourceUpdated("lib://b")
		expect(b)
		stopB()
		s.ResourceUpdated("lib://a")
		expect(a)
		stopA()
	})
}

func TestSubscribeDoesNotStartServerThatIsDown(t *testing.T) {
	var early atomic.Int32 // counts messages to the server before it may be started again
	var retry atomic.Pointer[time.Time]
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{inProcess("mortal")},
		Dialer: client.Dialer{Trace: func(out bool, _ []byte) {
			if at := retry.Load(); out && at != nil && time.Now().Before(*at) {
				early.Add(1)
			}
		}},
	})
	await(t, h, "mortal", isReady)
	must.Is(t, must.Err(h.Client("mortal").CallTool(t.Context(), "die", nil)), call.ErrConnectionLost)
	down := await(t, h, "mortal", isDown)
	retry.Store(&down.Retry)
	updated := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	subscribed := make(chan error, 1)
	go func() {
		subscribed <- h.Client("mortal").Subscribe(ctx, "lib://a", func() {
			select {
			case updated <- struct{}{}:
			default:
			}
		})
	}()
	timer := time.NewTimer(time.Until(down.Retry))
	defer timer.Stop()
	<-timer.C
	must.CheckEqual(t, early.Load(), 0)
	must.Get(who(t, h, "mortal"))(t)
	must.Receive(t, updated, "the update")
	cancel()
	must.Check(t, <-subscribed)
}

func TestNumberOfSubscribedResourcesIsLimited(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "one")}})
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1100)
	for i := range 1100 {
		go func() { errs <- h.Client("one").Subscribe(ctx, fmt.Sprint("lib://", i), func() {}) }()
	}
	for range 1100 - 1024 {
		err := <-errs
		must.That(t, errors.As(err, new(*call.OverloadError)), "%v", err)
	}
	cancel()
	for range 1024 {
		must.Do(t, <-errs)
	}
	must.CheckIs(t, h.Client("unknown").Subscribe(t.Context(), "lib://a", func() {}), host.ErrUnknown)
}

func methodOf(message []byte) string {
	var m struct{ Method string }
	_ = json.Unmarshal(message, &m)
	return m.Method
}
