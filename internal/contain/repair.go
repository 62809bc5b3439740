package contain

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// repair makes values decodable. Each level of a value is decoded on its own to find what is wrong with it, so the work
// is bounded by the length of the value times the depth of its type.
type repair struct{ faults Faults }

// maxRepaired is the number of faults in one result after which an entry with a fault is left out as a whole.
const maxRepaired = 1000

var contentType = reflect.TypeFor[mcp.Content]()

// value returns a JSON value in a form that can be decoded into type t. If that is impossible, it returns the
// error of the decoder.
func (r *repair) value(raw []byte, t reflect.Type, path string) ([]byte, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == contentType {
		return r.block(raw, path)
	}
	err := decodable(raw, t)
	// null blocks are decoded without an error
	if err == nil && !(t.Kind() == reflect.Slice && t.Elem() == contentType) {
		return raw, nil
	}
	if err != nil && len(r.faults.list)+r.faults.more > maxRepaired {
		return nil, err
	}
	isEmpty := len(raw) > 1 && jsonscan.SkipSpace(raw, 1) == len(raw)-1
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		switch {
		case raw[0] == '[' && isEmpty, // sent by programs whose language uses one type for both
			string(raw) == "true" && strings.HasPrefix(path, capabilities+"."):
			return []byte("{}"), nil
		case raw[0] != '{':
		case t.Kind() == reflect.Map:
			return r.entries(raw, t.Elem(), path), nil
		default:
			return r.object(raw, t, path)
		}
	case reflect.Slice:
		switch {
		case t.Elem().Kind() == reflect.Uint8:
			return base64Of(raw, err)
		case raw[0] == '{' && isEmpty:
			return []byte("[]"), nil
		case raw[0] == '[':
			return r.elements(raw, t.Elem(), path), nil
		case t.Elem() == contentType:
			block, err := r.block(raw, path)
			return slices.Concat([]byte("["), block, []byte("]")), err
		}
	}
	return nil, err
}

// decodable returns the error of the strict decoder.
func decodable(raw []byte, t reflect.Type) error { return decode(raw, reflect.New(t).Interface()) }

// elements returns an array without the elements that cannot be decoded.
func (r *repair) elements(array []byte, t reflect.Type, path string) []byte {
	kept := []byte{'['}
	i := -1
	for raw := range jsonscan.Elements(array) {
		i++
		where := fmt.Sprintf("%s[%d]%s", path, i, identity(raw))
		element, err := r.value(raw, t, where)
		if err != nil {
			r.faults.add(where, err)
			continue
		}
		kept = append(append(kept, element...), ',')
	}
	return append(bytes.TrimSuffix(kept, []byte(",")), ']')
}

// identity returns the name or URI of an entry in parentheses, or "".
func identity(raw []byte) string {
	for _, name := range []string{"name", "uri", "uriTemplate"} {
		if value, ok := jsonrpc.Get(raw, name); ok && value[0] == '"' {
			return fmt.Sprintf("(%.64s)", jsonrpc.Unquote(value))
		}
	}
	return ""
}

// entries returns an object without the keys whose values cannot be decoded.
func (r *repair) entries(object []byte, t reflect.Type, path string) []byte {
	kept := []byte{'{'}
	for name, raw := range jsonrpc.All(object) {
		where := fmt.Sprintf("%s.%.64s", path, name)
		value, err := r.value(raw, t, where)
		if err != nil {
			r.faults.add(where, err)
			continue
		}
		kept = appendMember(kept, name, value)
	}
	return closed(kept)
}

func appendMember(object []byte, name string, value []byte) []byte {
	return append(append(append(jsonrpc.AppendString(object, name), ':'), value...), ',')
}

func closed(object []byte) []byte { return append(bytes.TrimSuffix(object, []byte(",")), '}') }

// object returns an object without the keys whose values cannot be decoded into the fields of a struct.
func (r *repair) object(object []byte, t reflect.Type, path string) ([]byte, error) {
	fields := fieldsOf(t)
	kept := []byte{'{'}
	for name, raw := range jsonrpc.All(object) {
		f, known := fields[name]
		if !known {
			kept = appendMember(kept, name, raw)
			continue
		}
		where := strings.TrimPrefix(path+"."+name, ".")
		value, err := r.value(raw, f.Type, where)
		switch {
		case err == nil:
			kept = appendMember(kept, name, value)
		case decides(t, f, name, path == ""):
			return nil, fmt.Errorf("%s: %w", name, err)
		default:
			if name == "isError" { // a failure must not look like a success
				kept = appendMember(kept, name, []byte("true"))
			}
			r.faults.add(where, err)
		}
	}
	kept = closed(kept)
	return kept, decodable(kept, t) // required fields may be missing
}

// decides reports whether an object is unusable without a field.
func decides(t reflect.Type, f reflect.StructField, name string, isResult bool) bool {
	switch {
	case name == "resultType" || name == "nextCursor":
		return true
	case strings.Contains(f.Tag.Get("json"), ",omit") || t == reflect.TypeFor[mcp.Implementation]():
		// it is for display
		return false
	case isResult: // a tool has run, whatever its content is
		return name != capabilities && name != "serverInfo" && t != reflect.TypeFor[mcp.CallToolResult]()
	}
	return true
}

const capabilities = "capabilities"

// fieldsOf returns the fields of a struct by their JSON keys.
func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	fields := make(map[string]reflect.StructField)
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields[name] = f
		}
	}
	return fields
}

// blocks maps the type names of content blocks to Go types. Blocks of other types are kept as they are.
var blocks = map[string]reflect.Type{
	"text":          reflect.TypeFor[mcp.TextContent](),
	"image":         reflect.TypeFor[mcp.ImageContent](),
	"audio":         reflect.TypeFor[mcp.AudioContent](),
	"resource_link": reflect.TypeFor[mcp.ResourceLink](),
	"resource":      reflect.TypeFor[mcp.EmbeddedResource](),
	"tool_use":      reflect.TypeFor[mcp.ToolUseContent](),
	"tool_result":   reflect.TypeFor[mcp.ToolResultContent](),
}

// block returns a content block. A string is a block of text.
func (r *repair) block(raw []byte, path string) ([]byte, error) {
	switch raw[0] {
	case '"':
		return slices.Concat([]byte(`{"type":"text","text":`), raw, []byte("}")), nil
	case '{':
	default:
		return nil, errors.New("content block must be an object")
	}
	name, _ := jsonrpc.Get(raw, "type")
	switch t := blocks[jsonrpc.Unquote(name)]; {
	case jsonrpc.Unquote(name) == "":
		return nil, errors.New("content block must have a type")
	case t == nil:
		return raw, nil
	default:
		return r.value(raw, t, path)
	}
}

// base64Of returns binary data in the standard encoding. raw may use the URL encoding, omit the padding, be split into
// lines, or be a data URL (RFC 2397). Otherwise base64Of returns err, the error of the strict decoder.
func base64Of(raw []byte, err error) ([]byte, error) {
	if raw[0] != '"' {
		return nil, err
	}
	text := jsonrpc.Unquote(raw)
	if rest, ok := strings.CutPrefix(text, "data:"); ok {
		kind, data, found := strings.Cut(rest, ",")
		if !found || !strings.HasSuffix(kind, ";base64") {
			return nil, err
		}
		text = data
	}
	text = strings.NewReplacer("-", "+", "_", "/", " ", "", "\t", "", "\r", "", "\n", "").Replace(text)
	if padded := strings.TrimRight(text, "="); len(text)-len(padded) <= 2 {
		text = padded
	}
	data, failed := base64.RawStdEncoding.DecodeString(text)
	if failed != nil {
		return nil, err
	}
	return json.Marshal(data)
}
