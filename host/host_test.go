package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/transport"
)

// start starts a host that is closed when the test ends.
func start(t *testing.T, h *host.Host) *host.Host {
	t.Helper()
	h.Logger = slog.New(slog.DiscardHandler)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// await waits until a server is as wanted.
func await(t *testing.T, h *host.Host, name string, wanted func(host.Status) bool) host.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var last host.Status
	for s := range h.Watch(ctx) {
		if s.Name != name {
			continue
		}
		if last = s; wanted(s) {
			return s
		}
	}
	t.Fatalf("server %s is %v (%v), which is not as wanted", name, last.State, last.Err)
	return last
}

func isReady(s host.Status) bool { return s.State == host.Ready }
func isDown(s host.Status) bool  { return s.State == host.Down }

// who calls the tool that says who it is.
func who(t *testing.T, h *host.Host, name string) (identity, error) {
	t.Helper()
	var id identity
	result, err := h.CallTool(t.Context(), name, "who", nil)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(result.StructuredContent, &id); err != nil {
		t.Fatalf("%s: %v", result.StructuredContent, err)
	}
	return id, nil
}

func TestCallsReachTheServerOfTheName(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.Server{inMemory(t, "one"), inMemory(t, "two")}})
	for _, name := range []string{"one", "two"} {
		// The first call waits for the server to come up.
		if id, err := who(t, h, name); err != nil || id.Name != name {
			t.Errorf("server %s is %q, %v", name, id.Name, err)
		}
	}
	if _, err := h.CallTool(t.Context(), "three", "who", nil); !errors.Is(err, host.ErrUnknownServer) {
		t.Errorf("a server that does not exist: %v", err)
	}
}

func TestServersThatDoNotStartDoTheOthersNoHarm(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.Server{
		{Name: "missing", Target: client.Command("no-such-program-anywhere")},
		inMemory(t, "fine"),
	}})
	missing := await(t, h, "missing", isDown)
	if !missing.GivenUp || !errors.Is(missing.Err, exec.ErrNotFound) {
		t.Errorf("given up: %v, error: %v", missing.GivenUp, missing.Err)
	}
	fine := await(t, h, "fine", isReady)
	if len(fine.Tools) != 2 || fine.Revision == "" || fine.Server.Info.Name != "fine" {
		t.Errorf("status: %+v", fine)
	}
	if _, err := who(t, h, "fine"); err != nil {
		t.Error(err)
	}
	_, err := who(t, h, "missing")
	var down *host.DownError
	if !errors.As(err, &down) || down.Server != "missing" || !strings.Contains(err.Error(), `"missing" is down`) {
		t.Errorf("call to a server that is down: %v", err)
	}
}

func TestChildThatDiesIsReportedAndStartedAgainByACall(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.Server{inProcess("mortal"), inMemory(t, "other")}})
	before, err := who(t, h, "mortal")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.CallTool(t.Context(), "mortal", "die", nil); !errors.Is(err, client.ErrConnectionLost) {
		t.Fatalf("call that ends the server: %v", err)
	}
	down := await(t, h, "mortal", isDown)
	var exit *transport.ExitError
	if !errors.As(down.Err, &exit) {
		t.Errorf("the report does not say how the process ended: %v", down.Err)
	}
	if len(down.Tools) == 0 {
		t.Error("the tools of a server that is down are forgotten")
	}
	if _, err := who(t, h, "other"); err != nil {
		t.Errorf("the other server: %v", err)
	}

	// It died right after its start: nothing is started for a moment.
	_, err = who(t, h, "mortal")
	if refused := new(host.DownError); !errors.As(err, &refused) && time.Now().Before(down.Retry) {
		t.Errorf("call before the pause is over: %v", err)
	}
	timer := time.NewTimer(time.Until(down.Retry))
	defer timer.Stop()
	<-timer.C
	after, err := who(t, h, "mortal")
	if err != nil {
		t.Fatal(err)
	}
	if after.Pid == before.Pid {
		t.Errorf("the same process, %d, has answered", after.Pid)
	}
}

// refusing is a network that nobody can be reached in.
type refusing struct {
	mu    sync.Mutex
	tries []time.Time
}

func (r *refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries = append(r.tries, time.Now())
	return nil, errors.New("nobody there")
}

// since returns when it was tried to reach somebody.
func (r *refusing) since(begin time.Time) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var at []time.Duration
	for _, try := range r.tries {
		at = append(at, try.Sub(begin))
	}
	return at
}

func TestTriesAreFewAndFarBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &refusing{}
		h := &host.Host{
			Servers: []host.Server{{Name: "away", Target: client.URL("http://away.example/mcp")}},
			Dialer:  client.Dialer{HTTPClient: &http.Client{Transport: network}},
			Logger:  slog.New(slog.DiscardHandler),
		}
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		begin := time.Now()
		time.Sleep(time.Hour)
		at := network.since(begin)
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}
		if !slices.Equal(at, want) {
			t.Fatalf("tried at %v, want %v", at, want)
		}
		if s := h.Status()[0]; !s.GivenUp || s.State != host.Down {
			t.Fatalf("status: %+v", s)
		}

		// A call has it tried once more, and then nobody for a while.
		for range 10 {
			if _, err := h.CallTool(t.Context(), "away", "who", nil); !errors.As(err, new(*host.DownError)) {
				t.Fatalf("call: %v", err)
			}
		}
		if n := len(network.since(begin)); n != len(want)+1 {
			t.Errorf("ten calls led to %d tries", n-len(want))
		}
		time.Sleep(time.Minute)
		_, _ = h.CallTool(t.Context(), "away", "who", nil)
		if n := len(network.since(begin)); n != len(want)+2 {
			t.Errorf("a call a minute later led to %d tries", n-len(want)-1)
		}
	})
}

// locked has credentials for nothing. It notes when it is asked.
type locked struct{ refusing }

func (l *locked) Authorize(*http.Request, string) error {
	_, _ = l.RoundTrip(nil)
	return errors.New("nobody has logged in")
}

func (l *locked) Reauthorize(*http.Request, string, *http.Response) (bool, error) { return false, nil }

func TestAServerThatWantsALoginIsTriedUntilThereIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := &locked{}
		h := &host.Host{
			Servers: []host.Server{{Name: "guarded", Target: client.URL("http://guarded.example/mcp")}},
			Dialer:  client.Dialer{Auth: door, HTTPClient: &http.Client{Transport: &refusing{}}},
			Logger:  slog.New(slog.DiscardHandler),
		}
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		begin := time.Now()
		time.Sleep(time.Hour)
		at := door.since(begin)
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 30 * time.Second, 45 * time.Second}
		if len(at) < 240 || len(at) > 245 || !slices.Equal(at[:len(want)], want) {
			t.Errorf("tried %d times in an hour, first at %v", len(at), at[:min(len(at), len(want))])
		}
		if s := h.Status()[0]; s.GivenUp || !errors.Is(s.Err, client.ErrUnauthorized) {
			t.Errorf("status: %+v", s)
		}
	})
}

// silent is a network in which nobody answers.
type silent struct{ reached chan struct{} }

func (s *silent) RoundTrip(req *http.Request) (*http.Response, error) {
	close(s.reached)
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func TestCloseEndsWhatIsStillStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &silent{reached: make(chan struct{})}
		h := &host.Host{
			Servers: []host.Server{{Name: "slow", Target: client.URL("http://slow.example/mcp")}},
			Dialer:  client.Dialer{HTTPClient: &http.Client{Transport: network}},
			Logger:  slog.New(slog.DiscardHandler),
		}
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		<-network.reached
		called := make(chan error, 1)
		go func() {
			_, err := h.CallTool(t.Context(), "slow", "who", nil)
			called <- err
		}()
		synctest.Wait()
		begin := time.Now()
		var closing sync.WaitGroup
		for range 3 {
			closing.Go(func() { h.Close() })
		}
		closing.Wait()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		if err := <-called; !errors.Is(err, host.ErrClosed) {
			t.Errorf("the call that waited: %v", err)
		}
		if _, err := h.CallTool(t.Context(), "slow", "who", nil); !errors.Is(err, host.ErrClosed) {
			t.Errorf("a call after Close: %v", err)
		}
	})
}

func TestWatchEndsWithItsContextAndWithTheHost(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.Server{inMemory(t, "one")}})
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
	select {
	case <-watched:
	case <-time.After(10 * time.Second):
		t.Fatal("Watch goes on after Close")
	}
}

func TestTraceNamesTheServer(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[string]bool)
	h := start(t, &host.Host{
		Servers: []host.Server{inMemory(t, "one"), inMemory(t, "two")},
		Trace: func(server string, sent bool, _ []byte) {
			mu.Lock()
			defer mu.Unlock()
			if sent {
				seen[server] = true
			}
		},
	})
	await(t, h, "one", isReady)
	await(t, h, "two", isReady)
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 2 {
		t.Errorf("traced: %v", seen)
	}
}

func TestStartRefusesWhatCannotBe(t *testing.T) {
	target := client.URL("http://127.0.0.1:1/mcp")
	for why, servers := range map[string][]host.Server{
		"no name":                 {{Target: target}},
		"a double underscore":     {{Name: "a__b", Target: target}},
		"a space":                 {{Name: "a b", Target: target}},
		"a name of 65 letters":    {{Name: strings.Repeat("a", 65), Target: target}},
		"a name given twice":      {{Name: "a", Target: target}, {Name: "a", Target: target}},
		"a server with no target": {{Name: "a"}},
	} {
		h := &host.Host{Servers: servers}
		if err := h.Start(); err == nil {
			t.Errorf("%s is accepted", why)
		}
		if err := h.Close(); err != nil {
			t.Errorf("%s: Close: %v", why, err)
		}
	}
	if err := host.CheckName(strings.Repeat("aZ0-_9", 10) + "abcd"); err != nil {
		t.Errorf("a name of 64 characters: %v", err)
	}
}

func TestHostStartsOnce(t *testing.T) {
	h := start(t, &host.Host{})
	if err := h.Start(); err == nil {
		t.Error("a host starts twice")
	}
	h = &host.Host{}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := h.Start(); err == nil {
		t.Error("a host starts after it was closed")
	}
}
