package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

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
