package mcp_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	decoder "github.com/parley-mcp/parley/schema"
)

// place is a member somewhere in a wire type.
type place struct {
	root  reflect.Type
	field reflect.Type
	name  string
	json  func(name, value string) string // the root with one member of this name and value
}

func (p place) String() string { return p.root.String() + " " + p.json(p.name, "…") }

// places returns the members of all types of the vocabulary, at every depth.
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
		walkPlaces(t, nil, func(s string) string { return s }, func(field reflect.Type, name string, json func(name, value string) string) {
			all = append(all, place{t, field, name, json})
		})
	}
	return all
}

var blocks = []struct {
	goType reflect.Type
	name   string
}{
	{reflect.TypeFor[mcp.TextContent](), "text"}, {reflect.TypeFor[mcp.ImageContent](), "image"}, {reflect.TypeFor[mcp.AudioContent](), "audio"},
	{reflect.TypeFor[mcp.ResourceLink](), "resource_link"}, {reflect.TypeFor[mcp.EmbeddedResource](), "resource"},
	{reflect.TypeFor[mcp.ToolUseContent](), "tool_use"}, {reflect.TypeFor[mcp.ToolResultContent](), "tool_result"},
}

// walkPlaces calls member for each member of t. wrap returns the root with a value of t.
func walkPlaces(t reflect.Type, open []reflect.Type, wrap func(string) string, member func(field reflect.Type, name string, json func(name, value string) string)) {
	switch t.Kind() {
	case reflect.Pointer:
		walkPlaces(t.Elem(), open, wrap, member)
		return
	case reflect.Slice:
		if t == reflect.TypeFor[mcp.ElicitProperties]() {
			walkPlaces(reflect.TypeFor[mcp.PrimitiveSchema](), open, func(s string) string { return wrap(`{"p":` + s + `}`) }, member)
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
				if slices.Contains(open, reflect.TypeFor[mcp.ToolResultContent]()) && strings.HasPrefix(block.name, "tool_") {
					continue // a tool result keeps such blocks as unknown ones
				}
				walkPlaces(block.goType, open, func(s string) string { return wrap(strings.Replace(s, `{`, `{"type":"`+block.name+`",`, 1)) }, member)
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
		for plain, spelled := range map[string]string{"9007199254740993": "9007199254740993.0", "9223372036854775807": "9.223372036854775807e18", "0": "-0.0e9999"} {
			want, err := decodeAs(p.root, p.json(p.name, plain))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := decodeAs(p.root, p.json(p.name, spelled)); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v", p.json(p.name, spelled), got, err)
			}
		}
		for _, wrong := range []string{"1.5", "15e-1", "9223372036854775808", "9223372036854775808.0", "1e19", `"6"`, "1e9999999999", "1e-9999999999"} {
			if got, err := decodeAs(p.root, p.json(p.name, wrong)); err == nil {
				t.Errorf("%s is decoded as %+v", p.json(p.name, wrong), got)
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d numbers were checked, want at least 40", checked)
	}
}

// A member whose name differs in its case is unknown, and is ignored as other unknown members are.
func TestNamesOfMembersAreCaseSensitive(t *testing.T) {
	checked := 0
	for _, p := range places() {
		name := strings.ToUpper(p.name)
		want, err := decodeAs(p.root, p.json("unknown", `"accept"`))
		if name == p.name || err != nil {
			continue // the value cannot do without another member
		}
		checked++
		for _, value := range []string{`"accept"`, `1`, `true`, `{}`, `[]`} {
			if got, err := decodeAs(p.root, p.json(name, value)); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v", p.json(name, value), got, err)
			}
		}
	}
	if checked < 300 {
		t.Errorf("%d members were checked, want at least 300", checked)
	}
}
