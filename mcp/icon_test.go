package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// Rule H10: icons are https URLs or data URIs of images.
func TestDecodingDropsIconsWithUnsafeSources(t *testing.T) {
	safe := []string{
		"https://example.com/a.png", "HTTPS://example.com/a.png", "https://example.com:8443/a.png?x=1#y",
		"data:image/png;base64,iVBORw0KGgo=", "DATA:image/svg+xml,%3Csvg/%3E",
	}
	unsafe := []string{
		"", "a.png", "/a.png", "//example.com/a.png", "https:", "https:///a.png", "https:a.png",
		"https://user:secret@example.com/a.png",
		"http://example.com/a.png", "javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)",
		"java\nscript:alert(1)", " https://example.com/a.png",
		"file:///etc/passwd", "ftp://example.com/a.png", "ws://example.com/", "vscode://open", "vbscript:x",
		"blob:https://example.com/1",
		"data:text/html,<script>", "data:,x", "data:application/javascript,x", "https\u0000://example.com/",
	}
	var icons []Icon
	for _, src := range append(append([]string{}, unsafe...), safe...) {
		icons = append(icons, Icon{Src: src})
	}
	raw := must.Get(json.Marshal(icons))(t)
	for name, decoded := range map[string]interface{ all() Icons }{
		"Tool": new(iconsOf[Tool]), "Prompt": new(iconsOf[Prompt]), "Resource": new(iconsOf[Resource]),
		"ResourceTemplate": new(iconsOf[ResourceTemplate]), "Implementation": new(iconsOf[Implementation]),
	} {
		message := fmt.Sprintf(`{"name":"a","version":"1","uri":"a:b","uriTemplate":"a:b","inputSchema":{},"icons":%s}`,
			raw)
		must.Do(t, json.Unmarshal([]byte(message), decoded))
		var got []string
		for _, icon := range decoded.all() {
			got = append(got, icon.Src)
		}
		must.CheckEqual(t, strings.Join(got, "\n"), strings.Join(safe, "\n"), name, got)
	}
	var link CallToolResult
	must.Do(t, json.Unmarshal(fmt.Appendf(nil,
		`{"content":[{"type":"resource_link","uri":"a:b","name":"a","icons":%s}]}`, raw), &link))
	got := link.Content[0].(*ResourceLink).Icons
	must.CheckEqual(t, len(got), len(safe), got)
}

// iconsOf decodes a T.
type iconsOf[T any] struct{ value T }

func (i *iconsOf[T]) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &i.value) }

func (i *iconsOf[T]) all() Icons {
	switch v := any(&i.value).(type) {
	case *Tool:
		return v.Icons
	case *Prompt:
		return v.Icons
	case *Resource:
		return v.Icons
	case *ResourceTemplate:
		return v.Icons
	case *Implementation:
		return v.Icons
	}
	return nil
}

var toolResults = []string{
	`{}`, `null`, `[]`, ``, `{"content":[]}`, `{"content":null}`, `{"content":{}}`, `{"content":[null]}`,
	`{"content":["x"]}`,
	`{"content":[{"type":"text","text":"a\u00e9\n"}],"isError":true,"unknown":[1]}`,
	`{"content":[{"text":"t","type":"text"},{"type":"text"},{"type":"text","text":null},{"type":"text","text":"t",` +
		`"_meta":{}}]}`,
	`{"content":[{"type":"text","text":"t","annotations":{"priority":1}},{"type":"image","data":"AA==",` +
		`"mimeType":"image/png"}]}`,
	`{"content":[{"type":"text","text":5}]}`, `{"content":[{"text":"no type"}]}`,
	`{"content":[{"type":"other","x":[1]}]}`,
	`{"content":[{"type":"tool_use","id":"1","name":"n","input":{}},{"type":"tool_result","toolUseId":"1",` +
		`"content":[]}]}`,
	`{"content":[{"type":"text","text":"t","unknown":"x"},{"type":"text","Text":"x"},{"\u0074ype":"text","text":"t"}]}`,
	`{"content":[],"structuredContent":{"a": [1.0, "x"]},"_meta":{"k":{"v": 1},"\u006b2":null},` +
		`"resultType":"complete"}`,
	`{"structuredContent":null}`, `{"structuredContent":"s"}`, `{"isError":null}`, `{"isError":1}`, `{"resultType":1}`,
	`{"resultType":null}`,
	`{"_meta":null}`, `{"_meta":[]}`, `{"_meta":{}}`, `{"Content":[]}`, `{"\u0063ontent":[]}`,
	`{"content":[],"content":[]}`, `{} x`, "{\"resultType\":\"\xff\"}",
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

// A usual result is decoded without the library.
func TestUsualToolResultsNeedOneScan(t *testing.T) {
	for _, raw := range []string{toolResults[9], toolResults[17]} {
		must.CheckThat(t, new(CallToolResult).decodeTokens([]byte(raw)), "%s is left to the library", raw)
	}
}
