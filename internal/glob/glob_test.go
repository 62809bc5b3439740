package glob_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/glob"
	"github.com/parley-mcp/parley/internal/must"
)

func TestPatternsMatchWholeNames(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"read", "read", true},
		{"read", "Read", false},
		{"read", "read_file", false},
		{"read*", "read_file", true},
		{"*file", "read_file", true},
		{"*_*", "read_file", true},
		{"re?d", "read", true},
		{"re?d", "red", false},
		{"gr??e", "größe", true},
		{"*", "", true},
		{"", "", true},
		{"", "a", false},
		{"?", "", false},
		{"a.c", "abc", false},
		{"[a]", "a", false},
		{"file://*", "file:///a/b", true},
		{"*a*b*c", "xaxbxbxc", true},
		{"*a*b*c", "xaxcxb", false},
	} {
		must.CheckEqual(t, glob.Match(c.pattern, c.name), c.want, c.pattern, c.name)
	}
	must.CheckThat(t, glob.Any([]string{"x", "a*"}, "ab") && !glob.Any(nil, "ab"), "Any must match one of the patterns")
}

// FuzzMatch compares with regular expressions.
func FuzzMatch(f *testing.F) {
	f.Add("a*b?c", "aXXbYc")
	f.Add("**?*", "äö")
	f.Add("*a*a*a*b", strings.Repeat("a", 50))
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 100 || len(name) > 100 || !utf8.ValidString(pattern) || !utf8.ValidString(name) {
			return
		}
		expression := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
		want := regexp.MustCompile(`(?s)^(?:` + expression + `)$`).MatchString(name)
		must.CheckEqual(t, glob.Match(pattern, name), want, pattern, name)
	})
}
