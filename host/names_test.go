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
