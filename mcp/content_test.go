package mcp_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	decoder "github.com/parley-mcp/parley/schema"
)

func TestContentBlocksRoundTripByType(t *testing.T) {
	blocks := []mcp.Content{
		mcp.Text("a <b> & \u2028"),
		mcp.Image([]byte{0xff, 0, 1}, "image/png"),
		mcp.Audio([]byte("sound"), "audio/wav"),
		&mcp.ResourceLink{URI: "file:///a", Name: "a", Size: new(int64(0))},
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", Text: "t"}},
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", Blob: []byte("b")}},
		&mcp.ToolUseContent{ID: "1", Name: "a", Input: []byte(`{"n":1}`)},
		&mcp.ToolResultContent{ToolUseID: "1", Content: []mcp.Content{mcp.Text("a")}, StructuredContent: []byte("null"),
			IsError: true},
		&mcp.UnknownContent{Type: "hologram", Raw: []byte(`{"type":"hologram","rays":[1]}`)},
	}
	want := mcp.CallToolResult{Content: blocks}
	const wire = `{"content":[` +
		"{\"type\":\"text\",\"text\":\"a <b> & \u2028\"}," +
		`{"type":"image","data":"/wAB","mimeType":"image/png"},` +
		`{"type":"audio","data":"c291bmQ=","mimeType":"audio/wav"},` +
		`{"type":"resource_link","uri":"file:///a","name":"a","size":0},` +
		`{"type":"resource","resource":{"uri":"file:///a","text":"t"}},` +
		`{"type":"resource","resource":{"uri":"file:///a","blob":"Yg=="}},` +
		`{"type":"tool_use","id":"1","name":"a","input":{"n":1}},` +
		`{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"a"}],"structuredContent":null,` +
		`"isError":true},` +
		`{"type":"hologram","rays":[1]}]}`

	for _, codec := range codecs {
		raw := must.Get(codec.marshal(want))(t)
		must.CheckEqual(t, canonical(t, raw), canonical(t, []byte(wire)), codec.name, raw)
		var got mcp.CallToolResult
		must.Do(t, codec.unmarshal(raw, &got))
		must.CheckEqual(t, cmp.Diff(want, got), "", codec.name)
	}
}

func TestSingleContentBlockEncodesItsType(t *testing.T) {
	for _, codec := range codecs {
		for _, v := range []any{*mcp.Text("a"), mcp.Text("a"), []mcp.Content{mcp.Text("a")}} {
			raw := must.Get(codec.marshal(v))(t)
			raw = bytes.Trim(raw, "[]")
			must.CheckEqual(t, string(raw), `{"type":"text","text":"a"}`, codec.name, v)
		}
	}
}

func TestTypeMayComeLastAndBeEscaped(t *testing.T) {
	for _, raw := range []string{
		`{"content":[{"text":"a","type":"text"}]}`,
		`{"content":[ { "type" : "text", "text" : "a" } ]}`,
		`{"content":[{"type":"t\u0065xt","text":"a"}]}`,
		`{"content":[{"t\u0079pe":"text","text":"a"}]}`,
	} {
		for _, codec := range codecs {
			var r mcp.CallToolResult
			if err := codec.unmarshal([]byte(raw), &r); err != nil {
				t.Errorf("%s: %s: %v", codec.name, raw, err)
				continue
			}
			must.CheckEqual(t, cmp.Diff([]mcp.Content{mcp.Text("a")}, r.Content), "", codec.name, raw)
		}
	}
}

func TestInvalidContentBlockIsRejected(t *testing.T) {
	for _, block := range []string{
		`null`, `1`, `"text"`, `[]`, `{}`, `{"text":"a"}`, `{"type":""}`, `{"type":1}`, `{"type":null}`,
		`{"type":"text","text":1}`, `{"type":"image","data":"*","mimeType":"image/png"}`,
		`{"type":"image","data":"YQ","mimeType":"image/png"}`, `{"type":"tool_result","content":[null]}`,
	} {
		for _, codec := range codecs {
			var r mcp.CallToolResult
			err := codec.unmarshal([]byte(`{"content":[`+block+`]}`), &r)
			must.CheckThat(t, err != nil, "%s: accepted %s as %+v", codec.name, block, r.Content)
			var m mcp.PromptMessage
			if err := codec.unmarshal([]byte(`{"role":"user","content":`+block+`}`), &m); err == nil {
				t.Errorf("%s: accepted %s as %+v", codec.name, block, m.Content)
			}
		}
	}
}

func TestNilBlockDoesNotEncode(t *testing.T) {
	for _, codec := range codecs {
		for _, block := range []mcp.Content{nil, (*mcp.TextContent)(nil), &mcp.UnknownContent{Type: "a"}} {
			for _, v := range []any{
				mcp.CallToolResult{Content: []mcp.Content{block}},
				mcp.PromptMessage{Role: mcp.RoleUser, Content: block},
				mcp.SamplingMessage{Role: mcp.RoleUser, Content: []mcp.Content{block}},
			} {
				if raw, err := codec.marshal(v); err == nil {
					t.Errorf("%s: %T with the block %#v encodes as %s, want an error", codec.name, v, block, raw)
				}
			}
		}
	}
}

// Tool results do not nest, which limits the depth of decoding.
func TestNestedToolResultIsUnknownContent(t *testing.T) {
	deep := strings.Repeat(`{"type":"tool_result","toolUseId":"1","content":[`, 1000) + strings.Repeat(`]}`, 1000)
	for _, codec := range codecs {
		var r mcp.CallToolResult
		must.Do(t, codec.unmarshal([]byte(`{"content":[`+deep+`]}`), &r))
		inner, ok := r.Content[0].(*mcp.ToolResultContent)
		if !ok || len(inner.Content) != 1 {
			t.Fatalf("%s: got %T", codec.name, r.Content[0])
		}
		if unknown, ok := inner.Content[0].(*mcp.UnknownContent); !ok || unknown.Type != "tool_result" {
			t.Errorf("%s: got nested %T, want *mcp.UnknownContent", codec.name, inner.Content[0])
		}
		raw := must.Get(codec.marshal(r))(t)
		must.CheckEqual(t, string(raw), `{"content":[`+deep+`]}`, codec.name)
	}
}

func TestResourceContentsAreTextOrBlob(t *testing.T) {
	for _, c := range []struct {
		contents mcp.ResourceContents
		wire     string
	}{
		{mcp.ResourceContents{URI: "a:b", Text: "t"}, `{"uri":"a:b","text":"t"}`},
		{mcp.ResourceContents{URI: "a:b"}, `{"uri":"a:b","text":""}`},
		{mcp.ResourceContents{URI: "a:b", Blob: []byte{}}, `{"uri":"a:b","blob":""}`},
		{mcp.ResourceContents{URI: "a:b", MimeType: "a/b", Blob: []byte{1}, Meta: mcp.Meta{}},
			`{"uri":"a:b","mimeType":"a/b","blob":"AQ==","_meta":{}}`},
	} {
		for _, codec := range codecs {
			raw := must.Get(codec.marshal(c.contents))(t)
			must.CheckEqual(t, string(raw), c.wire, codec.name)
			var back mcp.ResourceContents
			must.Do(t, codec.unmarshal(raw, &back))
			must.CheckEqual(t, cmp.Diff(c.contents, back), "", codec.name)
		}
	}
}

func TestResourceConvertsToResourceLink(t *testing.T) {
	resource := mcp.Resource{URI: "file:///a", Name: "a"}
	link := mcp.ResourceLink(resource)
	must.CheckEqual(t, cmp.Diff(resource, mcp.Resource(link)), "")
}

func BenchmarkCallToolResult(b *testing.B) {
	for name, text := range map[string]string{"short": "Hello, Ada!",
		"1MiB": strings.Repeat("0123456789abcdef", 1<<16)} {
		result := mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}}
		raw := must.Get(result.MarshalJSON())(b)
		b.Run("encode/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				must.Do(b, must.Err(result.MarshalJSON()))
			}
		})
		b.Run("decode/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				var r mcp.CallToolResult
				must.Do(b, r.UnmarshalJSON(raw))
			}
		})
	}
}

// place is a key somewhere in a wire type.
type place struct {
	root  reflect.Type
	field reflect.Type
	name  string
	json  func(name, value string) string // the root with one key of this name and value
}

func (p place) String() string { return p.root.String() + " " + p.json(p.name, "…") }

// places returns the keys of all types of the vocabulary, at every depth.
func places() []place {
	roots := map[string]reflect.Type{}
	for _, t := range vocabulary {
		if t != reflect.TypeFor[jsonrpc.Error]() { // read by package jsonrpc
			roots[t.String()] = t
		}
	}
	var all []place
	for _, name := range slices.Sorted(maps.Keys(roots)) {
		t := roots[name]
		walkPlaces(t, nil, func(s string) string {
			return s
		}, func(field reflect.Type, name string, json func(name, value string) string) {
			all = append(all, place{t, field, name, json})
		})
	}
	return all
}

var blocks = []struct {
	goType reflect.Type
	name   string
}{
	{reflect.TypeFor[mcp.TextContent](), "text"}, {reflect.TypeFor[mcp.ImageContent](), "image"},
	{reflect.TypeFor[mcp.AudioContent](), "audio"},
	{reflect.TypeFor[mcp.ResourceLink](), "resource_link"}, {reflect.TypeFor[mcp.EmbeddedResource](), "resource"},
	{reflect.TypeFor[mcp.ToolUseContent](), "tool_use"}, {reflect.TypeFor[mcp.ToolResultContent](), "tool_result"},
}

// walkPlaces calls member for each key of t. wrap returns the root with a value of t in it.
func walkPlaces(t reflect.Type, open []reflect.Type, wrap func(string) string,
	member func(field reflect.Type, name string, json func(name, value string) string)) {
	switch t.Kind() {
	case reflect.Pointer:
		walkPlaces(t.Elem(), open, wrap, member)
		return
	case reflect.Slice:
		if t == reflect.TypeFor[mcp.ElicitProperties]() {
			walkPlaces(reflect.TypeFor[mcp.PrimitiveSchema](), open,
				func(s string) string { return wrap(`{"p":` + s + `}`) }, member)
		} else if t != reflect.TypeFor[json.RawMessage]() && t.Elem().Kind() != reflect.Uint8 {
			walkPlaces(t.Elem(), open, func(s string) string { return wrap(`[` + s + `]`) }, member)
		}
		return
	case reflect.Map:
		if t.Elem() != reflect.TypeFor[json.RawMessage]() {
			walkPlaces(t.Elem(), open, func(s string) string { return wrap(`{"k":` + s + `}`) }, member)
		}
		return
	case reflect.Interface:
		if t == reflect.TypeFor[mcp.Content]() {
			for _, block := range blocks {
				if slices.Contains(open, reflect.TypeFor[mcp.ToolResultContent]()) &&
					strings.HasPrefix(block.name, "tool_") {
					continue // a tool result keeps such blocks as unknown content
				}
				walkPlaces(block.goType, open, func(s string) string {
					return wrap(strings.Replace(s, `{`, `{"type":"`+block.name+`",`, 1))
				}, member)
			}
		}
		return
	case reflect.Struct:
	default:
		return
	}
	if slices.Contains(open, t) || t == reflect.TypeFor[jsonrpc.ID]() {
		return
	}
	open = append(open, t)
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		member(field.Type, name, func(name, value string) string { return wrap(`{"` + name + `":` + value + `}`) })
		walkPlaces(field.Type, open, func(s string) string { return wrap(`{"` + name + `":` + s + `}`) }, member)
	}
}

func decodeAs(t reflect.Type, raw string) (any, error) {
	into := reflect.New(t)
	err := decoder.Decode([]byte(raw), into.Interface())
	return into.Interface(), err
}

func isNumber(t reflect.Type) (integer, number bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Int64 || t.Kind() == reflect.Int, t.Kind() == reflect.Float64
}

func TestNumbersDecodeExactlyInEverySpelling(t *testing.T) {
	checked := 0
	for _, p := range places() {
		integer, number := isNumber(p.field)
		if !integer && !number {
			continue
		}
		checked++
		want, err := decodeAs(p.root, p.json(p.name, "60000"))
		if err != nil {
			t.Errorf("%v: %v", p, err)
			continue
		}
		for _, spelling := range []string{"60000.0", "6e4", "6E+4", "0.6e5", "600000e-1", "60000.000e0"} {
			if got, err := decodeAs(p.root, p.json(p.name, spelling)); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v", p.json(p.name, spelling), got, err)
			}
		}
		if _, err := decodeAs(p.root, p.json(p.name, "1e400")); err == nil {
			t.Errorf("%s is decoded", p.json(p.name, "1e400"))
		}
		if !integer {
			continue
		}
		for plain, spelled := range map[string]string{"9007199254740993": "9007199254740993.0",
			"9223372036854775807": "9.223372036854775807e18", "0": "-0.0e9999"} {
			want := must.Get(decodeAs(p.root, p.json(p.name, plain)))(t)
			if got, err := decodeAs(p.root, p.json(p.name, spelled)); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v", p.json(p.name, spelled), got, err)
			}
		}
		for _, wrong := range []string{"1.5", "15e-1", "9223372036854775808", "9223372036854775808.0", "1e19", `"6"`,
			"1e9999999999", "1e-9999999999"} {
			if got, err := decodeAs(p.root, p.json(p.name, wrong)); err == nil {
				t.Errorf("%s is decoded as %+v", p.json(p.name, wrong), got)
			}
		}
	}
	must.CheckThat(t, checked >= 40, "%d numbers were checked, want at least 40", checked)
}

// A key that differs in case is unknown, and is ignored like other unknown keys.
func TestNamesOfMembersAreCaseSensitive(t *testing.T) {
	checked := 0
	for _, p := range places() {
		name := strings.ToUpper(p.name)
		want, err := decodeAs(p.root, p.json("unknown", `"accept"`))
		if name == p.name || err != nil {
			continue // the value requires another key
		}
		checked++
		for _, value := range []string{`"accept"`, `1`, `true`, `{}`, `[]`} {
			if got, err := decodeAs(p.root, p.json(name, value)); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v", p.json(name, value), got, err)
			}
		}
	}
	must.CheckThat(t, checked >= 300, "%d members were checked, want at least 300", checked)
}
