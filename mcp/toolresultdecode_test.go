package mcp

import (
	"reflect"
	"testing"
)

var toolResults = []string{
	`{}`, `null`, `[]`, ``, `{"content":[]}`, `{"content":null}`, `{"content":{}}`, `{"content":[null]}`, `{"content":["x"]}`,
	`{"content":[{"type":"text","text":"a\u00e9\n"}],"isError":true,"unknown":[1]}`,
	`{"content":[{"text":"t","type":"text"},{"type":"text"},{"type":"text","text":null},{"type":"text","text":"t","_meta":{}}]}`,
	`{"content":[{"type":"text","text":"t","annotations":{"priority":1}},{"type":"image","data":"AA==","mimeType":"image/png"}]}`,
	`{"content":[{"type":"text","text":5}]}`, `{"content":[{"text":"no type"}]}`, `{"content":[{"type":"other","x":[1]}]}`,
	`{"content":[{"type":"tool_use","id":"1","name":"n","input":{}},{"type":"tool_result","toolUseId":"1","content":[]}]}`,
	`{"content":[{"type":"text","text":"t","unknown":"x"},{"type":"text","Text":"x"},{"\u0074ype":"text","text":"t"}]}`,
	`{"content":[],"structuredContent":{"a": [1.0, "x"]},"_meta":{"k":{"v": 1},"\u006b2":null},"resultType":"complete"}`,
	`{"structuredContent":null}`, `{"structuredContent":"s"}`, `{"isError":null}`, `{"isError":1}`, `{"resultType":1}`, `{"resultType":null}`,
	`{"_meta":null}`, `{"_meta":[]}`, `{"_meta":{}}`, `{"Content":[]}`, `{"\u0063ontent":[]}`, `{"content":[],"content":[]}`, `{} x`, "{\"resultType\":\"\xff\"}",
}

func checkToolResult(t *testing.T, raw []byte) {
	type plain CallToolResult
	var got CallToolResult
	var want plain
	err, wantErr := got.UnmarshalJSON(raw), decode(raw, &want)
	switch {
	case (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error():
		t.Errorf("%q: error %v, want %v", raw, err, wantErr)
	case err == nil && !reflect.DeepEqual(plain(got), want):
		t.Errorf("%q:\n got %#v\nwant %#v", raw, got, want)
	}
}

func TestToolResultsAreDecodedAsByTheLibrary(t *testing.T) {
	for _, raw := range toolResults {
		checkToolResult(t, []byte(raw))
	}
}

func FuzzToolResultsAreDecodedAsByTheLibrary(f *testing.F) {
	for _, raw := range toolResults {
		f.Add([]byte(raw))
	}
	f.Fuzz(checkToolResult)
}

// A result that is usual is decoded without the library.
func TestUsualToolResultsNeedOneScan(t *testing.T) {
	for _, raw := range []string{toolResults[9], toolResults[17]} {
		if !new(CallToolResult).decodeTokens([]byte(raw)) {
			t.Errorf("%s is left to the library", raw)
		}
	}
}
