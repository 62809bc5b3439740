package completion

import (
	"reflect"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func TestTemplatesAreSplitAtTheirVariables(t *testing.T) {
	for template, want := range map[string][]templatePart{
		"a:b":                 {{literal: "a:b"}},
		"a://{x}":             {{"a://", "x"}, {}},
		"a://{x}/b/{y_z}.txt": {{"a://", "x"}, {"/b/", "y_z"}, {literal: ".txt"}},
		"a://{x}{?q}":         {{"a://", "x"}, {}},
		"a://{+path}":         {{literal: "a://"}},
		"a://{x":              {{literal: "a://"}},
		"":                    {{}},
	} {
		got := splitTemplate(template)
		must.CheckThat(t, reflect.DeepEqual(got, want), "splitTemplate(%q) = %q, want %q", template, got, want)
	}
}

func TestURIsAreCompletedUpToTheNextVariable(t *testing.T) {
	for _, c := range []struct {
		template, word, want string
		whole                bool
	}{
		{"a://b/{x}/c/{y}", "", "a://b/", false},
		{"a://b/{x}/c/{y}", "a://", "a://b/", false},
		{"a://b/{x}/c/{y}", "a://b/1/", "a://b/1/c/", false},
		{"a://b/{x}/c", "a://b/1/", "a://b/1/c", true},
		{"a://b", "a", "a://b", true},
		{"a://b", "x", "", false},
	} {
		uris, whole := (&completing{word: c.word}).fill(c.template)
		if c.want == "" && uris != nil || c.want != "" && (len(uris) != 1 || uris[0] != c.want || whole != c.whole) {
			t.Errorf("%s and %q: %q, %t, want %q, %t", c.template, c.word, uris, whole, c.want, c.whole)
		}
	}
}
