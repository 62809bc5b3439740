package revision_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/internal/revision"
)

func TestMembersAreRemovedFromACopyOfAnObject(t *testing.T) {
	for _, test := range []struct{ object, want string }{
		{`{"a":1,"b":[2],"c":{}}`, `{"b":[2]}`},
		{`{ "b" : "\"" , "c":1 }`, `{"b":"\""}`},
		{`{"c":1}`, `{}`},
		{`{"b": 1}`, `{"b": 1}`},
		{`{}`, `{}`},
		{``, ``},
	} {
		object := json.RawMessage(test.object)
		if got := revision.WithoutMembers(object, "a", "c"); string(got) != test.want || string(object) != test.object {
			t.Errorf("%s: %s, want %s", test.object, got, test.want)
		}
	}
}
