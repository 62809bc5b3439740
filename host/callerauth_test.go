package host_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

func noCredentials(principal.Principal) (client.Authorizer, error) {
	return nil, errors.New("no credentials")
}

// noAuth is an authorizer that adds nothing.
type noAuth struct{}

func (noAuth) Authorize(*http.Request, string) error { return nil }

func (noAuth) Reauthorize(*http.Request, string, *http.Response) (bool, error) { return false, nil }

// Rule U8: the credentials of the operator are sent with lists, and never on behalf of a caller.
func TestCredentialsOfTheOperatorAreNotSentForCallers(t *testing.T) {
	s := &server.Server{Name: "up", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "echo"}, func(context.Context, struct{}) (string, error) { return "done", nil })
	var mu sync.Mutex
	seen := make(map[string]int) // requests by Authorization and X-Other
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("Authorization")+" "+r.Header.Get("X-Other")]++
		mu.Unlock()
		s.ServeHTTP(w, r)
	}))
	defer up.Close()
	target := &client.HTTPTarget{URL: up.URL, Header: http.Header{"Authorization": {"operator"}, "X-Other": {"kept"}}}
	h := &host.Host{
		Servers: []host.ServerConfig{{Name: "up", Target: target, CallerAuth: host.NewCallerAuth(func(principal.Principal) (noAuth, error) { return noAuth{}, nil })}},
		Dialer:  client.Dialer{Auth: operator{}},
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	clear(seen)
	mu.Unlock()
	ada, err := principal.New("https://as.example", "ada", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.CallTool(auth.NewContext(t.Context(), &auth.Info{Principal: ada}), "up", "echo", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := h.CallTool(t.Context(), "up", "echo", nil); !errors.Is(err, host.ErrAnonymousCaller) {
		t.Errorf("without a caller: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 1 || seen[" kept"] == 0 {
		t.Errorf("requests %v", seen)
	}
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
		"requires a Target with a URL": {Name: "up", Target: client.Command("program"), CallerAuth: auth},
		"not Shared":                   {Name: "up", Target: client.URL("https://mcp.example"), Sharing: host.Shared, CallerAuth: auth},
	} {
		h := &host.Host{Servers: []host.ServerConfig{config}}
		if err := h.Start(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestSubscriptionsToServersWithCallerAuthNeedACaller(t *testing.T) {
	h := &host.Host{Servers: []host.ServerConfig{{Name: "up", Target: client.URL("http://127.0.0.1:1/mcp"), CallerAuth: host.NewCallerAuth(noCredentials)}}}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Subscribe(t.Context(), "up", "lib://one", func() {}); !errors.Is(err, host.ErrAnonymousCaller) {
		t.Error(err)
	}
	if err := linked.PermitSubscription(h, t.Context(), "up", "lib://one"); !errors.Is(err, host.ErrAnonymousCaller) {
		t.Error(err)
	}
}
