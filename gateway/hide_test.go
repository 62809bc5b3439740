package gateway_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// changingPolicy is a policy that the test replaces.
type changingPolicy struct{ atomic.Pointer[host.Rules] }

func (p *changingPolicy) Decide(ctx context.Context, r *host.Request) (host.Decision, error) {
	return p.Load().Decide(ctx, r)
}

func (p *changingPolicy) Hides(caller principal.Principal) func(*host.Request) bool {
	return p.Load().Hides(caller)
}

// hiding is a gateway with a changing policy. The token of a caller is its name and a scope.
type hiding struct {
	gateway *server.Server
	host    *host.Host
	policy  changingPolicy
	url     string
	denied  chan string // receives the denied requests
}

func newHiding(t *testing.T, rules host.Rules) *hiding {
	up := &server.Server{Name: "library"}
	for _, name := range []string{"open", "secret", "large"} {
		server.AddTool(up, mcp.Tool{Name: name, Description: "A tool."},
			func(context.Context, struct{}) (string, error) { return name, nil })
		server.AddPrompt(up, mcp.Prompt{Name: name}, func(context.Context, struct{}) (string, error) {
			return name, nil
		})
		server.AddStatic(up, mcp.Resource{URI: "lib://" + name, Name: name}, "text")
		server.AddTemplate(up, mcp.ResourceTemplate{URITemplate: name + "://{book}", Name: name},
			func(context.Context, map[string]string) (string, error) { return "text", nil })
	}
	g := &hiding{gateway: &server.Server{Name: "gateway", Version: "1"}, denied: make(chan string, 100)}
	g.policy.Store(&rules)
	endpoint := httptest.NewUnstartedServer(g.gateway)
	g.url = "http://" + endpoint.Listener.Addr().String() + "/"
	g.gateway.Auth = &auth.ProtectedResource{URI: g.url, Issuers: []string{"https://issuer.example"},
		Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
			subject, scope, _ := strings.Cut(token, "-")
			who, err := principal.New("https://issuer.example", subject, "")
			return &auth.Info{Principal: who, Scopes: []string{scope}, Audience: []string{g.url},
				Expiry: time.Now().Add(time.Hour)}, err
		})}
	g.host = &host.Host{
		Servers: []host.ServerConfig{httpConfig(t, "up", up)}, Policy: &g.policy,
		Audit: gatewaytest.Audit(func(_ context.Context, r map[string]any) error {
			if r["event"] == "denied" {
				g.denied <- fmt.Sprint(r["method"], " ", r["name"])
			}
			return nil
		}),
	}
	gatewaytest.Run(t, g.host, g.gateway)
	endpoint.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = g.gateway.Shutdown(ctx)
		endpoint.Close()
	})
	return g
}

// set replaces the policy.
func (g *hiding) set(rules ...host.Rule) {
	g.policy.Store(&host.Rules{Rules: rules, Default: host.Allow})
	g.host.PolicyChanged()
}

func (g *hiding) dial(t *testing.T, r mcp.Revision, token string) *client.Client {
	d := client.Dialer{Revision: r, Logger: quiet}
	c, err := d.Dial(t.Context(), &client.HTTPTarget{URL: g.url,
		Header: http.Header{"Authorization": {"Bearer " + token}}})
	must.Do(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// allListed returns what a client finds in its lists.
func allListed(t *testing.T, c *client.Client) string {
	t.Helper()
	var all []string
	for tool, err := range c.Tools(t.Context(), client.WithRefresh()) {
		must.Do(t, err)
		all = append(all, tool.Name)
	}
	for prompt, err := range c.Prompts(t.Context(), client.WithRefresh()) {
		must.Do(t, err)
		all = append(all, prompt.Name)
	}
	for resource, err := range c.Resources(t.Context(), client.WithRefresh()) {
		must.Do(t, err)
		all = append(all, resource.URI)
	}
	for template, err := range c.ResourceTemplates(t.Context(), client.WithRefresh()) {
		must.Do(t, err)
		all = append(all, template.URITemplate)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func isAda(_ context.Context, r *host.Request) (bool, error) {
	return r.Caller.Principal.Subject() == "ada", nil
}

func isLarge(_ context.Context, r *host.Request) (bool, error) { return len(r.Arguments) > 100, nil }

// What the policy denies to a caller without regard to arguments and scopes does not appear in the caller's lists,
// and clients are notified when that changes.
func TestDeniedEntriesAreHiddenFromLists(t *testing.T) {
	const (
		open  = "large://{book} lib://large lib://open open://{book} up__large up__large up__open up__open"
		every = "large://{book} lib://large lib://open lib://secret open://{book} secret://{book} up__large " +
			"up__large up__open up__open up__secret up__secret"
	)
	rules := []host.Rule{
		{When: isAda, WhenForLists: true, Action: host.Allow},
		{Tool: "large", Prompt: "large", When: isLarge, Action: host.Deny},
		{Tool: "large", Prompt: "large", Scope: "large", Action: host.Allow}, // undecided without the scopes
		{Tool: "large", Prompt: "large", Action: host.Deny},
		{Method: "*/*", Tool: "secret", Prompt: "secret", Resource: "lib://secret", Action: host.Deny},
		{Resource: "secret://*", Action: host.Deny},
		{Tool: "open", Scope: "x", Action: host.Deny}, // depends on the scopes, so the tool is listed
	}
	g := newHiding(t, host.Rules{Rules: rules, Default: host.Allow})
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			g.set(rules...)
			ada, bob := g.dial(t, r, "ada-x"), g.dial(t, r, "bob-x")
			must.CheckEqual(t, allListed(t, ada), every)
			must.CheckEqual(t, allListed(t, bob), open)
			must.CheckFails(t, must.Err(client.CallTool[string](t.Context(), bob, "up__secret", nil)), "is denied",
				"the call of the hidden tool ends")
			expectMessage(t, g.denied, "tools/call secret")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			changed := false
			for change, err := range bob.Watch(ctx, client.WatchFilter{Tools: true}) {
				must.Do(t, err)
				if !changed && change.Resync {
					changed = true
					g.set()
				} else if allListed(t, bob) == every {
					return
				}
			}
			t.Errorf("Bob finds %s", allListed(t, bob))
		})
	}
}

// A policy that changes ends the subscriptions that it denies.
func TestChangedPolicyEndsSubscriptions(t *testing.T) {
	t.Parallel()
	denies := map[string][]host.Rule{
		"to all": {{Method: mcp.MethodSubscribe, Resource: "lib://open", Action: host.Deny}},
		"for want of the scope": {{Method: mcp.MethodSubscribe, Resource: "lib://open", Scope: "watch",
			Action: host.Allow}, {Method: mcp.MethodSubscribe, Resource: "lib://open", Action: host.Deny}},
	}
	for _, r := range mcp.Revisions() {
		for why, rules := range denies {
			if why != "to all" && !r.Modern() { // a session does not keep the scopes of its requests
				continue
			}
			t.Run(fmt.Sprintf("%s/denied %s", r, why), func(t *testing.T) {
				g := newHiding(t, host.Rules{Default: host.Allow})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				updates, synced := make(chan string, 100), make(chan struct{}, 100)
				c := g.dial(t, r, "ada-x")
				go func() {
					for change, err := range c.Watch(ctx,
						client.WatchFilter{URIs: []string{"lib://open", "lib://secret"}}) {
						switch {
						case err != nil && change.URI == "":
							return
						case err != nil: // this resource is denied now; the other is still watched
						case change.Resync:
							synced <- struct{}{}
						default:
							updates <- change.URI
						}
					}
				}()
				select {
				case <-synced:
				case <-ctx.Done():
					t.Fatal("not subscribed")
				}
				g.gateway.ResourceUpdated("lib://open")
				expectMessage(t, updates, "lib://open")
				g.set(rules...)
				if r.Modern() {
					expectMessage(t, g.denied, "resources/subscribe lib://open")
					expectMessage(t, g.denied, "resources/subscribe lib://open") // the client subscribes again
				}
				for received := 0; received < 4; {
					if received > 0 { // updates from before the change have arrived
						g.gateway.ResourceUpdated("lib://open")
					}
					g.gateway.ResourceUpdated("lib://secret")
					select {
					case got := <-updates:
						if got == "lib://secret" {
							received++
						} else if received > 0 {
							t.Fatalf("updated %s", got)
						}
					case <-time.After(200 * time.Millisecond): // the client is subscribing again
					case <-ctx.Done():
						t.Fatal("no update")
					}
				}
			})
		}
	}
}

// watching is a gateway whose policy allows callers with the scope watch to subscribe to lib://open and to templates.
type watching struct {
	url string
	up  *server.Server

	records chan string // audit records about subscriptions
}

func newWatching(t *testing.T) *watching {
	w := &watching{up: &server.Server{Name: "library"}, records: make(chan string, 64)}
	for _, uri := range []string{"lib://open", "lib://closed"} {
		server.AddStatic(w.up, mcp.Resource{URI: uri, Name: uri}, "text")
	}
	server.AddTemplate(w.up, mcp.ResourceTemplate{URITemplate: "notes://{book}", Name: "notes"},
		func(_ context.Context, _ map[string]string) (string, error) { return "text", nil })
	s := &server.Server{Name: "gateway", Version: "1"}
	endpoint := httptest.NewUnstartedServer(s)
	w.url = "http://" + endpoint.Listener.Addr().String() + "/"
	s.Auth = &auth.ProtectedResource{URI: w.url, Issuers: []string{"https://issuer.example"},
		Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
			subject, scope, _ := strings.Cut(token, "-")
			who, err := principal.New("https://issuer.example", subject, "")
			return &auth.Info{Principal: who, Scopes: []string{scope}, Audience: []string{w.url},
				Expiry: time.Now().Add(time.Hour)}, err
		})}
	gatewaytest.Run(t, &host.Host{
		Servers: []host.ServerConfig{httpConfig(t, "up", w.up)},
		Policy: host.Rules{Rules: []host.Rule{
			{Method: mcp.MethodSubscribe, Resource: "lib://closed", Action: host.Deny, Reason: "closed"},
			{Method: mcp.MethodSubscribe, Scope: "watch", Action: host.Allow},
			{Method: mcp.MethodSubscribe, Action: host.Deny, Reason: "scope watch is missing"},
		}, Default: host.Allow},
		Audit: gatewaytest.Audit(func(_ context.Context, r map[string]any) error {
			if r["method"] == mcp.MethodSubscribe {
				w.records <- fmt.Sprint(r["event"], " ", r["subject"], " ", r["name"])
			}
			return nil
		}),
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

// expect waits for the wanted records about subscriptions, which must be sorted.
func (w *watching) expect(t *testing.T, want ...string) {
	t.Helper()
	got := make([]string, 0, len(want))
	for range want {
		got = append(got, must.Receive(t, w.records, "a record about "+fmt.Sprint(want)))
	}
	slices.Sort(got)
	must.CheckThat(t, slices.Equal(got, want), "the audit log has %q, want %q", got, want)
}

// dial returns a client with a token.
func (w *watching) dial(t *testing.T, r mcp.Revision, token string) *client.Client {
	d := client.Dialer{Revision: r, Logger: quiet}
	c, err := d.Dial(t.Context(), &client.HTTPTarget{URL: w.url,
		Header: http.Header{"Authorization": {"Bearer " + token}}})
	must.Do(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// Rules by scope and principal decide on the subscription of each client.
func TestPolicyDecidesAboutTheSubscriptionOfEachClient(t *testing.T) {
	w := newWatching(t)
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			ada, bob := w.dial(t, r, "ada-watch"), w.dial(t, r, "bob-read")
			next, stop := iter.Pull2(ada.Watch(ctx, client.WatchFilter{URIs: []string{"lib://open", "lib://closed",
				"notes://a"}}))
			defer stop()
			accepted := make(map[string]bool)
			for range 2 {
				change, err, _ := next()
				must.Do(t, err)
				accepted[change.URI] = true
			}
			must.CheckThat(t, !accepted["lib://closed"],
				"the client has subscribed to a resource that the policy denies")
			w.expect(t, "allowed ada lib://open", "allowed ada notes://a", "denied ada lib://closed")
			for _, err := range bob.Watch(ctx, client.WatchFilter{URIs: []string{"lib://open"}}) {
				switch {
				case err == nil:
					t.Error("bob has subscribed")
				case !r.Modern() && !strings.Contains(err.Error(), "scope watch is missing"):
					t.Errorf("bob's error is %v", err)
				}
				break
			}
			w.expect(t, "denied bob lib://open")
			w.up.ResourceUpdated("lib://closed")
			w.up.ResourceUpdated("notes://a")
			refused, updated := 0, false
			for refused == 0 || !updated { // in any order
				change, err, ok := next()
				switch {
				case !ok:
					t.Fatalf("the watch has ended: refused %d, updated %v", refused, updated)
				case err != nil && change.URI == "lib://closed":
					refused++
				case err != nil || change.URI == "lib://closed":
					t.Fatalf("%+v, %v", change, err)
				case change.URI == "notes://a" && !change.Resync:
					updated = true
				default:
					w.up.ResourceUpdated("notes://a") // the gateway subscribes after the client
				}
			}
			must.CheckEqual(t, refused, 1)
		})
	}
}

// The policy cannot decide on resources that are not registered, so no client can subscribe to them.
func TestClientsCannotSubscribeToUnknownResourcesIfThereIsAPolicy(t *testing.T) {
	w := newWatching(t)
	for _, r := range mcp.Revisions() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		for _, err := range w.dial(t, r, "ada-watch").Watch(ctx, client.WatchFilter{URIs: []string{"lib://later"}}) {
			must.CheckThat(t, err != nil, "%s: the client has subscribed", r)
			break
		}
		cancel()
	}
	select {
	case got := <-w.records:
		t.Errorf("the audit log has %q", got)
	default:
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
	h := &host.Host{Servers: []host.ServerConfig{{Name: "up", Target: client.URL(up.URL)}}, Logger: quiet,
		Policy: host.Rules{Default: host.Allow}}
	s := &server.Server{Name: "gateway", Version: "1", Logger: quiet}
	g := must.Get(gateway.New(h, s))(t)
	g.Logger = quiet
	catalogs, once := s.Catalogs, sync.Once{}
	s.Catalogs = func(ctx context.Context) ([]*server.Catalog, error) { // called if the server does not know the URI
		once.Do(func() { close(asked) })
		return catalogs(ctx)
	}
	must.Do(t, h.Start())
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
		must.Do(t, err)
		must.CheckEqual(t, change.URI, "lib://a", change)
		break
	}
}
