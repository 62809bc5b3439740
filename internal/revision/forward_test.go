package revision_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

func TestDecodeExceptTextAcceptsText(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"content":[]}`: true,
		`{"content":[{"type":"text","text":"a"}]}`:                    true,
		` { "content" : [ { "text" : "a" , "type" : "text" } ] } `:    true,
		`{"\u0063ontent":[{"t\u0079pe":"text","text":"\"}"}]}`:        true,
		`{"content":[{"type":"text","text":"a","x":[{"type":"x"}]}]}`: true,
		`{"content":[],"isError":true,"structuredContent":null}`:      true,
		`{"content":[],"resultType":"c\u006fmplete","_meta":{}}`:      true,
		`{}`:                            false,
		`{"Content":[]}`:                false,
		`{"content":null}`:              false,
		`{"content":[null]}`:            false,
		`{"content":[{"type":"text"}]}`: false,
		`{"content":[{"type":"image","data":"?","mimeType":"a/b"}]}`:                               true,
		`{"content":[{"type":"image","data":"AAAA"}]}`:                                             false,
		`{"content":[{"type":"audio","data":"AAAA","mimeType":"a/b"}]}`:                            false,
		`{"content":[{"type":"image","text":"a"}]}`:                                                false,
		`{"content":[{"type":"text","text":"a"},{"type":"resource_link","uri":"a:b","name":"a"}]}`: false,
		`{"content":[{"type":"text","text":"a","annotations":{}}]}`:                                false,
		`{"content":[{"type":"text","text":"a","_meta":{}}]}`:                                      false,
		`{"content":[],"isError":null}`:                                                            false,
		`{"content":[],"resultType":"task"}`:                                                       false,
		`{"content":[],"resultType":null}`:                                                         false,
		`{"content":[],"_meta":null}`:                                                              false,
	} {
		if _, ok := revision.DecodeExceptText([]byte(raw)); ok != want {
			t.Errorf("%s: %v, want %v", raw, ok, want)
		}
	}
}

// FuzzForward compares a result that is forwarded without decoding its text with the same result when it is decoded,
// stripped of what belongs to the connection, and encoded, for every revision.
func FuzzForward(f *testing.F) {
	for _, raw := range []string{
		`{"content":[{"type":"text","text":"a\u00e9\n","x":1.50}],"structuredContent":{"n":1.0},"isError":false,"x":{"b":1,"a":2}}`,
		`{"resultType":"complete","_meta":{"a/b":[1],"io.modelcontextprotocol/serverInfo":{},"c/d":{}},"content":[]}`,
		"{\n\"content\":\r[\n{\"type\" :\"text\",\"text\": \"\"}],\"structuredContent\":[ ],\"isError\":true,\"_meta\":{}}",
		`{"content":[{"type":"image","data":"\u0041AAA","mimeType":"a/b","x":1.50}],"structuredContent":{}}`,
		`{"content":[{"type":"text","text":"a","annotations":{"priority":1}}]}`, `{"content":[{"type":"text"}],"content":[]}`,
	} {
		f.Add([]byte(raw))
		// Long results are sent from their memory.
		f.Add([]byte(strings.Replace(raw, `"text":"a`, `"text":"`+strings.Repeat("a", 16<<10), 1)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 || raw[0] != '{' || jsonrpc.Check(raw, jsonrpc.Limits{}) != nil {
			return
		}
		result, ok := revision.DecodeExceptText(raw)
		if !ok {
			return
		}
		var decoded mcp.CallToolResult
		if err := decoded.UnmarshalJSON(raw); err != nil {
			if bytes.Contains(raw, []byte("data")) {
				return // an image that cannot be decoded is forwarded
			}
			t.Fatalf("%s is not valid: %v", raw, err)
		}
		if result.IsError != decoded.IsError || !bytes.Equal(result.StructuredContent, decoded.StructuredContent) {
			t.Fatalf("%s is decoded as %+v, want %+v", raw, result, decoded)
		}
		for key := range decoded.Meta {
			if mcp.CheckMetaKey(key) != nil {
				delete(decoded.Meta, key)
			}
		}
		if len(decoded.Meta) == 0 {
			decoded.Meta = nil
		}
		result.Meta, decoded.ResultType, decoded.Source = decoded.Meta, "", raw
		for _, r := range mcp.Revisions() {
			if revision.Downgrade(r, result) != any(result) {
				if revision.Downgrade(r, &decoded) == any(&decoded) {
					t.Fatalf("%s needs no other form in %s", raw, r)
				}
				continue
			}
			want, err := revision.AppendResult(nil, r, &decoded, identity)
			if err != nil {
				t.Fatal(err)
			}
			got := revision.AppendForwarded([]byte("x"), r, result, identity, nil)[1:]
			if bytes.ContainsAny(got, "\r\n") {
				t.Fatalf("%q has line breaks", got)
			}
			if canonical(t, got) != canonical(t, want) {
				t.Fatalf("%s is forwarded to %s as %s, want %s", raw, r, got, want)
			}
			for _, space := range []int{0, 50, 500} { // in front of the result
				memory := append(bytes.Repeat([]byte{'{'}, space), raw...)
				inMemory := *result
				inMemory.Source = memory[space:]
				if sent := revision.AppendForwarded([]byte("x"), r, &inMemory, identity, memory)[1:]; !bytes.Equal(sent, got) {
					t.Fatalf("%s is forwarded to %s as %s, want %s", raw, r, sent, got)
				}
			}
		}
	})
}

func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	value := jsontext.Value(bytes.Clone(raw))
	if err := value.Canonicalize(); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return string(value)
}

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
