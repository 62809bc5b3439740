package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// person is an authenticated caller.
func person(t testing.TB, name string) principal.Principal {
	t.Helper()
	who := must.Get(principal.New("https://issuer.example", name, ""))(t)
	return who
}

// connectLineAs serves a connection of an authenticated client.
func connectLineAs(t testing.TB, s *server.Server, who principal.Principal) *line {
	return &line{wiretest.Connect(t, func(ctx context.Context, conn transport.Conn) error {
		return s.ServeConnAs(ctx, conn, who)
	})}
}

// secretive returns a server with one entry of each kind for every caller, and one for Ada.
func secretive(t testing.TB) (s *server.Server, forAda server.Option) {
	ada := person(t, "ada")
	forAda = server.VisibleTo(func(who principal.Principal, _ string) bool { return who == ada })
	s = &server.Server{Logger: slog.New(slog.DiscardHandler)}
	nothing := func(context.Context, struct{}) (string, error) { return "done", nil }
	server.AddTool(s, mcp.Tool{Name: "open"}, nothing)
	server.AddTool(s, mcp.Tool{Name: "secret"}, nothing, forAda)
	server.AddPrompt(s, mcp.Prompt{Name: "open"}, nothing)
	type choice struct {
		Which string `json:"which" enum:"a,b"`
	}
	server.AddPrompt(s, mcp.Prompt{Name: "secret"}, func(context.Context, choice) (string, error) {
		return "done", nil
	}, forAda)
	server.AddStatic(s, mcp.Resource{URI: "note://open", Name: "open"}, "o")
	server.AddStatic(s, mcp.Resource{URI: "note://secret", Name: "secret"}, "s", forAda,
		server.Cached(server.CachePolicy{TTL: 1e9, Public: true}))
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "open://{which}", Name: "open"},
		func(context.Context, choice) (string, error) { return "o", nil })
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "secret://{which}", Name: "secret"},
		func(context.Context, choice) (string, error) { return "s", nil }, forAda)
	return s, forAda
}

// Rule R7: a request for a hidden entry gets the same response as one for a missing entry.
func TestHiddenEntriesAreUnknownToOthers(t *testing.T) {
	s, _ := secretive(t)
	ada, bob := connectLineAs(t, s, person(t, "ada")), connectLineAs(t, s, person(t, "bob"))
	for _, c := range []struct{ method, params string }{
		{mcp.MethodCallTool, `"name":"%s"`},
		{mcp.MethodGetPrompt, `"name":"%s","arguments":{"which":"a"}`},
		{mcp.MethodReadResource, `"uri":"note://%s"`},
		{mcp.MethodReadResource, `"uri":"%s://a"`},
		{mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"%s"},"argument":{"name":"which","value":""}`},
		{mcp.MethodComplete,
			`"ref":{"type":"ref/resource","uri":"%s://{which}"},"argument":{"name":"which","value":""}`},
		{mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"%s://a"},"argument":{"name":"which","value":""}`},
	} {
		_, err := ada.ask(c.method, fmt.Sprintf(c.params, "secret"))
		must.CheckThat(t, err == nil, "%s %s to Ada: %v", c.method, c.params, err)
		_, hidden := bob.ask(c.method, fmt.Sprintf(c.params, "secret"))
		_, unknown := bob.ask(c.method, fmt.Sprintf(c.params, "absent"))
		if hidden == nil || unknown == nil {
			t.Errorf("%s %s to Bob: %v, %v", c.method, c.params, hidden, unknown)
			continue
		}
		same := func(e *jsonrpc.Error) string {
			return strings.ReplaceAll(fmt.Sprintf("%d %s %s", e.Code, e.Message, e.Data), "absent", "secret")
		}
		must.CheckEqual(t, same(hidden), same(unknown), c.method, c.params, hidden, unknown)
	}
}

// Rule C1: contents that only some callers can see are cached privately, whatever the policy is.
func TestContentsOfHiddenResourcesArePrivate(t *testing.T) {
	s, _ := secretive(t)
	raw, err := connectLineAs(t, s, person(t, "ada")).ask(mcp.MethodReadResource, `"uri":"note://secret"`)
	must.CheckThat(t, err == nil && strings.Contains(string(raw), `"ttlMs":1000,"cacheScope":"private"`),
		"%s, %v", raw, err)
}

// A panic in VisibleTo hides the entry and is logged.
func TestAPanickingVisibleToHides(t *testing.T) {
	var log strings.Builder
	s := &server.Server{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	server.AddTool(s, mcp.Tool{Name: "odd"}, func(context.Context, struct{}) (string, error) { return "", nil },
		server.VisibleTo(func(principal.Principal, string) bool { panic("no idea") }))
	l := connectLine(t, s)
	l.wantError(mcp.MethodCallTool, `"name":"odd"`, jsonrpc.CodeInvalidParams, "unknown tool")
	must.CheckContains(t, log.String(), "no idea")
}

// Rule R7: a hidden directory hides all its files.
func TestADirectoryCanBeHidden(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(dir+"/secret.txt", []byte("s"), 0o600))
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	ada := person(t, "ada")
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	server.AddFS(s, "file:///dir/", root, server.FSOptions{},
		server.VisibleTo(func(who principal.Principal, name string) bool {
			return who == ada && name == "file:///dir/{+path}"
		}))
	for who, sees := range map[principal.Principal]bool{ada: true, person(t, "bob"): false} {
		l := connectLineAs(t, s, who)
		list, _ := l.ask(mcp.MethodListResources, "")
		must.CheckEqual(t, strings.Contains(string(list), "secret.txt"), sees, who, list)
		must.CheckContains(t, string(list), `"private"`, who, list)
		_, err := l.ask(mcp.MethodReadResource, `"uri":"file:///dir/secret.txt"`)
		must.CheckThat(t, (err == nil) == sees, "%s reads: %v", who, err)
	}
}

// Rules N1, R7: changes are reported to the callers that can see the entry, in both eras. A subscription to a
// hidden resource has no effect.
func TestChangesOfHiddenEntriesReachTheirCallersOnly(t *testing.T) {
	const everything = `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["note://secret",` +
		`"note://open"]}`
	begin := map[string]func(l *line){
		"2026-07-28": func(l *line) {
			l.Send(request(9, mcp.MethodListen, everything))
			must.Contains(l.T, l.Receive(), "acknowledged")
		},
		"2025-11-25": func(l *line) {
			l.Send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
				`"clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`)
			l.Receive()
			l.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			for _, uri := range []string{"note://secret", "note://open"} {
				l.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":%q}}`, uri))
				must.Equal(l.T, l.Receive(), `{"jsonrpc":"2.0","id":2,"result":{}}`, uri)
			}
		},
	}
	for name, begin := range begin {
		t.Run(name, func(t *testing.T) {
			s, forAda := secretive(t)
			ada, bob := connectLineAs(t, s, person(t, "ada")), connectLineAs(t, s, person(t, "bob"))
			begin(ada)
			begin(bob)
			must.Do(t, s.RegisterTool(mcp.Tool{Name: "more"}, raw, forAda))
			s.ResourceUpdated("note://secret")
			s.RemoveTool("secret")
			s.ResourceUpdated("note://open") // the last notification, which both receive
			var heard []string
			for len(heard) == 0 || !strings.Contains(heard[len(heard)-1], "note://secret") {
				heard = append(heard, ada.Receive())
			}
			all := strings.Join(heard, "\n")
			must.CheckContains(t, all, mcp.NotificationToolListChanged)
			must.CheckContains(t, all, "note://secret")
			must.CheckContains(t, bob.Receive(), "note://open")
		})
	}
}

// VisibleTo is called once for each principal when an entry changes.
func TestVisibleToIsCalledOncePerPrincipalForAChange(t *testing.T) {
	var asked atomic.Int32
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	s.Declare(mcp.MethodCallTool)
	bob := person(t, "bob")
	l := connectLineAs(t, s, bob)
	for id := range 5 {
		l.Send(request(id, mcp.MethodListen, `"notifications":{"toolsListChanged":true}`))
		l.Receive()
	}
	must.Do(t, s.RegisterTool(mcp.Tool{Name: "x"}, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
		return nil, nil
	},
		server.VisibleTo(func(principal.Principal, string) bool { asked.Add(1); return false })))
	must.CheckEqual(t, asked.Load(), 1)
}

// ways are the requests that name an entry of a server with entries.
var ways = []struct{ name, method, params string }{
	{"a tool", mcp.MethodCallTool, `"name":"%s"`},
	{"a tool, through one that calls others", mcp.MethodCallTool, `"name":"do","arguments":{"name":"%s"}`},
	{"a prompt", mcp.MethodGetPrompt, `"name":"%s"`},
	{"a resource", mcp.MethodReadResource, `"uri":"%s://a"`},
	{"a resource of a template", mcp.MethodReadResource, `"uri":"%s://t/b"`},
	{"the completion of a prompt", mcp.MethodComplete,
		`"ref":{"type":"ref/prompt","name":"%s"},"argument":{"name":"x","value":""}`},
	{"the completion of a template", mcp.MethodComplete,
		`"ref":{"type":"ref/resource","uri":"%s://t/{x}"},"argument":{"name":"x","value":""}`},
	{"a subscription", mcp.MethodListen, `"notifications":{"resourceSubscriptions":["%s://a"]}`},
	{"a subscription to a resource of a template", mcp.MethodListen,
		`"notifications":{"resourceSubscriptions":["%s://t/b"]}`},
	{"a subscription of a session", mcp.MethodSubscribe, `"uri":"%s://a"`},
}

// use sends a request for the entry with a name, one of ways, and returns the response, or the acknowledgement of a
// subscription.
func use(l *line, method, params, name string) string {
	message := request(2, method, fmt.Sprintf(params, name))
	if method == mcp.MethodSubscribe {
		l.Handshake("2025-11-25")
		message = fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":%q,"params":{%s}}`, method, fmt.Sprintf(params, name))
	}
	got := l.Ask(message)
	for !strings.Contains(got, `"id":2`) && !strings.Contains(got, "acknowledged") && got != "" { // changes of lists
		got = l.Receive()
	}
	return got
}

// offerEntries adds an entry of each kind with a name. Each handler calls ran.
func offerEntries(s *server.Catalog, name string, ran func(), options ...server.Option) {
	s.RemoveTool(name)
	s.RemovePrompt(name)
	s.RemoveResource(name + "://a")
	s.RemoveTemplate(name + "://t/{x}")
	resource := append([]server.Option{server.BeforeSubscribe(func(context.Context, string) error {
		ran()
		return nil
	})}, options...)
	type input struct {
		X string `json:"x,omitempty"`
	}
	text := func(context.Context, input) (string, error) { ran(); return "done", nil }
	complete := server.Complete("x", func(context.Context, string, map[string]string) ([]string, error) {
		ran()
		return nil, nil
	})
	server.AddTool(s, mcp.Tool{Name: name}, text, options...)
	server.AddPrompt(s, mcp.Prompt{Name: name}, text, append(options, complete)...)
	server.AddResource(s, mcp.Resource{URI: name + "://a", Name: name},
		func(context.Context) (string, error) { ran(); return "done", nil }, resource...)
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: name + "://t/{x}", Name: name}, text, append(resource, complete)...)
}

// An entry may be removed, and added again with a scope, while a request for it is authorized. The entry that was
// authorized serves the request.
func TestEntryThatIsReplacedDuringARequestDoesNotServeIt(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
			var before, unchecked atomic.Int32
			var replaced atomic.Bool
			offerEntries(&s.Catalog, "other", func() {}, server.RequireScopes("other")) // otherwise nothing needs to be authorized
			offerEntries(&s.Catalog, "it", func() { before.Add(1) }, server.VisibleTo(func(principal.Principal, string) bool {
				if !replaced.Swap(true) {
					offerEntries(&s.Catalog, "it", func() { unchecked.Add(1) }, server.RequireScopes("admin"))
				}
				return true
			}))
			addCaller(t, s)
			got := use(connectLineAs(t, s, person(t, "ada")), way.method, way.params, "it")
			must.CheckThat(t, unchecked.Load() == 0 && before.Load() == 1,
				"the entry that was added ran %d times, that before %d times: %s", unchecked.Load(), before.Load(), got)
		})
	}
}

// rules are the ways to offer an entry to Ada alone.
var rules = map[string]func(s *server.Server, ada principal.Principal, ran func()){
	"a scope": func(s *server.Server, _ principal.Principal, ran func()) {
		offerEntries(&s.Catalog, "it", ran, server.RequireScopes("admin"))
	},
	"VisibleTo": func(s *server.Server, ada principal.Principal, ran func()) {
		offerEntries(&s.Catalog, "it", ran, server.VisibleTo(func(who principal.Principal, _ string) bool { return who == ada }))
	},
	"a catalog": func(s *server.Server, ada principal.Principal, ran func()) {
		hers := new(server.Catalog)
		offerEntries(hers, "it", ran)
		giveTo(s, ada, hers)
	},
}

// Each request for an entry is served for the callers to whom the entry is offered, and no handler runs for others.
func TestEntriesServeAuthorizedCallersOnly(t *testing.T) {
	ada, bob := person(t, "ada"), person(t, "bob")
	for rule, offer := range rules {
		for _, way := range ways {
			t.Run(rule+"/"+way.name, func(t *testing.T) {
				s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
				var ran atomic.Int32
				offer(s, ada, func() { ran.Add(1) })
				offerEntries(&s.Catalog, "open", func() {})
				addCaller(t, s)
				connect := func(who principal.Principal, scope string) *line {
					return connectLineWith(t, s, &auth.Info{Principal: who, Scopes: []string{scope}})
				}
				if got := use(connect(ada, "admin"), way.method, way.params, "it"); ran.Load() != 1 ||
					strings.Contains(got, `"error"`) {
					t.Errorf("Ada: %d handlers run: %s", ran.Load(), got)
				}
				got := use(connect(bob, "user"), way.method, way.params, "it")
				want := use(connect(bob, "user"), way.method, way.params, "absent")
				if rule == "a scope" {
					want = got
					must.CheckContains(t, got, "insufficient scope: the call needs admin")
				}
				if got = strings.ReplaceAll(got, `"it`, `"absent`); got != strings.ReplaceAll(want, `"it`, `"absent`) {
					t.Errorf("Bob: %s\nfor an entry that nobody has: %s", got, want)
				}
				must.CheckEqual(t, ran.Load(), 1)
			})
		}
	}
}

// connectLineWith serves a connection of a client whose token has this information.
func connectLineWith(t testing.TB, s *server.Server, info *auth.Info) *line {
	return &line{wiretest.Connect(t, func(ctx context.Context, conn transport.Conn) error {
		return s.ServeConnAs(auth.NewContext(ctx, info), conn, info.Principal)
	})}
}
