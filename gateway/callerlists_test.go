package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// ownEntries adds a tool, a prompt, a resource and a template for each user, which others cannot see.
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
		server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: name + "://{id}", Name: name}, func(context.Context, id) (string, error) { return "of " + name, nil }, only)
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
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// A server that lists nothing without a login offers each caller a tool to log in, and afterwards its own lists, in
// every revision and at each of two replicas.
func TestCallersSeeTheirOwnLists(t *testing.T) {
	for _, theirs := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		for _, ours := range everyRevision {
			t.Run(fmt.Sprintf("%s to %s", ours, theirs), func(t *testing.T) {
				b := newBrokered(t, theirs, "ada", "bob")
				ownEntries(b.up.Server, "ada", "bob")
				b.config = func(callers *host.CallerAuth) host.ServerConfig { // without credentials of the operator
					return host.ServerConfig{Name: "up", Target: client.URL(b.up.url), CallerAuth: callers}
				}
				b.start()
				for _, name := range []string{"ada", "bob"} {
					b.useOwn(name, ours)
				}
				for header := range b.up.headers() {
					if _, token, _ := strings.Cut(header, " "); token != "" {
						if info, err := b.up.issued.Verify(t.Context(), token); err != nil || !strings.HasSuffix(info.Principal.Subject(), "@up") {
							t.Errorf("the server has received %q: %v", header, err)
						}
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
	if got := toolNames(t, c); !slices.Equal(got, []string{"up__login"}) {
		t.Fatalf("%s has the tools %v before the login", name, got)
	}
	result, err := c.CallTool(ctx, "up__login", nil)
	if err == nil && r < mcp.V20251125 { // without elicitation by URL
		if err := b.browser(name).logIn(ctx, anyURL.FindString(text(result.Content))); err != nil {
			t.Fatalf("%s after %q: %v", name, text(result.Content), err)
		}
		result, err = c.CallTool(ctx, "up__login", nil)
	}
	if err != nil || result.IsError || !strings.Contains(text(result.Content), "is logged in to the server up") {
		t.Fatalf("%s: %+v, %v", name, result, err)
	}
	want := []string{"up__" + name + "_only", "up__whoami"}
	for range 4 { // at both replicas
		if got := toolNames(t, c); !slices.Equal(got, want) {
			t.Errorf("%s has the tools %v, want %v", name, got, want)
		}
		if got, err := client.CallTool[string](ctx, c, "up__"+name+"_only", nil); err != nil || got != "of "+name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got, err := c.GetPrompt(ctx, "up__"+name+"_only", nil); err != nil || text([]mcp.Content{got.Messages[0].Content}) != "of "+name {
			t.Errorf("prompt of %s: %v, %v", name, got, err)
		}
		for _, uri := range []string{"server:up/lib://" + name, "server:up/" + name + "://1"} {
			if got, err := c.ReadResource(ctx, uri); err != nil || got.Contents[0].Text != "of "+name || got.Contents[0].URI != uri {
				t.Errorf("%s of %s: %+v, %v", uri, name, got, err)
			}
		}
	}
	other := map[string]string{"ada": "bob", "bob": "ada"}[name]
	if _, err := c.CallTool(ctx, "up__"+other+"_only", nil); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("%s calls the tool of %s: %v", name, other, err)
	}
	if _, err := c.ReadResource(ctx, "server:up/lib://"+other); err == nil {
		t.Errorf("%s reads the resource of %s", name, other)
	}
}

// Callers with credentials by token exchange see their own lists at once. One request for the lists of a caller is in
// flight at a time, and only that caller learns of their changes.
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
		if strings.HasPrefix(header, "Bearer exchanged-") && n > 6 {
			t.Errorf("the server has received %d requests with %q", n, header)
		}
	}
}

// The tools that the operator sees are offered to callers without a login. When a caller has logged in, only its clients
// learn that the lists have changed.
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
			if got, want := toolNames(t, c), []string{"up__login", "up__operator_only", "up__whoami"}; !slices.Equal(got, want) {
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
	if err := b.browser("ada").logIn(ctx, b.origin()+"/login/start/up"); err != nil {
		t.Fatal(err)
	}
	if who, err := client.CallTool[string](ctx, clients["ada"], "up__whoami", nil); err != nil || who != "ada@up" {
		t.Errorf("%q, %v", who, err)
	}
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

// A name that another server has is not in the lists of callers, and the other server keeps it.
func TestNamesOfOtherServersAreNotTakenByTheListsOfCallers(t *testing.T) {
	u := newUsers(t, "ada")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	ownEntries(p.Server, "ada")
	x.up[p.url] = p
	other := &server.Server{Name: "other"}
	server.AddTool(other, mcp.Tool{Name: "ada_only"}, func(context.Context, none) (string, error) { return "of the other", nil })
	server.AddTool(other, mcp.Tool{Name: "more"}, func(context.Context, none) (string, error) { return "", nil })
	prefix := "up"
	config := httpConfig(t, "other", other)
	config.Prefix = &prefix
	u.start(&host.Host{Servers: []host.ServerConfig{config, p.config("up", x.callers())}})
	c := u.dial("ada", mcp.V20260728)
	if got, want := toolNames(t, c), []string{"up__ada_only", "up__more", "up__whoami"}; !slices.Equal(got, want) {
		t.Errorf("tools %v, want %v", got, want)
	}
	if got, err := client.CallTool[string](t.Context(), c, "up__ada_only", nil); err != nil || got != "of the other" {
		t.Errorf("%q, %v", got, err)
	}
}
