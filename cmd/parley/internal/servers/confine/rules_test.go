package confine

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
)

func TestTheStepReceivesTheRules(t *testing.T) {
	rules := &Rules{Read: []string{"/a b", "-c"}, Write: []string{"/=d"}, Network: true, Memory: "2GiB", Processes: 3,
		Files: 4, BestEffort: true}
	for _, want := range []*Rules{rules, {}, {Network: true}, {Read: []string{"/x"}}} {
		_, args, err := want.Wrap("name", "program", []string{"-read=/y", "--", "z"})
		must.Do(t, err)
		got, command, err := parse(args)
		must.Do(t, err)
		must.CheckEqual(t, cmp.Diff(step{"name", *want}, got), "")
		must.CheckEqual(t, cmp.Diff([]string{"program", "-read=/y", "--", "z"}, command), "")
		must.CheckEqual(t, cmp.Diff(want, Of(args)), "")
	}
	for _, args := range [][]string{nil, {Command}, {Command, "{}"}, {Command, "-name=x", "program"}, {"x", "{}", "program"}} {
		if _, _, err := parse(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestSizesHaveAUnit(t *testing.T) {
	for text, want := range map[string]int64{"1KiB": 1 << 10, "512MiB": 512 << 20, "2GiB": 2 << 30} {
		must.CheckEqual(t, must.Get(ParseSize(text))(t), want)
	}
	for _, text := range []string{"", "2", "2GB", "0MiB", "-1GiB", "1.5GiB", "2 GiB", "99999999GiB"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("%q is %d", text, n)
		}
	}
}

func TestDefaultsHaveNoDirectoryOfTheUser(t *testing.T) {
	read, write := Defaults(true)
	for _, path := range slices.Concat(read, write) {
		if slices.Contains([]string{"/", "/etc", "/home", "/root", "/tmp", "/var", "/run", "/proc", "/dev"}, path) ||
			strings.HasPrefix(path, "/home/") || strings.HasPrefix(path, "/root/") {
			t.Errorf("every program may access %s", path)
		}
	}
}
