package host

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

// namer returns the naming of a server without settings.
func namer(server string, maxName int) *naming {
	return newNaming(&ServerConfig{Name: server}, maxName, nil)
}

var quiet = slog.New(slog.DiscardHandler)

// toolNames merges the names of a list of tools.
func toolNames(n *naming, listed ...string) (names []string, tools []Tool, withheld error) {
	var definitions []mcp.Tool
	for _, name := range listed {
		definitions = append(definitions, mcp.Tool{Name: name})
	}
	tools, withheld = n.nameTools("a", quiet, definitions)
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	return names, tools, withheld
}

func TestMergedNameJoinsServerAndTool(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		server, tool string
		limit        int
		want         string
	}{
		{"files", "read_file", 128, "files__read_file"},
		{"a-b", "v1.list", 128, "a-b__v1.list"},
		{"files", "read/file now", 128, "files__read_file_now"},
		{"files", "größe", 128, "files__gr__e"},
		{"files", "\xff\x00", 128, "files____"},
		{"files", "", 128, "files__"},
		{"files", long[:121], 128, "files__" + long[:121]},
		{"files", long, 128, "files__" + long[:112] + "_774f454a"},
		{"files", long, 64, "files__" + long[:48] + "_774f454a"},
	} {
		got, _, err := toolNames(namer(c.server, c.limit), c.tool)
		must.CheckThat(t, slices.Equal(got, []string{c.want}) && err == nil,
			"the merged name of %q of server %q is %q, want %q; %v", c.tool, c.server, got, c.want, err)
	}
}

// A name that is valid as it is keeps its merged name.
func TestToolsWhoseNamesBecomeTheSameHaveADigest(t *testing.T) {
	for _, c := range []struct{ listed, want []string }{
		{[]string{"検索", "削除", "z"}, []string{"a_____a8189aa4", "a_____589896fb", "a__z"}},
		{[]string{"x y", "z", "x/y", "x_y", "x y"}, []string{"a__x_y_5730651e", "a__z", "a__x_y_f02f5750", "a__x_y"}},
		{[]string{"x_y", "x/y"}, []string{"a__x_y", "a__x_y_f02f5750"}},
	} {
		got, _, err := toolNames(namer("a", 128), c.listed...)
		must.CheckThat(t, slices.Equal(got, c.want) && err == nil, "%q: %q, %v, want %q", c.listed, got, err, c.want)
	}
}

func TestToolsWithTheSameMergedNameAreWithheld(t *testing.T) {
	digested, _, _ := toolNames(namer("a", 128), "x y", "x_y")
	n := namer("a", 128)
	n.tools.Rename = map[string]string{"v": "w"}
	for _, listed := range [][]string{{"v", "z", "w"}, {"x y", "x_y", "z", strings.TrimPrefix(digested[0], "a__")}} {
		got, _, err := toolNames(n, listed...)
		must.CheckThat(t, slices.Contains(got, "a__z") && len(got) == len(listed)-2, "%q: %q", listed, got)
		must.CheckThat(t, err != nil && strings.Count(err.Error(), "\n") == 0 &&
			strings.Contains(err.Error(), "are withheld: the merged name of each would be a__"), "%q: %v", listed, err)
	}
}

// A status contains a limited number of reasons, however many tools a server lists.
func TestReasonsForWithheldToolsAreBounded(t *testing.T) {
	n := newNaming(&ServerConfig{Name: "a"}, 128, []string{"files__"})
	n.prefix = ""
	var listed []string
	for i := range 1000 {
		listed = append(listed, fmt.Sprint("files__", i))
	}
	names, _, withheld := toolNames(n, listed...)
	lines := strings.Split(withheld.Error(), "\n")
	if len(names) > 0 || len(lines) != maxReasons+1 || lines[maxReasons] != "990 more tools are withheld, too" {
		t.Errorf("%d tools, %d lines: %q", len(names), len(lines), lines[len(lines)-1])
	}
}

func TestPromptsKeepTheirNames(t *testing.T) {
	long := strings.Repeat("x", 200)
	prompts, err := namer("a", 128).namePrompts("a", quiet,
		[]mcp.Prompt{{Name: "x y"}, {Name: "größe"}, {Name: "x/y"}, {Name: long}})
	var names []string
	for _, p := range prompts {
		names = append(names, p.Name)
		must.CheckThat(t, p.Server == "a", "the prompt %q is of server %q", p.Name, p.Server)
	}
	want := []string{"a__x y", "a__größe", "a__x/y", "a__" + long}
	must.CheckThat(t, slices.Equal(names, want) && err == nil, "%q, %v; want %q", names, err, want)
}

func TestPromptsWithTheSameMergedNameAreWithheld(t *testing.T) {
	n := namer("a", 128)
	n.prompts.Rename = map[string]string{"x": "y"}
	prompts, err := n.namePrompts("a", quiet, []mcp.Prompt{{Name: "x"}, {Name: "z"}, {Name: "y"}})
	must.CheckThat(t, len(prompts) == 1 && prompts[0].Name == "a__z" && err != nil &&
		strings.Contains(err.Error(), "the merged name of each would be a__y"), "%+v, %v", prompts, err)
}

func TestFirstOfTwoEntriesWithOneNameIsUsed(t *testing.T) {
	tools, err := namer("a", 128).nameTools("a", quiet, []mcp.Tool{{Name: "x", Title: "first"},
		{Name: "x", Title: "second"}})
	must.CheckThat(t, len(tools) == 1 && tools[0].Definition.Title == "first" && err == nil, "%+v %v", tools, err)
}

func TestMaxNameIsChecked(t *testing.T) {
	for _, c := range []struct {
		maxName, server int
		ok              bool
	}{{0, 64, true}, {128, 64, true}, {64, 53, true}, {64, 54, false}, {32, 21, true}, {31, 1, false}, {129, 1, false},
		{-1, 1, false}} {
		h := &Host{MaxName: c.maxName, Servers: []ServerConfig{{Name: strings.Repeat("s", c.server),
			Target: client.URL("http://127.0.0.1:1")}}, Logger: slog.New(slog.DiscardHandler)}
		if err := h.Start(); (err == nil) != c.ok {
			t.Errorf("MaxName %d, a server name of %d characters: %v", c.maxName, c.server, err)
		}
		h.Close()
	}
}

// FuzzMergedNames checks that merged names are valid and unique, depend on other entries only where names would
// collide, and that a name is missing only if it is withheld.
func FuzzMergedNames(f *testing.F) {
	f.Add("x y\nx/y\nx_y\nx y", "a", 128)
	f.Add("x\nx_2\nx 2", "files", 64)
	f.Add(strings.Repeat("y", 130)+"\n"+strings.Repeat("y", 131), "a-b", 32)
	f.Fuzz(func(t *testing.T, text, server string, limit int) {
		if checkServerName(server) != nil || len(server) > limit-len(separator)-digestLength ||
			limit < minMergedName || limit > maxMergedName {
			return
		}
		listed := strings.Split(text, "\n")
		names, tools, withheld := toolNames(namer(server, limit), listed...)
		taken := make(map[string]bool)
		for i, name := range names {
			must.That(t, !taken[name] && strings.HasPrefix(name, server+separator) && len(name) <= limit &&
				validName(name) == name, "%q of server %q has the merged names %q", listed, server, names)
			taken[name] = true
			of := tools[i].Definition.Name
			alone, _, err := toolNames(namer(server, limit), of)
			if err != nil || alone[0] != name && (name != namer(server, limit).distinctToolName(of) ||
				!slices.ContainsFunc(listed, func(other string) bool {
					return other != of && namer(server, limit).toolName(other) == alone[0]
				})) {
				t.Fatalf("%q of server %q has the merged name %q, and alone %q", of, server, name, alone)
			}
		}
		slices.Sort(listed)
		distinct := len(slices.Compact(listed))
		must.Equal(t, len(names) < distinct, withheld != nil, len(names), distinct, server, withheld)
	})
}
