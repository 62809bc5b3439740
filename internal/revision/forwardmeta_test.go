package revision_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/internal/revision"
)

func TestForwardedObjectsHaveNoMetaOfTheProtocol(t *testing.T) {
	for _, test := range []struct{ object, want string }{
		{`{"a":1}`, `{"a":1}`},
		{`{"_meta":{"com.example/x":1},"a":1}`, `{"_meta":{"com.example/x":1},"a":1}`},
		{`{"a":1,"_meta":{"progressToken":1}}`, `{"a":1}`},
		{`{"a":1,"_meta":{"com.example/x":1,"io.modelcontextprotocol/serverInfo":{},"b":2}}`, `{"_meta":{"com.example/x":1,"b":2},"a":1}`},
		{`{"_meta":{"io.modelcontextprotocol/serverInfo":{},"com.example/x":1}}`, `{"_meta":{"com.example/x":1}}`},
		{`{"_meta":{}}`, `{}`},
		{`{"_meta":null,"a":1}`, `{"a":1}`},
	} {
		object := json.RawMessage(test.object)
		if got := revision.WithForwardableMeta(object); string(got) != test.want || string(object) != test.object {
			t.Errorf("%s: %s, want %s", test.object, got, test.want)
		}
	}
}
