package gateway

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestUpdateChangesOnlyWhatDiffers(t *testing.T) {
	var got []string
	r := registrations[string]{
		kind: "thing",
		key:  func(e *string) string { return (*e)[:1] },
		register: func(_, name string, e *string) string {
			got = append(got, "+"+name)
			if *e == "z1" {
				return "" // cannot be registered
			}
			return name
		},
		unregister: func(name string) bool {
			got = append(got, "-"+name)
			return true
		},
	}
	quiet := slog.New(slog.DiscardHandler)
	for _, step := range []struct {
		list, want []string
	}{
		{[]string{"a1", "b1", "a2"}, []string{"+xa1", "+xb1"}}, // the server lists a twice
		{[]string{"b1", "a1"}, nil},
		{[]string{"b2", "c1"}, []string{"-xa1", "-xb1", "+xb2", "+xc1"}},
		{[]string{"b2", "z1"}, []string{"-xc1", "+xz1"}},
		{[]string{"b2", "z1"}, nil},
		{[]string{"b2", "z2"}, []string{"+xz2"}},
		{nil, []string{"-xb2", "-xz2"}},
	} {
		got = nil
		r.set(quiet, "x", unchanged, step.list)
		for _, e := range r.byServer["x"] {
			e.want = "x" + e.entry
		}
		r.apply([]string{"x"})
		slices.Sort(got)
		want := slices.Sorted(slices.Values(step.want))
		must.CheckThat(t, slices.Equal(got, want), "update to %v: %v, want %v", step.list, got, want)
	}
}

func TestEntriesThatAreToHaveAnotherNameMove(t *testing.T) {
	var got []string
	r := registrations[string]{
		kind: "thing",
		key:  func(e *string) string { return *e },
		register: func(_, name string, _ *string) string {
			got = append(got, "+"+name)
			return name
		},
		unregister: func(name string) bool {
			got = append(got, "-"+name)
			return true
		},
	}
	r.set(slog.New(slog.DiscardHandler), "x", unchanged, []string{"a"})
	for _, want := range []string{"a", "b", "b"} {
		r.byServer["x"][0].want = want
		r.apply([]string{"x"})
	}
	want := []string{"+a", "-a", "+b"}
	must.CheckThat(t, slices.Equal(got, want), "%v, want %v", got, want)
}

func TestEntryWaitsForTheNameOfAnotherEntry(t *testing.T) {
	registered := make(map[string]string)
	r := registrations[string]{
		kind: "thing",
		key:  func(e *string) string { return *e },
		register: func(server, name string, _ *string) string {
			registered[name] = server
			return name
		},
		unregister: func(name string) bool {
			delete(registered, name)
			return true
		},
	}
	servers := []string{"x", "y"}
	for _, step := range []struct{ server, entry, owner string }{
		{"x", "a", "x"}, {"y", "b", "x"}, // b of y wants the same name as a of x
		{"x", "", "y"},
	} {
		var list []string
		if step.entry != "" {
			list = []string{step.entry}
		}
		r.set(slog.New(slog.DiscardHandler), step.server, unchanged, list)
		for _, e := range r.byServer[step.server] {
			e.want = "name"
		}
		r.apply(servers)
		must.CheckEqual(t, registered["name"], step.owner, step, registered)
	}
}

// toolsAfter returns the tools that a gateway lists after a sequence of updates.
func toolsAfter(t *testing.T, updates ...host.ServerStatus) map[string]*mcp.Tool {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s := &server.Server{Logger: quiet}
	g, _ := New(&host.Host{}, s) // fails only after Start
	g.Logger = quiet
	for _, status := range updates {
		g.update([]string{status.Name}, status)
	}
	tools := make(map[string]*mcp.Tool)
	for tool, err := range mcptest.Dial(t, s).Tools(t.Context()) {
		must.Do(t, err)
		tools[tool.Name] = tool
	}
	return tools
}

// removed returns the status of a server that was removed.
func removed(name string) host.ServerStatus {
	status := statusOf(name)
	status.State = host.Removed
	return status
}

// statusOf returns the status of a server with these tools.
func statusOf(name string, definitions ...mcp.Tool) host.ServerStatus {
	status := host.ServerStatus{Name: name, State: host.Ready}
	status.Config = &host.ServerConfig{Name: name}
	for _, d := range definitions {
		status.Tools = append(status.Tools, host.Tool{Name: name + "__" + d.Name, Server: name, Definition: d})
	}
	return status
}

func sortedNames(tools map[string]*mcp.Tool) []string { return slices.Sorted(maps.Keys(tools)) }

func TestUpdateReplacesChangedTools(t *testing.T) {
	got := toolsAfter(t,
		statusOf("a", mcp.Tool{Name: "same"}, mcp.Tool{Name: "removed"},
			mcp.Tool{Name: "changed", Description: "before"}),
		statusOf("b", mcp.Tool{Name: "same"}),
		statusOf("a", mcp.Tool{Name: "added"}, mcp.Tool{Name: "changed", Description: "after"}, mcp.Tool{Name: "same"}),
	)
	if want := []string{"a__added", "a__changed", "a__same", "b__same"}; !slices.Equal(sortedNames(got), want) {
		t.Fatalf("tools are %v, want %v", sortedNames(got), want)
	}
	must.CheckEqual(t, got["a__changed"].Description, "after")
}

func TestToolsThatRequireTasksAreRegistered(t *testing.T) {
	got := toolsAfter(t, statusOf("a",
		mcp.Tool{Name: "fine"},
		mcp.Tool{Name: "fine", Description: "listed twice"},
		mcp.Tool{Name: "task", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskRequired}},
		mcp.Tool{Name: "maybe", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
	))
	if want := []string{"a__fine", "a__maybe", "a__task"}; !slices.Equal(sortedNames(got), want) {
		t.Fatalf("tools are %v, want %v", sortedNames(got), want)
	}
	must.CheckEqual(t, got["a__fine"].Description, "", got)
}

// If several servers claim a plain URI, none of them gets it, whichever is ready first.
func TestURIsDoNotDependOnTheOrderOfStarts(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	lists := func(name string) host.ServerStatus {
		status := statusOf(name)
		status.Resources = []mcp.Resource{{URI: "lib://shared", Name: name}, {URI: "tree://" + name, Name: name}}
		status.Templates = []mcp.ResourceTemplate{{URITemplate: "tree://{x}", Name: name},
			{URITemplate: "own://" + name + "/{x}", Name: name}}
		return status
	}
	for _, order := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c", "b", "a"}} {
		s := &server.Server{Logger: quiet}
		g, _ := New(&host.Host{}, s) // fails only after Start
		g.Logger = quiet
		for _, name := range order {
			g.update([]string{"a", "b", "c"}, lists(name))
		}
		c := mcptest.Dial(t, s)
		got := make(map[string]string) // server by URI
		for r, err := range c.Resources(t.Context()) {
			must.Do(t, err)
			got[r.URI] = r.Name
		}
		for r, err := range c.ResourceTemplates(t.Context()) {
			must.Do(t, err)
			got[r.URITemplate] = r.Name
		}
		want := map[string]string{
			"server:a/lib://shared": "a", "server:b/lib://shared": "b", "server:c/lib://shared": "c",
			"tree://a": "a", "tree://b": "b", "tree://c": "c",
			"server:a/tree://{x}": "a", "server:b/tree://{x}": "b", "server:c/tree://{x}": "c",
			"own://a/{x}": "a", "own://b/{x}": "b", "own://c/{x}": "c",
		}
		must.CheckThat(t, maps.Equal(got, want),
			"servers become ready in the order %v: URIs %v, want %v", order, got, want)
	}
}

func TestInstructionsOfServersAreForwarded(t *testing.T) {
	status := func(name, text string) host.ServerStatus {
		status := statusOf(name)
		status.Revision, status.Server.Instructions = mcp.V20251125, text
		return status
	}
	servers := []host.ServerStatus{status("a", "Text of a."), status("b", strings.Repeat("x", maxInstructions)),
		status("c", "Text of c."), status("d", "")}
	const head = "Instructions of the server %s, whose tools and prompts have names that begin with %[1]s__:\n\n"
	want := "Own.\n\n" + fmt.Sprintf(head, "a") + "Text of a.\n\n" + fmt.Sprintf(head, "c") + "Text of c."
	got, leftOut := instructionsOf("Own.", nil, servers)
	must.CheckThat(t, got == want && slices.Equal(leftOut, []string{"b"}), "%q without %q, want %q", got, leftOut, want)
}

// A gateway in front of a single server without a prefix shows its instructions unchanged.
func TestInstructionsOfOneServerWithoutAPrefixHaveNoHeading(t *testing.T) {
	status := func(name string) host.ServerStatus {
		status := statusOf(name)
		status.Revision, status.Server.Instructions = mcp.V20251125, "Text of "+name+"."
		status.Config.NoPrefix = true
		return status
	}
	for want, servers := range map[string][]host.ServerStatus{
		"Text of a.": {status("a")},
		"Instructions of the server a:\n\nText of a.\n\nInstructions of the server b:\n\nText of b.": {
			status("a"), status("b")},
	} {
		got, _ := instructionsOf("", nil, servers)
		must.CheckEqual(t, got, want)
	}
}

// A page begins after the last name of the previous page, so that changes do not repeat or skip entries that
// remain.
func TestPagesAreStableWhileServersComeAndGo(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	s := &server.Server{Logger: quiet, Limits: server.Limits{PageSize: 3}}
	g, _ := New(&host.Host{}, s) // fails only after Start
	g.Logger = quiet
	lists := func(name string) host.ServerStatus {
		status := statusOf(name, mcp.Tool{Name: "1"}, mcp.Tool{Name: "2"}, mcp.Tool{Name: "3"}, mcp.Tool{Name: "4"})
		status.Resources = []mcp.Resource{{URI: name + "://1", Name: "1"}, {URI: name + "://2", Name: "2"}}
		return status
	}
	servers := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range []string{"b", "d", "f"} {
		g.update(servers, lists(name))
	}
	c := mcptest.Dial(t, s)
	step := 0
	change := func() { // a and c appear, b and f disappear, in several steps
		switch step++; step {
		case 2:
			g.update(servers, lists("a"))
		case 3:
			g.update(servers, removed("b"))
		case 4:
			g.update(servers, lists("e"))
		case 5:
			g.update(servers, removed("f"))
		}
	}
	seen := make(map[string]int)
	for tool, err := range c.Tools(t.Context(), client.WithRefresh()) {
		must.Do(t, err)
		seen[tool.Name]++
		change()
	}
	step = 1
	for _, name := range []string{"a", "e"} {
		g.update(servers, removed(name))
	}
	g.update(servers, lists("b"))
	g.update(servers, lists("f"))
	for resource, err := range c.Resources(t.Context(), client.WithRefresh()) {
		must.Do(t, err)
		seen[resource.URI]++
		change()
	}
	for name, n := range seen {
		must.CheckEqual(t, n, 1, name)
	}
	for _, name := range []string{"d__1", "d__2", "d__3", "d__4", "d://1", "d://2"} {
		if seen[name] != 1 {
			t.Errorf("%s, which stays, is listed %d times: %v", name, seen[name], slices.Sorted(maps.Keys(seen)))
		}
	}
	for _, name := range []string{"e__1", "e://1"} {
		must.CheckEqual(t, seen[name], 1, name)
	}
}

// The index finds the same as a comparison with every template.
func TestPrefixesAreFound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		var b strings.Builder
		for range random.IntN(6) {
			b.WriteByte("ab:"[random.IntN(3)])
		}
		return b.String()
	}
	type template struct{ literal, server string }
	for range 500 {
		var index prefixes
		var all []template
		for _, server := range []string{"x", "y", "z"} {
			for range random.IntN(5) {
				all = append(all, template{word(), server})
				index.add(all[len(all)-1].literal, server)
			}
		}
		index.index()
		overlaps := func(a, b template) bool {
			return a.server != b.server && isAnyScheme(a.literal) == isAnyScheme(b.literal) &&
				(strings.HasPrefix(a.literal, b.literal) || strings.HasPrefix(b.literal, a.literal))
		}
		for _, one := range all {
			// Two templates of one server with the same beginning overlap in the same way with other
			// servers' templates.
			want := slices.ContainsFunc(all, func(other template) bool { return overlaps(one, other) })
			must.Equal(t, index.overlap(one.literal), want, one.literal, all)
		}
		for range 20 {
			uri := word()
			var longest *template
			for i := range all {
				if strings.HasPrefix(uri, all[i].literal) &&
					(longest == nil || len(all[i].literal) > len(longest.literal)) {
					longest = &all[i]
				}
			}
			want := shared
			if longest != nil && !index.overlap(longest.literal) {
				want = longest.server
			}
			if got, ok := index.owner(uri); ok != (longest != nil) || got != want {
				t.Fatalf("owner(%q) = %q, %v, want %q; templates %v", uri, got, ok, want, all)
			}
		}
	}
}
