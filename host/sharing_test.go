package host_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// sessionCounter is a server over HTTP. Its tool session returns the session of the call.
type sessionCounter struct {
	http.Handler
	begun, ended atomic.Int32 // sessions
	expire       atomic.Pointer[string]
}

func newSessionCounter() *sessionCounter {
	s := &server.Server{Name: "sessions"}
	sessions := &sessionCounter{Handler: s}
	server.AddTool(s, mcp.Tool{Name: "session"}, func(ctx context.Context, _ none) (string, error) {
		id, _ := ctx.Value(sessionKey{}).(string)
		return id, nil
	})
	return sessions
}

type sessionKey struct{}

func (s *sessionCounter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	switch {
	case r.Method == http.MethodDelete:
		s.ended.Add(1)
	case r.Method == http.MethodPost && id == "" && r.Header.Get("Mcp-Method") == "":
		s.begun.Add(1)
	}
	if expired := s.expire.Load(); expired != nil && *expired == id {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.Handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sessionKey{}, id)))
}

// start returns a host with the server at a URL.
func (s *sessionCounter) start(t *testing.T, r mcp.Revision, sharing host.Sharing) *host.Host {
	t.Helper()
	endpoint := httptest.NewServer(s)
	t.Cleanup(endpoint.Close)
	h := &host.Host{
		Servers: []host.ServerConfig{{Name: "s", Target: client.URL(endpoint.URL), Sharing: sharing}},
		Dialer:  client.Dialer{Revision: r},
	}
	startReady(t, h)
	return h
}

// startReady starts a host and waits until all of its servers are ready.
func startReady(t *testing.T, h *host.Host) {
	t.Helper()
	must.Do(t, h.Start())
	t.Cleanup(func() { h.Close() })
	must.Do(t, h.WaitReady(t.Context()))
}

func sessionOf(t *testing.T, h *host.Host, caller string) string {
	t.Helper()
	ctx := t.Context()
	if caller != "" {
		ctx = host.WithCaller(ctx, &host.Caller{Session: caller})
	}
	result, err := h.Client("s").CallTool(ctx, "session", nil)
	must.Do(t, err, caller)
	return result.Content[0].(*mcp.TextContent).Text
}

// inSession returns a context of a caller with a session.
func inSession(t *testing.T, id string) context.Context {
	return host.WithCaller(t.Context(), &host.Caller{Session: id})
}

func TestCallersShareAServerUnlessItKeepsSessions(t *testing.T) {
	for _, c := range []struct {
		revision mcp.Revision
		set      host.Sharing
		want     host.Sharing
	}{
		{mcp.V20251125, host.SharingAuto, host.SharingSession},
		{mcp.V20250326, host.SharingAuto, host.SharingSession},
		{mcp.V20251125, host.SharingEveryone, host.SharingEveryone},
		{mcp.V20251125, host.SharingUser, host.SharingUser}, // the callers have not authenticated
		{mcp.V20251125, host.SharingSession, host.SharingSession},
		{mcp.V20260728, host.SharingAuto, host.SharingEveryone},
	} {
		s := newSessionCounter()
		h := s.start(t, c.revision, c.set)
		program, ada, bob := sessionOf(t, h, ""), sessionOf(t, h, "ada"), sessionOf(t, h, "bob")
		must.CheckEqual(t, sessionOf(t, h, "ada"), ada, c)
		distinct := program != ada && program != bob && ada != bob
		must.CheckThat(t, distinct == (c.want == host.SharingSession) && c.revision.Modern() == (program == ""),
			"%v: sessions %q, %q and %q", c, program, ada, bob)
		must.CheckEqual(t, h.Status()[0].Sharing, c.want, c)
		h.Close()
		must.CheckEqual(t, s.begun.Load(), s.ended.Load(), c)
	}
}

func TestOneSessionBeginsForConcurrentCallsOfACaller(t *testing.T) {
	s := newSessionCounter()
	h := s.start(t, mcp.V20251125, host.SharingAuto)
	before := s.begun.Load()
	var calls sync.WaitGroup
	for i := range 60 {
		calls.Go(func() { sessionOf(t, h, fmt.Sprint("caller ", i%3)) })
	}
	calls.Wait()
	must.CheckEqual(t, s.begun.Load()-before, 3)
	// The server forgets the session of one caller.
	expired := sessionOf(t, h, "caller 0")
	s.expire.Store(&expired)
	others := sessionOf(t, h, "caller 1")
	for range 30 {
		calls.Go(func() { sessionOf(t, h, "caller 0") })
		calls.Go(func() {
			must.CheckEqual(t, sessionOf(t, h, "caller 1"), others)
		})
	}
	calls.Wait()
	must.CheckEqual(t, s.begun.Load()-before, 4)
}

func TestProgramIsStartedOnceUnlessAskedFor(t *testing.T) {
	for sharing, want := range map[host.Sharing]int{host.SharingAuto: 1, host.SharingSession: 3} {
		config := inProcess("s")
		config.Sharing = sharing
		h := &host.Host{Servers: []host.ServerConfig{config}}
		startReady(t, h)
		pids := make(map[string]bool)
		for _, ctx := range []context.Context{t.Context(), inSession(t, "ada"),
			inSession(t, "bob"), inSession(t, "ada")} {
			result := must.Get(h.Client("s").CallTool(ctx, "who", nil))(t)
			pids[string(result.StructuredContent)] = true
		}
		must.CheckEqual(t, len(pids), want, pids)
		h.Close()
	}
}

// A program that can ask questions runs once per user, because a question could otherwise reach
// another user, unless the configuration shares it.
func TestAuthenticatedUsersDoNotShareAProgramThatCanAsk(t *testing.T) {
	for _, c := range []struct {
		revision mcp.Revision
		sharing  host.Sharing
		want     int // number of processes for two users and two unauthenticated callers
	}{
		{mcp.V20251125, host.SharingAuto, 3}, {mcp.V20251125, host.SharingEveryone, 1},
		{mcp.V20260728, host.SharingAuto, 1},
	} {
		config := inProcess("s")
		config.Sharing = c.sharing
		h := &host.Host{Servers: []host.ServerConfig{config}, Dialer: client.Dialer{Revision: c.revision}}
		startReady(t, h)
		pids := make(map[string]string)
		for _, name := range []string{"ada", "bob", "", "", "ada"} {
			caller := new(host.Caller)
			if name != "" {
				who := must.Get(principal.New("https://issuer.example", name, ""))(t)
				caller.Auth = &auth.Info{Principal: who}
			}
			result := must.Get(h.Client("s").CallTool(host.WithCaller(t.Context(), caller), "who", nil))(t)
			pid := string(result.StructuredContent)
			before, ok := pids[name]
			must.CheckThat(t, !ok || before == pid, "%v: the process of %q changes", c, name)
			pids[name] = pid
		}
		distinct := make(map[string]bool)
		for _, pid := range pids {
			distinct[pid] = true
		}
		must.CheckEqual(t, len(distinct), c.want, c, pids)
		h.Close()
	}
}

func noCredentials(principal.Principal) (client.Authorizer, error) {
	return nil, errors.New("no credentials")
}

// noAuth is an authorizer that adds nothing.
type noAuth struct{}

func (noAuth) Authorize(*http.Request, string) error { return nil }

func (noAuth) Reauthorize(*http.Request, string, *http.Response) (bool, error) { return false, nil }

// Rule U8: the operator's credentials are sent with requests for lists, and never on behalf of a
// caller.
func TestCredentialsOfTheOperatorAreNotSentForCallers(t *testing.T) {
	s := &server.Server{Name: "up", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "echo"}, func(context.Context, struct{}) (string, error) { return "done", nil })
	var mu sync.Mutex
	seen := make(map[string]int) // counts requests by Authorization and X-Other
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("Authorization")+" "+r.Header.Get("X-Other")]++
		mu.Unlock()
		s.ServeHTTP(w, r)
	}))
	defer up.Close()
	target := &client.HTTPTarget{URL: up.URL, Header: http.Header{"Authorization": {"operator"}, "X-Other": {"kept"}}}
	h := &host.Host{
		Servers: []host.ServerConfig{{Name: "up", Target: target,
			CallerAuth: host.NewCallerAuth(func(principal.Principal) (noAuth, error) { return noAuth{}, nil })}},
		Dialer: client.Dialer{Auth: operator{}},
	}
	must.Do(t, h.Start())
	defer h.Close()
	must.Do(t, h.WaitReady(t.Context()))
	mu.Lock()
	clear(seen)
	mu.Unlock()
	ada := must.Get(principal.New("https://as.example", "ada", ""))(t)
	must.Get(h.Client("up").CallTool(auth.NewContext(t.Context(), &auth.Info{Principal: ada}), "echo", nil))(t)
	_, err := h.Client("up").CallTool(t.Context(), "echo", nil)
	must.CheckThat(t, errors.Is(err, host.ErrAnonymousCaller), "without a caller: %v", err)
	mu.Lock()
	defer mu.Unlock()
	must.CheckThat(t, len(seen) == 1 && seen[" kept"] != 0, "requests %v", seen)
}

// operator is the authorizer of the operator.
type operator struct{ noAuth }

func (operator) Authorize(r *http.Request, _ string) error {
	r.Header.Set("Authorization", "operator")
	return nil
}

func TestCallerAuthRequiresAURLThatIsNotShared(t *testing.T) {
	auth := host.NewCallerAuth(noCredentials)
	for want, config := range map[string]host.ServerConfig{
		"require a Target with a URL": {Name: "up", Target: client.Command("program"), CallerAuth: auth},
		"not SharingEveryone": {Name: "up", Target: client.URL("https://mcp.example"),
			Sharing: host.SharingEveryone, CallerAuth: auth},
	} {
		h := &host.Host{Servers: []host.ServerConfig{config}}
		must.CheckFails(t, h.Start(), want)
	}
}

func TestSubscriptionsToServersWithCallerAuthNeedACaller(t *testing.T) {
	h := &host.Host{Servers: []host.ServerConfig{{Name: "up", Target: client.URL("http://127.0.0.1:1/mcp"),
		CallerAuth: host.NewCallerAuth(noCredentials)}}}
	must.Do(t, h.Start())
	defer h.Close()
	must.CheckIs(t, h.Client("up").Subscribe(t.Context(), "lib://one", func() {}), host.ErrAnonymousCaller)
	must.CheckIs(t, h.Client("up").MaySubscribe(t.Context(), "lib://one"), host.ErrAnonymousCaller)
}
