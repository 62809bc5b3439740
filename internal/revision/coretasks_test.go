package revision

import (
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
)

func TestRelatedTaskIsAddedToTheMetadata(t *testing.T) {
	const related = `"io.modelcontextprotocol/related-task":{"taskId":"t\"1"}`
	for object, want := range map[string]string{
		``:                            `{"_meta":{` + related + `}}`,
		`{}`:                          `{"_meta":{` + related + `}}`,
		`{"a":1e2,"b":[{}]}`:          `{"_meta":{` + related + `},"a":1e2,"b":[{}]}`,
		`{"_meta":{"x":{}},"a":null}`: `{"_meta":{` + related + `,"x":{}},"a":null}`,
		`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"other"}}}`: `{"_meta":{` + related + `}}`,
		`{"_meta":7,"\u0061":1}`: `{"_meta":{` + related + `},"a":1}`,
	} {
		got := WithRelatedTask([]byte(object), `t"1`)
		if string(got) != want || jsonrpc.Check(got, jsonrpc.Limits{}) != nil {
			t.Errorf("%s: %s, want %s", object, got, want)
		}
		if r := RelatedTask(got); string(r) != `{"taskId":"t\"1"}` {
			t.Errorf("%s: related task %s", object, r)
		}
	}
	for _, object := range []string{``, `{}`, `{"_meta":{}}`, `{"_meta":[]}`} {
		if r := RelatedTask([]byte(object)); r != nil {
			t.Errorf("%s: related task %s, want none", object, r)
		}
	}
}
