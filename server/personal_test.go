package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// personal returns a server with entries for all callers, and one that Ada has too. Both have an entry "both".
func personal(t testing.TB, options ...server.ResourceOption) (s, hers *server.Server) {
	ada := person(t, "ada")
	s, hers = &server.Server{Logger: slog.New(slog.DiscardHandler)}, &server.Server{}
	hers.Personal = func(context.Context) []*server.Server { panic("the server of a caller must not be asked") }
	type choice struct {
		Which string `json:"which" enum:"a,b"`
	}
	for of, names := range map[*server.Server][]string{s: {"both", "open", "x"}, hers: {"both", "secret", "a"}} {
		whose := map[bool]string{true: "all", false: "hers"}[of == s]
		for _, name := range names {
			handler := func(context.Context, struct{}) (string, error) { return whose, nil }
			server.AddTool(of, mcp.Tool{Name: name}, handler)
			server.AddPrompt(of, mcp.Prompt{Name: name},
				func(context.Context, choice) (string, error) { return whose, nil })
			server.AddStatic(of, mcp.Resource{URI: "note://" + name, Name: name}, whose, options...)
			server.AddTemplate(of, mcp.ResourceTemplate{URITemplate: name + "://{which}", Name: name},
				func(context.Context, choice) (string, error) { return whose, nil }, options...)
		}
	}
	server.AddTool(hers, mcp.Tool{Name: "scoped"}, func(context.Context, struct{}) (string, error) {
		return "", nil
	}, server.RequireScopes("admin"))
	s.Personal = func(ctx context.Context) []*server.Server {
		if server.PrincipalOf(ctx) == ada {
			return []*server.Server{hers}
		}
		return nil
	}
	return s, hers
}

func TestCallersHavePersonalEntries(t *testing.T) {
	s, _ := personal(t)
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
		for name, want := range map[string]string{"secret": "hers", "both": "all", "open": "all"} {
			if c.method == mcp.MethodComplete {
				want = `"values":["a","b"]`
			}
			if result, err := ada.ask(c.method, fmt.Sprintf(c.params, name)); err != nil ||
				!strings.Contains(string(result), want) {
				t.Errorf("%s %s of Ada: %s, %v", c.method, name, result, err)
			}
		}
		same := func(e *jsonrpc.Error) string {
			return strings.ReplaceAll(fmt.Sprintf("%d %s %s", e.Code, e.Message, e.Data), "absent", "secret")
		}
		_, hidden := bob.ask(c.method, fmt.Sprintf(c.params, "secret"))
		_, unknown := bob.ask(c.method, fmt.Sprintf(c.params, "absent"))
		if hidden == nil || unknown == nil || same(hidden) != same(unknown) {
			t.Errorf("%s %s to Bob: %v, %v", c.method, c.params, hidden, unknown)
		}
	}
	ada.wantError(mcp.MethodCallTool, `"name":"scoped"`, jsonrpc.CodeInvalidParams, "unknown tool")
}

// A function of WhileSubscribed runs for the caller who has the resource, and only that caller learns of updates and
// of changes of the lists.
func TestSubscriptionsToPersonalResources(t *testing.T) {
	d := newDiary()
	s, _ := personal(t, server.WhileSubscribed(d.follow))
	ada, bob := person(t, "ada"), person(t, "bob")
	hers, his := connectLineAs(t, s, ada), connectLineAs(t, s, bob)
	listen := request(1, mcp.MethodListen,
		`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["note://secret"]}`)
	his.Send(listen)
	his.Receive()
	hers.Send(listen)
	hers.Receive()
	d.expect(t, "+note://secret")
	s.PersonalUpdated(ada, "note://secret")
	s.PersonalUpdated(bob, "note://other")
	if got := hers.Receive(); !strings.Contains(got, "resources/updated") {
		t.Error(got)
	}
	s.CatalogsChanged(ada)
	if got := hers.Receive(); !strings.Contains(got, "tools/list_changed") {
		t.Error(got)
	}
	s.CatalogsChanged(bob)
	if got := his.Receive(); !strings.Contains(got, "tools/list_changed") { // and nothing before it
		t.Error(got)
	}
	hers.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	d.expect(t, "-note://secret")
}
