package host

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
)

// mergedNames returns the merged names of a list of tools that follows another one.
func mergedNames(server string, before []MergedTool, listed ...string) (names []string, tools []MergedTool) {
	var definitions []mcp.Tool
	for _, name := range listed {
		definitions = append(definitions, mcp.Tool{Name: name})
	}
	tools = mergedTools(slog.New(slog.DiscardHandler), server, before, definitions)
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	return names, tools
}

func TestMergedNameJoinsServerAndTool(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct{ server, tool, want string }{
		{"files", "read_file", "files__read_file"},
		{"a-b", "v1.list", "a-b__v1.list"},
		{"files", "read/file now", "files__read_file_now"},
		{"files", "größe", "files__gr__e"},
		{"files", "\xff\x00", "files____"},
		{"files", "", "files__"},
		{"files", long, "files__" + long[:121]},
	} {
		if got, _ := mergedNames(c.server, nil, c.tool); !slices.Equal(got, []string{c.want}) {
			t.Errorf("the merged name of %q of server %q is %q, want %q", c.tool, c.server, got, c.want)
		}
	}
}

func TestMergedNamesAreUnique(t *testing.T) {
	got, _ := mergedNames("a", nil, "x y", "x/y", "x_y", "x y")
	if want := []string{"a__x_y", "a__x_y_2", "a__x_y_3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMergedNameStaysWhileToolIsListed(t *testing.T) {
	_, before := mergedNames("a", nil, "x y", "x/y", "x_y")
	for _, c := range []struct{ listed, want []string }{
		{[]string{"x_y", "x y", "x/y"}, []string{"a__x_y_3", "a__x_y", "a__x_y_2"}},
		{[]string{"x?y", "x_y"}, []string{"a__x_y", "a__x_y_3"}},
		{[]string{"x?y", "x y", "x_y"}, []string{"a__x_y_2", "a__x_y", "a__x_y_3"}},
	} {
		if got, _ := mergedNames("a", before, c.listed...); !slices.Equal(got, c.want) {
			t.Errorf("the merged names of %q are %q, want %q", c.listed, got, c.want)
		}
	}
}

func TestNumberedMergedNamesAreWithinLimit(t *testing.T) {
	long := strings.Repeat("x", 200)
	got, _ := mergedNames("a", nil, long, long+"y")
	if len(got) != 2 || len(got[0]) != maxMergedName || len(got[1]) != maxMergedName || !strings.HasSuffix(got[1], "_2") {
		t.Errorf("got %q", got)
	}
}

func TestMergedPromptsHaveNamesOfTheirOwn(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	first := mergedPrompts(logger, "a", nil, []mcp.Prompt{{Name: "x y"}, {Name: "x/y"}})
	second := mergedPrompts(logger, "a", first, []mcp.Prompt{{Name: "x/y", Title: "changed"}})
	if got, want := fmt.Sprint(second[0].Name, second[0].Server, second[0].Definition.Title, len(second)), fmt.Sprint("a__x_y_2", "a", "changed", 1); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzMergedNames checks two lists of a server, one after the other. Merged names are valid, belong to the server, and map
// one to one to the names that the server lists. A name that is in both lists stays the same.
func FuzzMergedNames(f *testing.F) {
	f.Add("x y\nx/y\nx_y\nx y", "x_y\nx?y\nx y", "a")
	f.Add("x\nx_2\nx 2", "x 2\nx_2", "files")
	f.Add(strings.Repeat("y", 130)+"\n"+strings.Repeat("y", 131), strings.Repeat("y", 131), "a-b")
	f.Fuzz(func(t *testing.T, first, second, server string) {
		if CheckName(server) != nil {
			return
		}
		var before []MergedTool
		merged := make(map[string]string)
		for _, text := range []string{first, second} {
			listed := strings.Split(text, "\n")
			names, tools := mergedNames(server, before, listed...)
			now, taken := make(map[string]string), make(map[string]bool)
			for i, name := range names {
				listedName := tools[i].Definition.Name
				if taken[name] || now[listedName] != "" {
					t.Fatalf("%q of server %q has the merged names %q", listed, server, names)
				}
				if !strings.HasPrefix(name, server+separator) || validName(name, maxMergedName) != name {
					t.Fatalf("%q of server %q has the merged name %q", listedName, server, name)
				}
				if old := merged[listedName]; old != "" && old != name {
					t.Fatalf("%q of server %q was renamed from %q to %q", listedName, server, old, name)
				}
				now[listedName], taken[name] = name, true
			}
			for _, name := range listed {
				if now[name] == "" {
					t.Fatalf("%q of server %q has no merged name in %q", name, server, names)
				}
			}
			before, merged = tools, now
		}
	})
}
