package jsondiff

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
)

func TestChangesAreFound(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want string // path, a and b of each change
	}{
		{`{"a":1,"b":[1,{"c":"x"}]}`, `{ "b":[1, {"c":"\u0078"}], "a":1.0}`, ""},
		{`9007199254740993`, `9007199254740992`, ": 9007199254740993 9007199254740992"},
		{`{"a":1}`, `{"b":1}`, "/a: 1 nil\n/b: nil 1"},
		{`[1,2]`, `[1]`, "/1: 2 nil"},
		{`[null]`, `[null,null]`, "/1: nil null"},
		{`{"a":null}`, `{}`, "/a: null nil"},
		{`{"a":"1"}`, `{"a":1}`, `/a: "1" 1`},
		{`{"a/b":{"~":null}}`, `{"a/b":{"~":false}}`, "/a~1b/~0: null false"},
		{`{"id":"x"}`, `{"id":1}`, `/id: "x" 1`},
		{`[{"b":1}]`, `{"b":1}`, `: [{"b":1}] {"b":1}`},
	} {
		var got []string
		for _, change := range Compare([]byte(test.a), []byte(test.b)) {
			line := string(change.Path) + ":"
			for _, v := range [][]byte{change.A, change.B} {
				if v == nil {
					v = []byte("nil")
				}
				line += " " + string(v)
			}
			got = append(got, line)
		}
		diff := cmp.Diff(test.want, strings.Join(got, "\n"))
		must.CheckThat(t, diff == "", "%s and %s:\n%s", test.a, test.b, diff)
	}
}
