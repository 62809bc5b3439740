package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

var listMethods = map[string]string{ // and the arrays of their results
	mcp.MethodListTools: "tools", mcp.MethodListPrompts: "prompts", mcp.MethodListResources: "resources",
	mcp.MethodListResourceTemplates: "resourceTemplates",
}

// addEntries adds a tool, a prompt, a resource and a template of each name.
func addEntries(to server.Registrar, names string, options ...server.Option) {
	nothing := func(context.Context, struct{}) (string, error) { return "", nil }
	for name := range strings.FieldsSeq(names) {
		server.AddTool(to, mcp.Tool{Name: name}, nothing, options...)
		server.AddPrompt(to, mcp.Prompt{Name: name}, nothing, options...)
		server.AddStatic(to, mcp.Resource{URI: "x:" + name, Name: name}, "", options...)
		server.AddTemplate(to, mcp.ResourceTemplate{URITemplate: "x:" + name + "/{v}", Name: name},
			func(context.Context, map[string]string) (string, error) { return "", nil }, options...)
	}
}

// pageAfter requests the page of a list after a cursor, "" for the first page. It returns the names of its entries.
func pageAfter(t *testing.T, l *line, method, cursor string) (names []string, next string, scope mcp.CacheScope) {
	t.Helper()
	params := ""
	if cursor != "" {
		params = fmt.Sprintf(`"cursor":%q`, cursor)
	}
	raw, rejected := l.ask(method, params)
	must.That(t, rejected == nil, "%s from %q: %v", method, cursor, rejected)
	var page struct {
		NextCursor *string
		CacheScope mcp.CacheScope
	}
	var entries []struct{ Name string }
	array, _ := jsonrpc.Get(raw, listMethods[method])
	must.Do(t, json.Unmarshal(raw, &page))
	must.Do(t, json.Unmarshal(array, &entries), raw)
	for _, e := range entries {
		names = append(names, e.Name)
	}
	if page.NextCursor != nil {
		next = *page.NextCursor
		must.CheckThat(t, next != "", "the next cursor is empty")
	}
	return names, next, page.CacheScope
}

// pagesOf returns the names of all entries of a list, with | between its pages, and the scope for caches.
func pagesOf(t *testing.T, l *line, method string) (pages string, scope mcp.CacheScope) {
	t.Helper()
	names, next, scope := pageAfter(t, l, method, "")
	pages = strings.Join(names, " ")
	for next != "" {
		names, next, _ = pageAfter(t, l, method, next)
		pages += "|" + strings.Join(names, " ")
	}
	return pages, scope
}

// names lists the names of the tools after a cursor, "" for the first page.
func names(t *testing.T, l *line, cursor string) (page []string, next string) {
	t.Helper()
	page, next, _ = pageAfter(t, l, mcp.MethodListTools, cursor)
	return page, next
}

// listed leaves entries out of the lists of every caller, or does not.
func listed(yes bool) server.Option { return server.Listed(unlisted, !yes) }

var unlisted = &server.ListFilter{Hides: func(principal.Principal, string) func(subject any) bool {
	return func(subject any) bool { return subject.(bool) }
}}

// Each list has what its caller has, in the order of names, on pages of any size: of the server, restricted by
// VisibleTo, of Catalogs, merged of both, and without what is not Listed. It is public only if it is the same for all.
func TestListsHaveTheEntriesOfTheirCallers(t *testing.T) {
	ada, bob := person(t, "ada"), person(t, "bob")
	only := func(caller principal.Principal) server.Option {
		return server.VisibleTo(func(who principal.Principal, _ string) bool { return who == caller })
	}
	for name, c := range map[string]struct {
		build                 func(s *server.Server)
		ada, bob              string
		adaPrivate, bobPublic bool
	}{
		"own": {func(s *server.Server) { addEntries(s, "b A c a B") }, "A B a b c", "A B a b c", false, true},
		"restricted": {func(s *server.Server) {
			addEntries(s, "c a f")
			addEntries(s, "b e", only(ada))
			addEntries(s, "d g", only(bob))
		}, "a b c e f", "a c d f g", true, false},
		"of callers": {func(s *server.Server) {
			hers := new(server.Catalog)
			addEntries(hers, "b a")
			giveTo(s, ada, hers)
		}, "a b", "", true, false},
		"added by Catalogs": {func(s *server.Server) {
			addEntries(s, "b")
			var once sync.Once
			s.Catalogs = func(context.Context) ([]*server.Catalog, error) {
				once.Do(func() { addEntries(s, "a c") })
				return nil, nil
			}
		}, "a b c", "a b c", true, false},
		"merged": {func(s *server.Server) {
			addEntries(s, "x b f")
			first, second := new(server.Catalog), new(server.Catalog)
			addEntries(first, "c b z")
			addEntries(second, "a z c")
			giveTo(s, ada, first, second)
		}, "a b c f x z", "b f x", true, false},
		"merged, of which some are restricted": {func(s *server.Server) {
			addEntries(s, "a")
			addEntries(s, "both", only(bob))
			hers := new(server.Catalog)
			addEntries(hers, "both")
			addEntries(hers, "c d", only(bob))
			giveTo(s, ada, hers)
		}, "a both", "a both", true, false},
		"not listed": {func(s *server.Server) {
			addEntries(s, "a c", listed(true))
			addEntries(s, "b", listed(false))
		}, "a c", "a c", true, false},
		"not listed for Ada": {func(s *server.Server) {
			addEntries(s, "a c")
			addEntries(s, "b", server.Listed(&server.ListFilter{
				Hides: func(who principal.Principal, _ string) func(subject any) bool {
					if who == bob {
						return nil
					}
					return func(subject any) bool { return subject == "hidden" }
				},
			}, "hidden"))
		}, "a c", "a b c", true, false},
		"filters that panic": {func(s *server.Server) {
			addEntries(s, "a")
			addEntries(s, "b", server.Listed(&server.ListFilter{
				Hides: func(principal.Principal, string) func(subject any) bool { panic("filter") },
			}, nil))
			addEntries(s, "c", server.Listed(unlisted, "not a bool"))
		}, "a", "a", true, false},
		"merged and not listed": {func(s *server.Server) {
			addEntries(s, "a c")
			hers := new(server.Catalog)
			addEntries(hers, "b d")
			addEntries(hers, "e", listed(false))
			giveTo(s, ada, hers)
		}, "a b c d", "a c", true, false},
	} {
		for _, middleware := range [][]call.Middleware{nil, {func(next call.Handler) call.Handler { return next }}} {
			for size := range 8 {
				s := quiet()
				s.Limits.PageSize, s.Middleware, s.ListCache = size, middleware, server.CachePolicy{Public: true}
				c.build(s)
				hers, his := connectLineAs(t, s, ada), connectLineAs(t, s, bob)
				for method := range listMethods {
					for range 2 { // the second time from what is kept
						got, scope := pagesOf(t, hers, method)
						want := inPages(c.ada, size)
						must.CheckThat(t, got == want && (scope == mcp.CacheScopePrivate) == c.adaPrivate,
							"%s, pages of %d, %s of Ada: %s, %s, want %s", name, size, method, got, scope, want)
						got, scope = pagesOf(t, his, method)
						want = inPages(c.bob, size)
						must.CheckThat(t, got == want && (scope == mcp.CacheScopePublic) == c.bobPublic,
							"%s, pages of %d, %s of Bob: %s, %s, want %s", name, size, method, got, scope, want)
					}
				}
			}
		}
	}
}

// The files of directories are listed together with the resources of a caller.
func TestFilesAreListedWithTheEntriesOfTheirCallers(t *testing.T) {
	_, root := tree(t, map[string]string{"a": "", "b/c": "", "b/d": "", "e": "", "f": ""})
	for size := range 8 {
		s, hers := quiet(), new(server.Catalog)
		s.Limits.PageSize = size
		s.Catalogs = func(context.Context) ([]*server.Catalog, error) { return []*server.Catalog{hers}, nil }
		server.AddFS(s, "x:/", root, server.FSOptions{})
		for of, uris := range map[server.Registrar][]string{s: {"x:/b"}, hers: {"x:/b/c", "x:/b/d", "x:/b/e"}} {
			for _, uri := range uris {
				server.AddStatic(of, mcp.Resource{URI: uri, Name: uri}, "")
			}
		}
		got, scope := pagesOf(t, connectLine(t, s), mcp.MethodListResources)
		if want := inPages("a x:/b b/c b/d x:/b/e e f", size); got != want || scope != mcp.CacheScopePrivate {
			t.Errorf("pages of %d: %s, %s, want %s", size, got, scope, want)
		}
	}
}

// inPages returns names with | between pages; a size of 0 is the default.
func inPages(names string, size int) string {
	if size == 0 {
		return names
	}
	var pages []string
	for page := range slices.Chunk(strings.Fields(names), size) {
		pages = append(pages, strings.Join(page, " "))
	}
	return strings.Join(pages, "|")
}

// Pages of one caller are not kept for others, and a cursor is of no use to other callers (rule R7).
func TestACursorOfACallerIsForThatCaller(t *testing.T) {
	s := &server.Server{Limits: server.Limits{PageSize: 1}, Logger: slog.New(slog.DiscardHandler)}
	addEntries(s, "a b", server.VisibleTo(func(principal.Principal, string) bool { return true }))
	_, next := names(t, connectLineAs(t, s, person(t, "ada")), "")
	must.CheckEqual(t, s.ToolPages(), 0)
	connectLineAs(t, s, person(t, "bob")).wantError(mcp.MethodListTools, fmt.Sprintf(`"cursor":%q`, next),
		jsonrpc.CodeInvalidParams, "for another caller")
}

// A cursor from before an entry was hidden stays valid.
func TestCursorsStayValidWithHiddenEntries(t *testing.T) {
	s := withTools(t, 1, "a", "c")
	s.Logger = slog.New(slog.DiscardHandler)
	bob := connectLineAs(t, s, person(t, "bob"))
	_, next := names(t, bob, "")
	nobody := server.VisibleTo(func(principal.Principal, string) bool { return false })
	must.Do(t, s.RegisterTool(mcp.Tool{Name: "b"}, raw, nobody))
	if page, next := names(t, bob, next); strings.Join(page, " ") != "c" || next != "" {
		t.Errorf("%v, then %q", page, next)
	}
}

func withTools(t *testing.T, pageSize int, names ...string) *server.Server {
	s := &server.Server{Limits: server.Limits{PageSize: pageSize}}
	for _, name := range names {
		must.Do(t, s.RegisterTool(mcp.Tool{Name: name}, raw))
	}
	return s
}

// Rule J18: cursors stay valid when tools are added and removed. No tool is listed twice, and no tool
// that remains is left out.
func TestCursorsStayValidWhenToolsChange(t *testing.T) {
	s := withTools(t, 2, "b", "d", "f", "h")
	s.Keys = [][]byte{[]byte(strings.Repeat("k", 32))}
	l := connectLine(t, s)
	_, next := names(t, l, "") // behind d
	s.RemoveTool("d")
	for _, name := range []string{"a", "c", "e"} {
		must.Do(t, s.RegisterTool(mcp.Tool{Name: name}, raw))
	}
	page, next := names(t, l, next)
	must.CheckEqual(t, strings.Join(page, " "), "e f")
	s.RemoveTool("h")
	page, next = names(t, l, next)
	must.CheckThat(t, len(page) == 0 && next == "", "the third page is %v, and then %q", page, next)
	replica := withTools(t, 2, "a", "e", "f")
	replica.Keys = s.Keys
	_, next = names(t, connectLine(t, replica), "")
	if page, _ := names(t, l, next); strings.Join(page, " ") != "f" {
		t.Errorf("a replica's cursor leads to %v", page)
	}
}

// Rule J18: an invalid cursor is an error that gives the reason.
func TestInvalidCursorsAreRejected(t *testing.T) {
	s := withTools(t, 1, "a", "b")
	s.Declare(mcp.MethodGetPrompt)
	l := connectLine(t, s)
	_, next := names(t, l, "")
	for cursor, reason := range map[string]string{
		`""`: "modified", `"x"`: "modified", `7`: "must be a string",
		`{}`: "must be a string", `[]`: "must be a string", `true`: "must be a string",
		`"` + next + `="`: "modified", `"` + next + ` "`: "modified", `"` + next + `\n"`: "modified",
		`"` + next[1:] + `"`:                    "modified",
		`"` + strings.Repeat("x", 17<<10) + `"`: "too long",
	} {
		l.wantError(mcp.MethodListTools, `"cursor":`+cursor, jsonrpc.CodeInvalidParams, "invalid cursor: ")
		l.wantError(mcp.MethodListTools, `"cursor":`+cursor, jsonrpc.CodeInvalidParams, reason)
	}
	l.wantError(mcp.MethodListPrompts, fmt.Sprintf(`"cursor":%q`, next), jsonrpc.CodeInvalidParams,
		"for another purpose")
	l.wantError(mcp.MethodListTools, `"Cursor":"x"`, jsonrpc.CodeInvalidParams, `must be written "cursor"`)
}

// A page is encoded once for each revision, and again when the tools have changed. Forged cursors
// do not fill the memory.
func TestCachedPagesAreBounded(t *testing.T) {
	var all []string
	for i := range 100 {
		all = append(all, fmt.Sprintf("t%03d", i))
	}
	s := withTools(t, 10, all...)
	l := connectLine(t, s)
	walk := func() {
		for _, next := names(t, l, ""); next != ""; {
			_, next = names(t, l, next)
		}
	}
	walk()
	walk()
	must.CheckEqual(t, s.ToolPages(), 10)
	for i := range 200 {
		names(t, l, s.CursorAfter(mcp.MethodListTools, fmt.Sprintf("t%03dx", i))) // a cursor of an older list
	}
	n := s.ToolPages()
	must.CheckThat(t, n <= 11, "%d pages are kept", n)
	if s.RemoveTool("unknown"); s.ToolPages() == 0 {
		t.Error("pages were dropped though nothing has changed")
	}
	s.RemoveTool("t000")
	must.CheckEqual(t, s.ToolPages(), 0)
	page, _ := names(t, l, "")
	must.CheckThat(t, page[0] == "t001", "the first page begins with %s", page[0])
}

func TestListensAreLimitedToDeclaredCapabilities(t *testing.T) {
	var s server.Server
	l := connectLine(t, &s)
	capabilities := func() string {
		raw, err := l.ask(mcp.MethodDiscover, "")
		must.That(t, err == nil, "%v", err)
		found, _ := jsonrpc.Get(raw, "capabilities")
		tools, _ := jsonrpc.Get(found, "tools")
		return string(tools)
	}
	must.CheckEqual(t, capabilities(), "")
	l.wantError(mcp.MethodListTools, "", jsonrpc.CodeMethodNotFound, "tools/list")
	l.wantError(mcp.MethodCallTool, `"name":"a"`, jsonrpc.CodeMethodNotFound, "tools/call")
	s.Declare(mcp.MethodCallTool)
	got := capabilities()
	must.CheckThat(t, got != "", "tools that are offered are not declared")
	must.CheckEqual(t, len(list(t, l)), 0)
	l.wantError(mcp.MethodCallTool, `"name":"a"`, jsonrpc.CodeInvalidParams, "unknown tool")
}
