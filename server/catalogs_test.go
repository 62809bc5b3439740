package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/transport"
)

// callerAuth takes the name of the caller and its scopes from a token, with dots between them.
func callerAuth(t testing.TB) *auth.ProtectedResource {
	const uri = "http://localhost/mcp"
	return &auth.ProtectedResource{
		URI: uri, Issuers: []string{"https://issuer.example"},
		Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
			names := strings.Split(token, ".")
			return &auth.Info{
				Principal: person(t, names[0]), Scopes: names[1:], Audience: []string{uri},
				Expiry: time.Now().Add(time.Hour),
			}, nil
		}),
	}
}

// withToken sends a token.
type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// withStatus is withToken, and remembers whether a response had the status 403.
type withStatus struct {
	withToken
	forbidden atomic.Bool
}

func (w *withStatus) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.withToken.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusForbidden {
		w.forbidden.Store(true)
	}
	return response, err
}

// forCallers runs f for every revision over HTTP and over a byte stream. dial connects a client of a caller.
func forCallers(t *testing.T, f func(t *testing.T, s *server.Server, dial func(caller string) *client.Client)) {
	for _, revision := range mcp.Revisions() {
		configure := func(d *client.Dialer) { d.Revision = revision }
		t.Run(string(revision)+"/http", func(t *testing.T) {
			s := quiet()
			s.Auth = callerAuth(t)
			url := wiretest.Serve(t, s)
			f(t, s, func(caller string) *client.Client {
				return dialed(t, client.URL(url), configure, func(d *client.Dialer) {
					d.HTTPClient = &http.Client{Transport: withToken(caller)}
				})
			})
		})
		t.Run(string(revision)+"/stream", func(t *testing.T) {
			s := quiet()
			f(t, s, func(caller string) *client.Client {
				near, far := transport.Pipe()
				ctx, stop := context.WithCancel(context.Background())
				served := make(chan struct{})
				go func() {
					defer close(served)
					_ = s.ServeConnAs(ctx, far, person(t, caller))
				}()
				t.Cleanup(func() {
					stop()
					<-served
				})
				return dialed(t, client.Conn(near), configure)
			})
		})
	}
}

func dialed(t *testing.T, target client.Target, configure ...func(*client.Dialer)) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d := new(client.Dialer)
	for _, f := range configure {
		f(d)
	}
	c := must.Get(d.Dial(ctx, target))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// changesOf returns the changes of which a client learns, after it has begun to watch.
func changesOf(t *testing.T, c *client.Client, filter client.WatchFilter) <-chan client.Change {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	learned, began, ended := make(chan client.Change, 100), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		first := true
		for change, err := range c.Watch(ctx, filter) {
			if first {
				first = false
				close(began)
			}
			if err == nil && !change.Resync {
				learned <- change
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	<-began
	return learned
}

func wantChange(t *testing.T, learned <-chan client.Change, want client.Change) {
	t.Helper()
	must.CheckEqual(t, must.Receive(t, learned, fmt.Sprintf("%+v", want)), want)
}

// has returns the names in the four lists of a client.
func has(t *testing.T, c *client.Client) string {
	t.Helper()
	var names []string
	add := func(name string, err error) {
		must.Do(t, err)
		names = append(names, name)
	}
	for e, err := range c.Tools(t.Context(), client.WithRefresh()) {
		add(e.Name, err)
	}
	for e, err := range c.Prompts(t.Context(), client.WithRefresh()) {
		add(e.Name, err)
	}
	for e, err := range c.Resources(t.Context(), client.WithRefresh()) {
		add(e.Name, err)
	}
	for e, err := range c.ResourceTemplates(t.Context(), client.WithRefresh()) {
		add(e.Name, err)
	}
	return strings.Join(names, " ")
}

// uses requests an entry of each kind by its name, and returns those of which the server has none.
func uses(t *testing.T, c *client.Client, name string) (missing []string) {
	t.Helper()
	_, tool := c.CallTool(t.Context(), name, nil)
	_, prompt := c.GetPrompt(t.Context(), name, nil)
	_, resource := c.ReadResource(t.Context(), "x:"+name)
	_, template := c.ReadResource(t.Context(), "x:"+name+"/1")
	_, completion := c.Complete(t.Context(), mcp.CompleteParams{
		Ref: mcp.CompleteReference{Type: mcp.RefResource,
			URI: "x:" + name + "/{v}"}, Argument: mcp.CompleteArgument{Name: "v"},
	})
	for kind, err := range map[string]error{"tool": tool, "prompt": prompt, "resource": resource, "template": template,
		"completion": completion} {
		rejected := new(jsonrpc.Error)
		switch {
		case errors.Is(err, call.ErrResourceNotFound), errors.As(err, &rejected) &&
			strings.HasPrefix(rejected.Message, "unknown "):
			missing = append(missing, kind)
		case err != nil:
			t.Errorf("%s %s: %v", kind, name, err)
		}
	}
	slices.Sort(missing)
	return missing
}

var everyKind = []string{"completion", "prompt", "resource", "template", "tool"}

// Each tenant has entries of its own, of which other tenants neither see nor learn anything.
func TestTenantsHaveTheirCatalogs(t *testing.T) {
	forCallers(t, func(t *testing.T, s *server.Server, dial func(string) *client.Client) {
		tenants := map[string]*server.Catalog{"ada": new(server.Catalog), "bob": new(server.Catalog)}
		s.Catalogs = func(ctx context.Context) ([]*server.Catalog, error) {
			return []*server.Catalog{tenants[server.PrincipalOf(ctx).Subject()], nil}, nil
		}
		addEntries(s, "prices")
		addEntries(tenants["ada"], "refund")
		addEntries(tenants["bob"], "prices report") // the server's own prices come first
		ada, bob := dial("ada"), dial("bob")
		must.CheckEqual(t, has(t, ada), strings.Repeat("prices refund ", 3)+"prices refund")
		must.CheckEqual(t, has(t, bob), strings.Repeat("prices report ", 3)+"prices report")
		for _, c := range []struct {
			c       *client.Client
			name    string
			missing []string
		}{{ada, "prices", nil}, {ada, "refund", nil}, {ada, "report", everyKind}, {bob, "report", nil}, {bob, "refund",
			everyKind}} {
			got := uses(t, c.c, c.name)
			must.CheckThat(t, slices.Equal(got, c.missing), "%s: missing %v, want %v", c.name, got, c.missing)
		}
		filter := client.WatchFilter{Tools: true, Prompts: true, URIs: []string{"x:refund", "x:prices"}}
		hers, his := changesOf(t, ada, filter), changesOf(t, bob, filter)
		tenants["ada"].ResourceUpdated("x:refund")
		wantChange(t, hers, client.Change{Kind: client.ResourceUpdated, URI: "x:refund"})
		server.AddTool(tenants["ada"], mcp.Tool{Name: "more"}, nothing)
		wantChange(t, hers, client.Change{Kind: client.ToolsChanged})
		s.RemovePrompt("prices")
		wantChange(t, hers, client.Change{Kind: client.PromptsChanged})
		wantChange(t, his, client.Change{Kind: client.PromptsChanged}) // and nothing before it
		delete(tenants, "bob")
		s.CatalogsChanged(person(t, "bob"))
		if his := <-his; his.Kind == client.ResourceUpdated {
			t.Errorf("Bob learns of %+v", his)
		}
		got := uses(t, bob, "report")
		must.CheckThat(t, slices.Equal(got, everyKind), "Bob keeps what he had: missing %v", got)
	})
}

// A session has tools that it has asked for, of which other sessions have none.
func TestSessionsHaveTheirCatalogs(t *testing.T) {
	for _, revision := range mcp.Revisions() {
		if revision.Modern() { // it has no sessions
			continue
		}
		t.Run(string(revision), func(t *testing.T) {
			var mu sync.Mutex
			sessions := make(map[string]*server.Catalog)
			ofSession := func(ctx context.Context) *server.Catalog {
				mu.Lock()
				defer mu.Unlock()
				id := call.From(ctx).Source()
				if sessions[id] == nil {
					sessions[id] = new(server.Catalog)
				}
				return sessions[id]
			}
			s := quiet()
			s.Catalogs = func(ctx context.Context) ([]*server.Catalog, error) {
				return []*server.Catalog{ofSession(ctx)}, nil
			}
			server.AddTool(s, mcp.Tool{Name: "open"}, func(ctx context.Context, _ struct{}) (string, error) {
				server.AddTool(ofSession(ctx), mcp.Tool{Name: "build"}, nothing)
				return "", nil
			})
			configure := func(d *client.Dialer) { d.Revision = revision }
			one, other := mcptest.DialHTTP(t, s, configure), mcptest.DialHTTP(t, s, configure)
			if first, second := has(t, one), has(t, other); first != "open" || second != "open" {
				t.Errorf("first %s and %s", first, second)
			}
			learned := changesOf(t, one, client.WatchFilter{Tools: true})
			must.Get(one.CallTool(t.Context(), "open", nil))(t)
			wantChange(t, learned, client.Change{Kind: client.ToolsChanged})
			if first, second := has(t, one), has(t, other); first != "build open" || second != "open" {
				t.Errorf("then %s and %s", first, second)
			}
			must.Check(t, must.Err(one.CallTool(t.Context(), "build", nil)))
			_, err := other.CallTool(t.Context(), "build", nil)
			must.CheckThat(t, err != nil, "the other session has the tool")
		})
	}
}

// plugins has a catalog for each file of a directory. The file has the names of tools; a file that is not valid costs
// its own tools only.
type plugins struct {
	server    *server.Server
	directory string
	loaded    atomic.Pointer[[]*server.Catalog]
}

func (p *plugins) reload() {
	var all []*server.Catalog
	files, _ := filepath.Glob(filepath.Join(p.directory, "*.json"))
	for _, file := range files {
		var tools []string
		raw, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(raw, &tools) != nil {
			continue
		}
		c := new(server.Catalog)
		for _, name := range tools {
			server.AddTool(c, mcp.Tool{Name: name}, func(context.Context, struct{}) (string, error) {
				return file, nil
			})
		}
		all = append(all, c)
	}
	p.loaded.Store(&all)
	p.server.CatalogsChanged()
}

func TestPluginsOfADirectoryAreServed(t *testing.T) {
	var p *plugins
	write := func(file, content string) {
		must.Check(t, os.WriteFile(filepath.Join(p.directory, file), []byte(content), 0o600))
	}
	mcptest.Everywhere(t, func() *server.Server {
		p = &plugins{server: quiet(), directory: t.TempDir()}
		p.server.Catalogs = func(context.Context) ([]*server.Catalog, error) { return *p.loaded.Load(), nil }
		write("a.json", `["format"]`)
		p.reload()
		return p.server
	}, func(t *testing.T, c *client.Client) {
		must.CheckEqual(t, has(t, c), "format")
		learned := changesOf(t, c, client.WatchFilter{Tools: true})
		write("a.json", `["format","lint"]`)
		write("b.json", `["test"]`)
		write("c.json", `["bro`)
		p.reload()
		wantChange(t, learned, client.Change{Kind: client.ToolsChanged})
		must.CheckEqual(t, has(t, c), "format lint test")
		for _, name := range []string{"format", "lint", "test"} {
			must.Check(t, must.Err(c.CallTool(t.Context(), name, nil)))
		}
	})
}

// The clients of a caller learn of changes at another replica, and other callers do not.
func TestChangesOfCatalogsReachTheirCallersAtEveryReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := store.NewMemory()
		type replica struct {
			*server.Server
			hers server.Catalog
		}
		var replicas []*replica
		for range 2 {
			r := &replica{Server: &server.Server{Store: shared, Logger: slog.New(slog.DiscardHandler)}}
			r.Catalogs = func(ctx context.Context) ([]*server.Catalog, error) {
				if server.PrincipalOf(ctx) == person(t, "ada") {
					return []*server.Catalog{&r.hers}, nil
				}
				return nil, nil
			}
			addEntries(&r.hers, "a")
			must.Do(t, r.Check())
			defer r.Shutdown(t.Context())
			replicas = append(replicas, r)
		}
		synctest.Wait()
		first, second := replicas[0], replicas[1]
		listen := request(1, mcp.MethodListen,
			`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:a"]}`)
		var streams []*line
		for _, who := range []string{"ada", "bob"} {
			for _, r := range replicas {
				pagesOf(t, connectLineAs(t, r.Server, person(t, who)), mcp.MethodListTools)
			}
			stream := connectLineAs(t, first.Server, person(t, who))
			stream.Send(listen)
			stream.Receive()
			streams = append(streams, stream)
		}
		hers, his := streams[0], streams[1]
		server.AddTool(&second.hers, newTool("b"), nothing)
		must.CheckContains(t, hers.Receive(), "tools/list_changed")
		second.hers.ResourceUpdated("x:a")
		must.CheckContains(t, hers.Receive(), "resources/updated")
		second.CatalogsChanged(person(t, "ada"))
		must.CheckContains(t, hers.Receive(), "tools/list_changed")
		second.ResourceUpdated("x:a") // for every caller
		must.CheckContains(t, his.Receive(), "resources/updated")
	})
}

// Every way to an entry of a catalog needs its scopes.
func TestEntriesOfCatalogsNeedTheirScopes(t *testing.T) {
	s := quiet()
	var extra server.Catalog
	addEntries(&extra, "a", server.RequireScopes("write"))
	s.Catalogs = func(context.Context) ([]*server.Catalog, error) { return []*server.Catalog{&extra}, nil }
	s.Auth = callerAuth(t)
	url := wiretest.Serve(t, s)
	for _, revision := range []mcp.Revision{mcp.V20241105, mcp.V20250326, mcp.V20251125, mcp.V20260728} {
		for token, granted := range map[string]bool{"ada": false, "ada.read": false, "bob.read.write": true} {
			wire := &withStatus{withToken: withToken(token)}
			c := dialed(t, client.URL(url), func(d *client.Dialer) {
				d.Revision = revision
				d.HTTPClient = &http.Client{Transport: wire}
			})
			for _, err := range c.Tools(t.Context()) { // the server knows the catalog after that
				must.Check(t, err)
			}
			_, tool := c.CallTool(t.Context(), "a", nil)
			must.CheckThat(t, wire.forbidden.Load() != granted, "%s, %s: got status 403: %v", revision, token, granted)
			_, prompt := c.GetPrompt(t.Context(), "a", nil)
			_, resource := c.ReadResource(t.Context(), "x:a")
			_, template := c.ReadResource(t.Context(), "x:a/1")
			_, completion := c.Complete(t.Context(), mcp.CompleteParams{
				Ref:      mcp.CompleteReference{Type: mcp.RefResource, URI: "x:a/{v}"},
				Argument: mcp.CompleteArgument{Name: "v"},
			})
			for way, err := range map[string]error{"tool": tool, "prompt": prompt, "resource": resource,
				"template":   template,
				"completion": completion} {
				if (err == nil) != granted || err != nil && !regexp.MustCompile("scope|403").MatchString(err.Error()) {
					t.Errorf("%s, %s of %s: %v", revision, way, token, err)
				}
			}
		}
	}
}

// A subscription to a resource of a catalog needs its scopes, is checked by BeforeSubscribe, and is followed.
func TestResourcesOfCatalogsAreSubscribedTo(t *testing.T) {
	d := newDiary()
	s := quiet()
	var extra server.Catalog
	s.Catalogs = func(context.Context) ([]*server.Catalog, error) { return []*server.Catalog{&extra}, nil }
	server.AddStatic(&extra, mcp.Resource{URI: "x:scoped", Name: "scoped"}, "", server.RequireScopes("write"))
	server.AddStatic(&extra, mcp.Resource{URI: "x:denied", Name: "denied"}, "",
		server.BeforeSubscribe(func(context.Context, string) error { return errors.New("no") }))
	server.AddStatic(&extra, mcp.Resource{URI: "x:open", Name: "open"}, "", server.WhileSubscribed(d.follow))
	l := connectLineAs(t, s, person(t, "ada"))
	scoped := `"notifications":{"resourceSubscriptions":["x:scoped"]}`
	l.wantError(mcp.MethodListen, scoped, jsonrpc.CodeInvalidRequest, "scope")
	l.Send(request(1, mcp.MethodListen, `"notifications":{"resourceSubscriptions":["x:denied","x:open"]}`))
	got := l.Receive()
	must.CheckThat(t, strings.Contains(got, "x:open") && !strings.Contains(got, "x:denied"), "%v", got)
	d.expect(t, "+x:open")
	extra.ResourceUpdated("x:open")
	must.CheckContains(t, l.Receive(), "resources/updated")
	l.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	d.expect(t, "-x:open")
}

// An error of Catalogs is that of the request, unless the server itself has what the request names.
func TestAnErrorOfCatalogsFailsTheRequest(t *testing.T) {
	s := quiet()
	addEntries(s, "a")
	s.Catalogs = func(context.Context) ([]*server.Catalog, error) {
		return nil, jsonrpc.Errorf(-4711, "the directory is down")
	}
	l := connectLine(t, s)
	for method, params := range map[string]string{
		mcp.MethodListTools: "", mcp.MethodCallTool: `"name":"b"`, mcp.MethodGetPrompt: `"name":"b"`,
		mcp.MethodReadResource: `"uri":"x:b"`, mcp.MethodListen: `"notifications":{"resourceSubscriptions":["x:b"]}`,
		mcp.MethodComplete: `"ref":{"type":"ref/prompt","name":"b"},"argument":{"name":"v","value":""}`,
	} {
		l.wantError(method, params, -4711, "the directory is down")
	}
	got := l.callTool(`"name":"a"`)
	must.CheckThat(t, !got.failed, "the server's own tool: %+v", got)
}

// giveTo gives a caller catalogs that no other caller has.
func giveTo(s *server.Server, caller principal.Principal, catalogs ...*server.Catalog) {
	s.Catalogs = func(ctx context.Context) ([]*server.Catalog, error) {
		if server.PrincipalOf(ctx) == caller {
			return catalogs, nil
		}
		return nil, nil
	}
}

// A function of WhileSubscribed runs for the caller who has the resource, and only that caller learns of updates and
// of changes of the lists.
func TestUpdatesForOneCallerReachThatCaller(t *testing.T) {
	d := newDiary()
	s, hers := quiet(), new(server.Catalog)
	ada, bob := person(t, "ada"), person(t, "bob")
	giveTo(s, ada, hers)
	server.AddStatic(hers, mcp.Resource{URI: "note://secret", Name: "secret"}, "", server.WhileSubscribed(d.follow))
	adas, bobs := connectLineAs(t, s, ada), connectLineAs(t, s, bob)
	listen := request(1, mcp.MethodListen, `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["note://secret"]}`)
	bobs.Send(listen)
	bobs.Receive()
	adas.Send(listen)
	adas.Receive()
	d.expect(t, "+note://secret")
	s.ResourceUpdated("note://secret", ada)
	s.ResourceUpdated("note://other", bob)
	must.CheckContains(t, adas.Receive(), "resources/updated")
	s.CatalogsChanged(ada)
	must.CheckContains(t, adas.Receive(), "tools/list_changed")
	s.CatalogsChanged(bob)
	must.CheckContains(t, bobs.Receive(), "tools/list_changed") // and nothing before it
	adas.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	d.expect(t, "-note://secret")
}

// What a Catalog, a Server and a struct that embeds one of them can be given is the same.
func TestEveryRegistrarHasEveryKindOfEntries(t *testing.T) {
	type plugin struct{ server.Catalog }
	_, root := tree(t, map[string]string{"a": ""})
	for _, to := range []server.Registrar{new(server.Catalog), new(server.Server), new(plugin),
		&struct{ *server.Server }{new(server.Server)}} {
		server.AddTool(to, mcp.Tool{Name: "a"}, nothing)
		server.AddPrompt(to, mcp.Prompt{Name: "a"}, nothing)
		server.AddResource(to, mcp.Resource{URI: "x:a", Name: "a"}, text("a"))
		server.AddStatic(to, mcp.Resource{URI: "x:b", Name: "b"}, "b")
		server.AddTemplate(to, mcp.ResourceTemplate{URITemplate: "x:{b}/c", Name: "b"},
			func(context.Context, map[string]string) (string, error) { return "", nil }, server.CompleteFrom("b", "a"))
		server.AddFS(to, "x:/d", root, server.FSOptions{}).Updated("a")
		server.AddExtension(to, server.Extension{ID: "com.example/a"})
		for name, add := range map[string]func(){
			"tool":     func() { server.AddTool(to, mcp.Tool{Name: "a"}, nothing) },
			"prompt":   func() { server.AddPrompt(to, mcp.Prompt{Name: "a"}, nothing) },
			"resource": func() { server.AddResource(to, mcp.Resource{URI: "x:b", Name: "a"}, text("a")) },
			"template": func() { server.AddFS(to, "x:/d", root, server.FSOptions{}) },
		} {
			must.CheckContains(t, panicOf(add), "already in use", to, name)
		}
	}
}
