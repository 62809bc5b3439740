package gateway_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// watching is a gateway whose policy allows callers with the scope watch to subscribe to lib://open and to templates.
type watching struct {
	url string
	up  *server.Server

	mu      sync.Mutex
	records []string
}

func newWatching(t *testing.T) *watching {
	w := &watching{up: &server.Server{Name: "library"}}
	for _, uri := range []string{"lib://open", "lib://closed"} {
		server.AddStatic(w.up, mcp.Resource{URI: uri, Name: uri}, "text")
	}
	server.AddTemplate(w.up, mcp.ResourceTemplate{URITemplate: "notes://{book}", Name: "notes"}, func(_ context.Context, _ map[string]string) (string, error) {
		return "text", nil
	})
	s := &server.Server{Name: "gateway", Version: "1"}
	endpoint := httptest.NewUnstartedServer(s)
	w.url = "http://" + endpoint.Listener.Addr().String() + "/"
	s.Auth = &auth.ProtectedResource{URI: w.url, Issuers: []string{"https://issuer.example"}, Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
		subject, scope, _ := strings.Cut(token, "-")
		who, err := principal.New("https://issuer.example", subject, "")
		return &auth.Info{Principal: who, Scopes: []string{scope}, Audience: []string{w.url}, Expiry: time.Now().Add(time.Hour)}, err
	})}
	gatewaytest.Run(t, &host.Host{
		Servers: []host.ServerConfig{httpConfig(t, "up", w.up)},
		Policy: host.Rules{Rules: []host.Rule{
			{Method: mcp.MethodSubscribe, Resource: "lib://closed", Action: host.Deny, Reason: "closed"},
			{Method: mcp.MethodSubscribe, Scope: "watch", Action: host.Allow},
			{Method: mcp.MethodSubscribe, Action: host.Deny, Reason: "scope watch is missing"},
		}, Default: host.Allow},
		Audit: func(_ context.Context, r *host.AuditRecord) error {
			if r.Method == mcp.MethodSubscribe {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.records = append(w.records, strings.Join([]string{r.Event, r.Subject, r.Name}, " "))
			}
			return nil
		},
	}, s)
	endpoint.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		endpoint.Close()
	})
	return w
}

// take returns the records about subscriptions since the last call, sorted.
func (w *watching) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.records
	w.records = nil
	slices.Sort(all)
	return all
}

// dial returns a client with a token.
func (w *watching) dial(t *testing.T, r mcp.Revision, token string) *client.Client {
	d := client.Dialer{Revision: r, Logger: quiet}
	c, err := d.Dial(t.Context(), &client.HTTPTarget{URL: w.url, Header: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Rules by scope and principal decide about the subscription of each client.
func TestPolicyDecidesAboutTheSubscriptionOfEachClient(t *testing.T) {
	w := newWatching(t)
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			ada, bob := w.dial(t, r, "ada-watch"), w.dial(t, r, "bob-read")
			w.take()
			next, stop := iter.Pull2(ada.Watch(ctx, client.WatchFilter{URIs: []string{"lib://open", "lib://closed", "notes://a"}}))
			defer stop()
			accepted := make(map[string]bool)
			for range 2 {
				change, err, _ := next()
				if err != nil {
					t.Fatal(err)
				}
				accepted[change.URI] = true
			}
			if accepted["lib://closed"] {
				t.Error("the client has subscribed to a resource that the policy denies")
			}
			if want := []string{"allowed ada lib://open", "allowed ada notes://a", "denied ada lib://closed"}; !slices.Equal(w.take(), want) {
				t.Errorf("the audit log does not have %q", want)
			}
			for _, err := range bob.Watch(ctx, client.WatchFilter{URIs: []string{"lib://open"}}) {
				switch {
				case err == nil:
					t.Error("bob has subscribed")
				case !r.Modern() && !strings.Contains(err.Error(), "scope watch is missing"):
					t.Errorf("bob's error is %v", err)
				}
				break
			}
			if want := []string{"denied bob lib://open"}; !slices.Equal(w.take(), want) {
				t.Errorf("the audit log does not have %q", want)
			}
			w.up.ResourceUpdated("lib://closed")
			w.up.ResourceUpdated("notes://a")
			for {
				change, err, _ := next()
				if err != nil || change.URI == "lib://closed" {
					t.Fatalf("%+v, %v", change, err)
				}
				if change.URI == "notes://a" && !change.Resync {
					break
				}
				w.up.ResourceUpdated("notes://a") // the gateway subscribes after the client
			}
		})
	}
}

// The policy cannot decide about resources that are not registered, so no client can subscribe to them.
func TestClientsCannotSubscribeToUnknownResourcesIfThereIsAPolicy(t *testing.T) {
	w := newWatching(t)
	for _, r := range mcp.Revisions() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		for _, err := range w.dial(t, r, "ada-watch").Watch(ctx, client.WatchFilter{URIs: []string{"lib://later"}}) {
			if err == nil {
				t.Errorf("%s: the client has subscribed", r)
			}
			break
		}
		cancel()
	}
	if got := w.take(); len(got) > 0 {
		t.Errorf("the audit log has %q", got)
	}
}

// A client that subscribes while the servers start receives the answer of the policy when they are ready.
func TestSubscriptionWaitsForServersThatAreStarting(t *testing.T) {
	library := &server.Server{Name: "library", Logger: quiet}
	server.AddStatic(library, mcp.Resource{URI: "lib://a", Name: "a"}, "text")
	started := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-started
		library.ServeHTTP(w, r)
	}))
	t.Cleanup(up.Close)
	asked := make(chan struct{})
	h := &host.Host{Servers: []host.ServerConfig{{Name: "up", Target: client.URL(up.URL)}}, Logger: quiet, Policy: host.Rules{Default: host.Allow}}
	s := &server.Server{Name: "gateway", Version: "1", Logger: quiet}
	g, err := gateway.New(h, s)
	if err != nil {
		t.Fatal(err)
	}
	g.Logger = quiet
	unknown := s.UnknownSubscription
	s.UnknownSubscription = func(ctx context.Context, uri string) error {
		close(asked)
		return unknown(ctx, uri)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { g.Run(t.Context()) })
	t.Cleanup(func() {
		h.Close()
		running.Wait()
	})
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20260728))
	running.Go(func() {
		<-asked
		close(started)
	})
	for change, err := range c.Watch(t.Context(), client.WatchFilter{URIs: []string{"lib://a"}}) {
		if err != nil || change.URI != "lib://a" {
			t.Errorf("%+v, %v", change, err)
		}
		break
	}
}
