package replay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChangesAreFound(t *testing.T) {
	for _, test := range []struct {
		recorded, replayed string
		want               []Change
	}{
		{`{"a":1}`, `{"a":2}`, []Change{{"/a", "1", "2"}}},
		{`{"a":1}`, `{"b":1}`, []Change{{"/a", "1", ""}, {"/b", "", "1"}}},
		{`{"skip":{"a":1},"list":[{"t":1},{"t":2}]}`, `{"skip":2,"list":[{"t":3},{}]}`, nil},
		{`{"result":{"nextCursor":"a","requestState":"b"}}`, `{"result":{"nextCursor":"c","requestState":"d"}}`, nil},
		{`{"result":{"nextCursor":"a"}}`, `{"result":{}}`, []Change{{"/result/nextCursor", `"a"`, ""}}},
	} {
		ignore, err := ParsePaths([]string{"/skip", "/list/*/t"})
		if err != nil {
			t.Fatal(err)
		}
		got := compare([]byte(test.recorded), []byte(test.replayed), ignore, func(string, string) {})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s and %s:\n%s", test.recorded, test.replayed, diff)
		}
	}
}

func TestPathsMustBeJSONPointers(t *testing.T) {
	for _, path := range []string{"", "result", "/a~2"} {
		if _, err := ParsePaths([]string{path}); err == nil {
			t.Errorf("%q: no error", path)
		}
	}
}
