package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

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
			select {
			case <-updates:
			case <-time.After(10 * time.Second):
				t.Fatal("the subscriber receives no update")
			}
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
	select {
	case <-updated:
	case <-time.After(10 * time.Second):
		t.Error("the subscriber is not notified of a possible update")
	}
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
