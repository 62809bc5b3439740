package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
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
			server.AddPrompt(of, mcp.Prompt{Name: name}, func(context.Context, choice) (string, error) { return whose, nil })
			server.AddStatic(of, mcp.Resource{URI: "note://" + name, Name: name}, whose, options...)
			server.AddTemplate(of, mcp.ResourceTemplate{URITemplate: name + "://{which}", Name: name}, func(context.Context, choice) (string, error) { return whose, nil }, options...)
		}
	}
	server.AddTool(hers, mcp.Tool{Name: "scoped"}, func(context.Context, struct{}) (string, error) { return "", nil }, server.RequireScopes("admin"))
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
		{mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"%s://{which}"},"argument":{"name":"which","value":""}`},
		{mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"%s://a"},"argument":{"name":"which","value":""}`},
	} {
		for name, want := range map[string]string{"secret": "hers", "both": "all", "open": "all"} {
			if c.method == mcp.MethodComplete {
				want = `"values":["a","b"]`
			}
			if result, err := ada.ask(c.method, fmt.Sprintf(c.params, name)); err != nil || !strings.Contains(string(result), want) {
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

func TestListsHavePersonalEntriesInOrder(t *testing.T) {
	for size := 1; size <= 7; size++ {
		s, _ := personal(t)
		s.PageSize = size
		s.ListCache = server.CachePolicy{Public: true}
		for who, want := range map[string]string{"ada": "[a both open secret x]", "bob": "[both open x]"} {
			l := connectLineAs(t, s, person(t, who))
			var names []string
			cursor := ""
			for range 10 {
				raw, err := l.ask(mcp.MethodListTools, cursor)
				if err != nil {
					t.Fatal(err)
				}
				var page mcp.ListToolsResult
				if err := json.Unmarshal(raw, &page); err != nil {
					t.Fatal(err)
				}
				for _, tool := range page.Tools {
					names = append(names, tool.Name)
				}
				if private := strings.Contains(string(raw), `"cacheScope":"private"`); private != (who == "ada") {
					t.Errorf("%s: %s", who, raw)
				}
				if page.NextCursor == nil {
					break
				}
				cursor = `"cursor":` + string(jsonrpc.AppendString(nil, *page.NextCursor))
			}
			if fmt.Sprint(names) != want {
				t.Errorf("pages of %d: %s has %v, want %s", size, who, names, want)
			}
		}
	}
}

// A function of WhileSubscribed runs for the caller who has the resource, and only that caller learns of updates and
// of changes of the lists.
func TestSubscriptionsToPersonalResources(t *testing.T) {
	d := newDiary()
	s, _ := personal(t, server.WhileSubscribed(d.follow))
	ada, bob := person(t, "ada"), person(t, "bob")
	hers, his := connectLineAs(t, s, ada), connectLineAs(t, s, bob)
	listen := request(1, mcp.MethodListen, `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["note://secret"]}`)
	his.send(listen)
	his.receive()
	hers.send(listen)
	hers.receive()
	d.expect(t, "+note://secret")
	s.PersonalUpdated(ada, "note://secret")
	s.PersonalUpdated(bob, "note://other")
	if got := hers.receive(); !strings.Contains(got, "resources/updated") {
		t.Error(got)
	}
	s.PersonalChanged(ada)
	if got := hers.receive(); !strings.Contains(got, "tools/list_changed") {
		t.Error(got)
	}
	s.PersonalChanged(bob)
	if got := his.receive(); !strings.Contains(got, "tools/list_changed") { // and nothing before it
		t.Error(got)
	}
	hers.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	d.expect(t, "-note://secret")
}

// Hide of a server of Personal hides the entries of that server, and Hide of the server itself hides those of both.
func TestPersonalEntriesAreHidden(t *testing.T) {
	for _, c := range []struct {
		s, hers string // what they hide
		want    string
	}{
		{"", "secret", "a both open x"},
		{"a", "x", "both open secret x"},
		{"x", "a", "both open secret"},
	} {
		s, hers := personal(t)
		s.Hide, hers.Hide = hideName(c.s), hideName(c.hers)
		type named struct {
			Name string `json:"name"`
		}
		server.AddTool(s, mcp.Tool{Name: "zz_find"}, func(ctx context.Context, in named) (string, error) {
			_, ok := s.LookupTool(ctx, in.Name)
			return fmt.Sprintf("found: %t", ok), nil
		})
		ada := connectLineAs(t, s, person(t, "ada"))
		raw, err := ada.ask(mcp.MethodListTools, "")
		if err != nil {
			t.Fatal(err)
		}
		var page mcp.ListToolsResult
		if err := json.Unmarshal(raw, &page); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range page.Tools[:len(page.Tools)-1] {
			names = append(names, tool.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("with %q and %q hidden: %s, want %s", c.s, c.hers, got, c.want)
		}
		for _, name := range []string{"a", "both", "open", "secret", "x"} {
			raw, err := ada.ask(mcp.MethodCallTool, fmt.Sprintf(`"name":"zz_find","arguments":{"name":%q}`, name))
			if want := fmt.Sprintf("found: %t", slices.Contains(names, name)); err != nil || !strings.Contains(string(raw), want) {
				t.Errorf("with %q and %q hidden, LookupTool of %q: %s, %v; want %s", c.s, c.hers, name, raw, err, want)
			}
		}
	}
}

// hideName returns a function for server.Server.Hide that hides one name from every caller.
func hideName(hidden string) func(principal.Principal) func(list, name string) bool {
	return func(principal.Principal) func(list, name string) bool {
		return func(_, name string) bool { return name == hidden }
	}
}
