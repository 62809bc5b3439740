package gateway

import (
	"strings"
	"testing"
)

func TestNamesAreMadeOfServerAndTool(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		server, tool, want string
		plain              bool
	}{
		{"files", "read_file", "files__read_file", true},
		{"a-b", "v1.list", "a-b__v1.list", true},
		{"files", "read/file now", "files__read_file_now", false},
		{"files", "größe", "files__gr__e", false},
		{"files", "\xff\x00", "files____", false},
		{"files", "", "files__", true},
		{"files", long, "files__" + long[:121], false},
	} {
		var n names
		if got, plain := n.take(c.server, c.tool); got != c.want || plain != c.plain {
			t.Errorf("take(%q, %.20q) is %q, %v, want %q, %v", c.server, c.tool, got, plain, c.want, c.plain)
		}
	}
}

func TestNamesThatFallTogetherAreNumbered(t *testing.T) {
	var n names
	for _, c := range []struct{ server, tool, want string }{
		{"a", "x y", "a__x_y"},
		{"a", "x/y", "a__x_y_2"},
		{"a", "x_y", "a__x_y_3"},
		{"a_", "b", "a___b"},
		{"a", "_b", "a___b_2"}, // another server's
	} {
		if got, _ := n.take(c.server, c.tool); got != c.want {
			t.Errorf("take(%q, %q) is %q, want %q", c.server, c.tool, got, c.want)
		}
	}
	n.free("a__x_y_2")
	if got, _ := n.take("a", "x?y"); got != "a__x_y_2" {
		t.Errorf("a name that became free is not taken: %q", got)
	}
}

func TestNumberedNamesAreNotTooLong(t *testing.T) {
	var n names
	long := strings.Repeat("x", 200)
	first, _ := n.take("a", long)
	second, _ := n.take("a", long+"y")
	if len(first) != maxName || len(second) != maxName || !strings.HasSuffix(second, "_2") {
		t.Errorf("names of %d and %d characters: …%s and …%s", len(first), len(second), first[120:], second[120:])
	}
}
