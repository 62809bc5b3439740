package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// ownEntries adds a tool, a prompt, a resource and a template for each user that other users cannot see.
func ownEntries(s *server.Server, users ...string) {
	for _, name := range users {
		only := server.VisibleTo(func(who principal.Principal, _ string) bool {
			subject, _, _ := strings.Cut(who.Subject(), "@")
			return subject == name
		})
		hello := func(context.Context, none) (string, error) { return "of " + name, nil }
		server.AddTool(s, mcp.Tool{Name: name + "_only"}, hello, only)
		server.AddPrompt(s, mcp.Prompt{Name: name + "_only"}, hello, only)
		server.AddStatic(s, mcp.Resource{URI: "lib://" + name, Name: name}, "of "+name, only)
		type id struct {
			ID string `json:"id"`
		}
		server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: name + "://{id}", Name: name},
			func(context.Context, id) (string, error) { return "of " + name, nil }, only)
	}
}

// ownTool adds a tool that only one user can see.
func ownTool(s *server.Server, user, name string) {
	server.AddTool(s, mcp.Tool{Name: name}, func(context.Context, none) (string, error) { return "of " + user, nil },
		server.VisibleTo(func(who principal.Principal, _ string) bool { return who.Subject() == user }))
}

func toolNames(t *testing.T, c *client.Client) (names []string) {
	t.Helper()
	for tool, err := range c.Tools(t.Context(), client.WithRefresh()) {
		must.Do(t, err)
		names = append(names, tool.Name)
	}
	return names
}

// A server that lists nothing without a login offers each caller a tool to log in, and afterwards the caller's own
// lists, in every revision and at each of two replicas.
func TestCallersSeeTheirOwnLists(t *testing.T) {
	t.Parallel()
	for _, theirs := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		for _, ours := range everyRevision {
			t.Run(fmt.Sprintf("%s to %s", ours, theirs), func(t *testing.T) {
				b := newBrokered(t, theirs, "ada", "bob")
				ownEntries(b.up.Server, "ada", "bob")
				b.config = func(callers *host.CallerAuth) host.ServerConfig { // the operator has no credentials
					return host.ServerConfig{Name: "up", Target: client.URL(b.up.url), CallerAuth: callers}
				}
				b.start()
				for _, name := range []string{"ada", "bob"} {
					b.useOwn(name, ours)
				}
				for header := range b.up.headers() {
					if _, token, _ := strings.Cut(header, " "); token != "" {
						info, err := b.up.issued.Verify(t.Context(), token)
						must.CheckThat(t, err == nil && strings.HasSuffix(info.Principal.Subject(), "@up"),
							"the server has received %q: %v", header, err)
					}
				}
			})
		}
	}
}

func (b *brokered) useOwn(name string, r mcp.Revision) {
	t := b.t
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var browsing sync.WaitGroup
	defer browsing.Wait()
	c := b.dialBrowsing(name, r, &browsing)
	got := toolNames(t, c)
	must.That(t, slices.Equal(got, []string{"up__login"}), "%s has the tools %v before the login", name, got)
	result, err := c.CallTool(ctx, "up__login", nil)
	if err == nil && r < mcp.V20251125 { // revisions without elicitation by URL
		if err := b.browser(name).logIn(ctx, anyURL.FindString(text(result.Content))); err != nil {
			t.Fatalf("%s after %q: %v", name, text(result.Content), err)
		}
		result, err = c.CallTool(ctx, "up__login", nil)
	}
	must.That(t, err == nil && !result.IsError &&
		strings.Contains(text(result.Content), "is logged in to the server up"), "%s: %+v, %v", name, result, err)
	want := []string{"up__" + name + "_only", "up__whoami"}
	for range 4 { // at both replicas
		got := toolNames(t, c)
		must.CheckThat(t, slices.Equal(got, want), "%s has the tools %v, want %v", name, got, want)
		if got, err := client.CallTool[string](ctx, c, "up__"+name+"_only", nil); err != nil || got != "of "+name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got, err := c.GetPrompt(ctx, "up__"+name+"_only", nil); err != nil ||
			text([]mcp.Content{got.Messages[0].Content}) != "of "+name {
			t.Errorf("prompt of %s: %v, %v", name, got, err)
		}
		for _, uri := range []string{"server:up/lib://" + name, "server:up/" + name + "://1"} {
			got, err := c.ReadResource(ctx, uri)
			must.CheckThat(t, err == nil && got.Contents[0].Text == "of "+name && got.Contents[0].URI == uri,
				"%s of %s: %+v, %v", uri, name, got, err)
		}
	}
	other := map[string]string{"ada": "bob", "bob": "ada"}[name]
	must.CheckFails(t, must.Err(c.CallTool(ctx, "up__"+other+"_only", nil)), "unknown tool", name, other)
	if _, err := c.ReadResource(ctx, "server:up/lib://"+other); err == nil {
		t.Errorf("%s reads the resource of %s", name, other)
	}
}

// Callers whose tokens are exchanged see their own lists at once. Only one request for the lists of a caller is in
// flight at a time, and only that caller learns of changes.
func TestListsOfCallersWithExchangedTokens(t *testing.T) {
	u := newUsers(t, "ada", "bob")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	ownEntries(p.Server, "ada", "bob")
	x.up[p.url] = p
	u.start(&host.Host{Servers: []host.ServerConfig{p.config("up", x.callers())}})
	var listing sync.WaitGroup
	for _, name := range []string{"ada", "bob"} {
		c := u.dial(name, mcp.V20260728)
		for range 10 {
			listing.Go(func() {
				if got := toolNames(t, c); !slices.Equal(got, []string{"up__" + name + "_only", "up__whoami"}) {
					t.Errorf("%s has the tools %v", name, got)
				}
			})
		}
	}
	listing.Wait()
	for header, n := range p.headers() { // four lists and the discovery, and at most one more of the shared client
		must.CheckThat(t, !strings.HasPrefix(header, "Bearer exchanged-") || n <= 6,
			"the server has received %d requests with %q", n, header)
	}
}

// The tools that the operator sees are offered to callers without a login. When a caller has logged in, only
// that caller's clients learn that the lists have changed.
func TestCallersWithoutALoginSeeTheListsOfTheOperator(t *testing.T) {
	b := newBrokered(t, mcp.V20260728, "ada", "bob")
	ownEntries(b.up.Server, "ada", "operator")
	b.start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	clients, changes := make(map[string]*client.Client), make(map[string]chan client.Change)
	for _, name := range []string{"ada", "bob"} {
		c, changed := b.dial(name, mcp.V20251125), make(chan client.Change, 100)
		clients[name], changes[name] = c, changed
		for range 2 { // at both replicas
			if got, want := toolNames(t, c), []string{"up__login", "up__operator_only",
				"up__whoami"}; !slices.Equal(got, want) {
				t.Errorf("%s has the tools %v, want %v", name, got, want)
			}
		}
		open := make(chan struct{})
		go func() {
			for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
				switch {
				case err != nil:
				case change.Resync:
					close(open)
				default:
					changed <- change
				}
			}
		}()
		<-open
	}
	must.Do(t, b.browser("ada").logIn(ctx, b.origin()+"/login/start/up"))
	must.CheckEqual(t, must.Get(client.CallTool[string](ctx, clients["ada"], "up__whoami", nil))(t), "ada@up")
	select {
	case <-changes["ada"]:
	case <-ctx.Done():
		t.Error("ada has received no change of the lists")
	}
	select {
	case <-changes["bob"]:
		t.Error("bob has received a change of the lists")
	default:
	}
	if got, want := toolNames(t, clients["ada"]), []string{"up__ada_only", "up__whoami"}; !slices.Equal(got, want) {
		t.Errorf("after the login, ada has the tools %v, want %v", got, want)
	}
}

// A name that another server uses does not appear in the lists of callers, and the other server keeps it.
func TestNamesOfOtherServersAreNotTakenByTheListsOfCallers(t *testing.T) {
	u := newUsers(t, "ada")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	ownEntries(p.Server, "ada")
	x.up[p.url] = p
	other := &server.Server{Name: "other"}
	server.AddTool(other, mcp.Tool{Name: "ada_only"}, func(context.Context, none) (string, error) {
		return "of the other", nil
	})
	server.AddTool(other, mcp.Tool{Name: "more"}, func(context.Context, none) (string, error) { return "", nil })
	prefix := "up"
	config := httpConfig(t, "other", other)
	config.Prefix = prefix
	u.start(&host.Host{Servers: []host.ServerConfig{config, p.config("up", x.callers())}})
	c := u.dial("ada", mcp.V20260728)
	if got, want := toolNames(t, c), []string{"up__ada_only", "up__more", "up__whoami"}; !slices.Equal(got, want) {
		t.Errorf("tools %v, want %v", got, want)
	}
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "up__ada_only", nil))(t), "of the other")
}

// When a server with CallerAuth reports that its lists have changed for a caller, each of two replicas uses the new
// lists and notifies only the clients of that caller, whichever replica holds the client's stream. More revisions,
// without replicas: TestWhatAServerSendsReachesNoOtherClient.
func TestChangesOfTheListsOfACallerReachItsClients(t *testing.T) {
	t.Parallel()
	for _, theirs := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		for _, ours := range []mcp.Revision{mcp.V20241105, mcp.V20251125, mcp.V20260728} {
			t.Run(fmt.Sprintf("%s to %s", ours, theirs), func(t *testing.T) {
				u := newUsers(t, "ada", "bob")
				x := newExchange(t, u)
				p := newProtectedServer(t, x.URL)
				ownEntries(p.Server, "ada", "bob")
				x.up[p.url] = p
				kv := store.NewMemory()
				u.replicas = nil
				for range 2 {
					s := &server.Server{Name: "gateway", Version: "1", Auth: u.resource(), Store: kv,
						Keys: [][]byte{make([]byte, 32)}}
					h := &host.Host{Servers: []host.ServerConfig{p.config("up", x.callers())},
						Dialer: client.Dialer{Revision: theirs}}
					gatewaytest.Run(t, h, s)
					t.Cleanup(func() { s.Shutdown(context.Background()) })
					u.replicas = append(u.replicas, s)
				}
				u.front.Start()
				t.Cleanup(u.front.Close)
				ada, bob := listenAs(t, u, "ada", ours), listenAs(t, u, "bob", ours)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				for round := 0; ; round++ { // until the watch has begun
					name := fmt.Sprintf("ada_new%d", round)
					ownTool(p.Server, "ada", name)
					want := "up__" + name
					if ada.sees(ctx, want) {
						break
					}
					must.Do(t, ctx.Err(), "Ada does not see", want)
				}
				ownTool(p.Server, "ada", "ada_last")
				for !ada.sees(ctx, "up__ada_last") || !ada.seesAtBoth("up__ada_last") {
					must.Do(t, ctx.Err(), "a replica has the previous lists, and has not notified Ada of others")
				}
				select {
				case <-bob.changed:
					t.Error("Bob has received a change of the lists")
				default:
				}
			})
		}
	}
}

// A server that is removed and added again before the gateway notices is watched again.
func TestListsOfACallerAreWatchedAgainWhenTheirServerReturns(t *testing.T) {
	u := newUsers(t, "ada")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	ownEntries(p.Server, "ada")
	x.up[p.url] = p
	unwatched := make(chan struct{}, 100)
	p.Server.WhileListening = func(ctx context.Context) {
		<-ctx.Done()
		unwatched <- struct{}{}
	}
	other := weatherServer()
	up, otherConfig := p.config("up", x.callers()), inMemory(t, "weather", other)
	h := &host.Host{Servers: []host.ServerConfig{otherConfig, up}}
	var pause atomic.Bool
	paused, goOn := make(chan struct{}), make(chan struct{})
	gatewaytest.Run(t, h, u.server, func(g *gateway.Gateway) {
		g.OnSize = func(gateway.Size) { // called by Run
			if pause.CompareAndSwap(true, false) {
				close(paused)
				<-goOn
			}
		}
	})
	u.front.Start()
	t.Cleanup(u.front.Close)
	t.Cleanup(func() { u.server.Shutdown(context.Background()) })
	ada := listenAs(t, u, "ada", mcp.V20260728)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	awaitChange := func(tool string) {
		t.Helper()
		for round := 0; ; round++ { // until the watch has begun
			name := fmt.Sprint(tool, round)
			ownTool(p.Server, "ada", name)
			if ada.sees(ctx, "up__"+name) {
				return
			}
			must.Do(t, ctx.Err(), "Ada does not see", name)
		}
	}
	awaitChange("before")
	pause.Store(true)
	server.AddTool(other, mcp.Tool{Name: "more"}, func(context.Context, none) (string, error) { return "", nil })
	<-paused
	must.Do(t, h.SetServers([]host.ServerConfig{otherConfig}))
	<-unwatched
	for stacks := make([]byte, 1<<20); bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("WatchCaller(")); {
		if runtime.Gosched(); ctx.Err() != nil {
			t.Fatal("the watch does not end")
		}
	}
	must.Do(t, h.SetServers([]host.ServerConfig{otherConfig, up}))
	close(goOn)
	for !slices.Contains(toolNames(t, ada.Client), "up__before0") {
		must.Do(t, ctx.Err(), "the server does not return")
	}
	awaitChange("after")
}

// listening is a client with an open stream for changes of the list of tools.
type listening struct {
	*client.Client
	t       *testing.T
	changed chan struct{}
}

func listenAs(t *testing.T, u *users, name string, r mcp.Revision) *listening {
	l := &listening{u.dial(name, r), t, make(chan struct{}, 1000)}
	open := make(chan struct{})
	go func() {
		begun := false
		for change, err := range l.Watch(t.Context(), client.WatchFilter{Tools: true}) {
			switch {
			case err != nil:
			case change.Resync && !begun:
				begun = true
				close(open)
			default:
				l.changed <- struct{}{}
			}
		}
	}()
	<-open
	for range 2 { // both replicas exchange a token
		toolNames(t, l.Client)
	}
	return l
}

// sees waits for a notification of a change, lists the tools, and reports whether a tool is in the list.
func (l *listening) sees(ctx context.Context, tool string) bool {
	select {
	case <-l.changed:
		return slices.Contains(toolNames(l.t, l.Client), tool)
	case <-time.After(2 * time.Second): // the watch at the server has not begun
	case <-ctx.Done():
	}
	return false
}

// seesAtBoth reports whether a tool is in the lists of both replicas.
func (l *listening) seesAtBoth(tool string) bool {
	for range 4 {
		if !slices.Contains(toolNames(l.t, l.Client), tool) {
			return false
		}
	}
	return true
}

// Callers subscribe to resources that only they have at a server, and receive only updates of those.
func TestCallersSubscribeToTheirOwnResources(t *testing.T) {
	for _, theirs := range []mcp.Revision{mcp.V20250618, mcp.V20260728} {
		for _, ours := range []mcp.Revision{mcp.V20241105, mcp.V20251125, mcp.V20260728} {
			t.Run(fmt.Sprintf("%s to %s", ours, theirs), func(t *testing.T) {
				u := newUsers(t, "ada", "bob")
				x := newExchange(t, u)
				p := newProtectedServer(t, x.URL)
				ownEntries(p.Server, "ada", "bob")
				x.up[p.url] = p
				u.start(&host.Host{Servers: []host.ServerConfig{p.config("up", x.callers())},
					Dialer: client.Dialer{Revision: theirs}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				updates := make(map[string]chan client.Change)
				for _, name := range []string{"ada", "bob"} {
					c, changes := u.dial(name, ours), make(chan client.Change, 1000)
					updates[name] = changes
					go func() {
						for change, err := range c.Watch(ctx,
							client.WatchFilter{URIs: []string{"server:up/lib://ada", "server:up/lib://bob"}}) {
							if err == nil && !change.Resync {
								changes <- change
							}
						}
					}()
				}
				for name, other := range map[string]string{"ada": "bob", "bob": "ada"} {
					for received := false; !received; { // until the subscription has reached the server
						p.ResourceUpdated("lib://" + name)
						select {
						case change := <-updates[name]:
							must.CheckEqual(t, change.URI, "server:up/lib://"+name, name)
							received = true
						case change := <-updates[other]:
							if change.URI != "server:up/lib://"+other { // a late update of the first round may follow
								t.Errorf("%s has received an update of %s", other, change.URI)
							}
						case <-time.After(50 * time.Millisecond):
						case <-ctx.Done():
							t.Fatalf("%s has received no update", name)
						}
					}
				}
			})
		}
	}
}

// What the policy always denies to a caller is hidden from the caller's lists of a server with CallerAuth, even if
// the caller shares these lists with others.
func TestDeniedEntriesAreHiddenFromTheListsOfCallers(t *testing.T) {
	const (
		hidden = "server:up/lib://both up__open"
		every  = "server:up/lib://both server:up/lib://secret server:up/secret://{id} up__open up__secret up__secret " +
			"up__whoami up__whoami"
	)
	denied := make(chan string, 100)
	u := newUsers(t, "ada", "bob")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	addSecret(p)
	x.up[p.url] = p
	h := &host.Host{
		Servers: []host.ServerConfig{p.config("up", x.callers())},
		Policy: host.Rules{Default: host.Allow, Rules: []host.Rule{
			{When: isAda, WhenForLists: true, Action: host.Allow},
			{Method: "*/*", Tool: "secret", Prompt: "secret", Resource: "lib://secret", Action: host.Deny},
			{Resource: "secret://*", Action: host.Deny},
			{Tool: "whoami", Prompt: "whoami", Action: host.Deny},
		}},
		Audit: gatewaytest.Audit(func(_ context.Context, r map[string]any) error {
			if r["event"] == "denied" {
				denied <- fmt.Sprint(r["subject"], " ", r["name"])
			}
			return nil
		}),
	}
	u.start(h)
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			ada, bob := u.dial("ada", r), u.dial("bob", r)
			must.CheckEqual(t, allListed(t, ada), every)
			must.CheckEqual(t, allListed(t, bob), hidden)
			must.Check(t, must.Err(client.CallTool[string](t.Context(), ada, "up__secret", nil)))
			must.CheckFails(t, must.Err(client.CallTool[string](t.Context(), bob, "up__secret", nil)), "is denied",
				"the call of the hidden tool ends")
			expectMessage(t, denied, "bob secret")
		})
	}
}

func addSecret(p *protectedServer) {
	hello := func(context.Context, none) (string, error) { return "hello", nil }
	server.AddTool(p.Server, mcp.Tool{Name: "open"}, hello)
	server.AddTool(p.Server, mcp.Tool{Name: "secret"}, hello)
	server.AddPrompt(p.Server, mcp.Prompt{Name: "secret"}, hello)
	server.AddStatic(p.Server, mcp.Resource{URI: "lib://both", Name: "both"}, "text")
	server.AddStatic(p.Server, mcp.Resource{URI: "lib://secret", Name: "secret"}, "text")
	type id struct {
		ID string `json:"id"`
	}
	server.AddTemplate(p.Server, mcp.ResourceTemplate{URITemplate: "secret://{id}", Name: "secret"},
		func(context.Context, id) (string, error) { return "text", nil })
}
