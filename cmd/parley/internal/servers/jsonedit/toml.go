package jsonedit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/tailscale/hujson"
)

// ParseTOML returns the content of a TOML file as an object, whose values have the offsets that they have in the file.
// Names and values are read as in JSON; dates and times are strings.
func ParseTOML(data []byte) (hujson.Value, error) {
	root := &hujson.Object{}
	err := expressions(data, func(e expression) error {
		object, err := descend(root, e.table, e.at)
		if err != nil || e.value == nil {
			return err
		}
		last := len(e.key) - 1
		if object, err = descend(object, e.key[:last], e.at); err != nil {
			return err
		}
		value, err := valueOf(e.value)
		if err != nil {
			return err
		}
		if indexOf(object, e.key[last]) >= 0 {
			return fmt.Errorf("%s is defined twice", strings.Join(e.path(), "."))
		}
		set(object, e.key[last], value, e.at)
		return nil
	})
	return hujson.Value{Value: root}, err
}

// expression is a line of a TOML file: the header of a table, or a key with a value, which can have several lines.
type expression struct {
	table   []string // the table in which it is, or that it begins
	key     []string // nil for a header
	value   *unstable.Node
	at, end int // the offsets of its beginning and behind its value, or behind the last part of the name of a header
}

// path returns the whole name.
func (e *expression) path() []string { return slices.Concat(e.table, e.key) }

// expressions calls visit with the expressions of a file. The value of an expression is valid until visit returns.
func expressions(data []byte, visit func(expression) error) error {
	var p unstable.Parser
	p.Reset(data)
	var table []string
	arrays := make(map[string]int)
	for p.NextExpression() {
		node := p.Expression()
		e := expression{table: table}
		var key []string
		for it := node.Key(); it.Next(); {
			part := it.Node()
			if len(key) == 0 {
				e.at = int(part.Raw.Offset)
			}
			e.end = int(part.Raw.Offset + part.Raw.Length)
			key = append(key, string(part.Data))
		}
		switch node.Kind {
		case unstable.Table:
			table = key
		case unstable.ArrayTable: // each element is an object of its own
			name := fmt.Sprintf("%q", key)
			table = append(key, strconv.Itoa(arrays[name]))
			arrays[name]++
		case unstable.KeyValue:
			e.key, e.value = key, node.Value()
			e.end = int(node.Raw.Offset + node.Raw.Length)
		}
		if e.key == nil {
			e.table = table
		}
		if err := visit(e); err != nil {
			return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:e.at], []byte("\n")), err)
		}
	}
	return p.Error()
}

// descend returns the object with a path, and creates it if it is missing.
func descend(object *hujson.Object, path []string, at int) (*hujson.Object, error) {
	for _, name := range path {
		i := indexOf(object, name)
		if i < 0 {
			set(object, name, hujson.Value{Value: &hujson.Object{}}, at)
			i = len(object.Members) - 1
		}
		next, ok := object.Members[i].Value.Value.(*hujson.Object)
		if !ok {
			return nil, fmt.Errorf("%s is not a table", strings.Join(path, "."))
		}
		object = next
	}
	return object, nil
}

// set appends a member whose name and value have an offset.
func set(object *hujson.Object, name string, value hujson.Value, at int) {
	value.StartOffset = at
	object.Members = append(object.Members,
		hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name), StartOffset: at}, Value: value})
}

// valueOf returns a value of TOML as one of JSON.
func valueOf(node *unstable.Node) (hujson.Value, error) {
	value := hujson.Value{StartOffset: int(node.Raw.Offset)}
	switch node.Kind {
	case unstable.Array:
		array := &hujson.Array{}
		for it := node.Children(); it.Next(); {
			element, err := valueOf(it.Node())
			if err != nil {
				return value, err
			}
			array.Elements = append(array.Elements, element)
		}
		value.Value = array
	case unstable.InlineTable:
		object := &hujson.Object{}
		for it := node.Children(); it.Next(); {
			var key []string
			pair := it.Node()
			for k := pair.Key(); k.Next(); {
				key = append(key, string(k.Node().Data))
			}
			last := len(key) - 1
			into, err := descend(object, key[:last], value.StartOffset)
			if err != nil {
				return value, err
			}
			element, err := valueOf(pair.Value())
			if err != nil {
				return value, err
			}
			set(into, key[last], element, element.StartOffset)
		}
		value.Value = object
	case unstable.Bool:
		value.Value = hujson.Bool(string(node.Data) == "true")
	case unstable.Integer:
		n, err := strconv.ParseInt(strings.ReplaceAll(string(node.Data), "_", ""), 0, 64)
		if err != nil {
			return value, err
		}
		value.Value = hujson.Int(n)
	case unstable.Float:
		f, err := strconv.ParseFloat(strings.ReplaceAll(string(node.Data), "_", ""), 64)
		if err != nil || f-f != 0 { // infinite or not a number
			value.Value = hujson.String(string(node.Data))
			break
		}
		value.Value = hujson.Float(f)
	default:
		value.Value = hujson.String(string(node.Data))
	}
	return value, nil
}

// parseTOML sets the content of a TOML file.
func (f *File) parseTOML(content []byte) error {
	f.toml = bytes.Clone(content)
	if _, err := ParseTOML(content); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return nil
}

// tree returns the content of a file of either form.
func (f *File) tree() *hujson.Value {
	if !f.isTOML {
		return &f.root
	}
	parsed, _ := ParseTOML(f.toml) // it was parsed before
	return &parsed
}

// setTOML sets a table, or removes it if the value is nil. It reports whether there was one.
func (f *File) setTOML(value any, path []string) (found bool, err error) {
	data := f.toml
	var cut [][2]int // what the table has in the file
	inline, within := false, false
	if err = expressions(data, func(e expression) error {
		name := e.path()
		before := within
		within = len(name) >= len(path) && slices.Equal(name[:len(path)], path)
		switch own := lines(data, e); {
		case within && before: // with the comments between the two expressions
			cut[len(cut)-1][1] = own[1]
		case within:
			cut = append(cut, own)
		case e.key != nil && len(name) < len(path) && slices.Equal(name, path[:len(name)]):
			inline = true // such as mcp_servers = { … }
		}
		return nil
	}); err != nil {
		return false, err
	}
	if inline {
		return false, fmt.Errorf("%s: %s must be tables such as [%s]", f.path, path[0], tomlName(path))
	}
	var table []byte
	if value != nil {
		if table, err = tomlTable(value, path); err != nil {
			return false, err
		}
	}
	at := len(data)
	if len(cut) > 0 {
		at = cut[0][0]
	}
	before := bytes.Clone(data[:at])
	after, from := []byte(nil), at
	for _, c := range cut {
		after = append(after, data[from:c[0]]...)
		from = c[1]
	}
	after = append(after, data[from:]...)
	if value != nil && len(bytes.TrimSpace(before)) > 0 {
		before = append(bytes.TrimRight(before, "\r\n\t "), f.newline+f.newline...)
	}
	if value == nil && from == len(data) { // without the empty lines above what was last
		before = append(before, after...)
		after = nil
		if before = bytes.TrimRight(before, "\r\n\t "); len(before) > 0 {
			before = append(before, f.newline...)
		}
	}
	if value != nil && len(bytes.TrimSpace(after)) > 0 {
		table = append(table, '\n')
		after = bytes.TrimLeft(after, "\r\n")
	}
	f.toml = slices.Concat(before, bytes.ReplaceAll(table, []byte("\n"), []byte(f.newline)), after)
	return len(cut) > 0, nil
}

// lines returns the lines of an expression, with the comments right above a header and the empty lines below.
func lines(data []byte, e expression) [2]int {
	begin := bytes.LastIndexByte(data[:e.at], '\n') + 1
	for e.key == nil && begin > 0 {
		above := bytes.LastIndexByte(data[:begin-1], '\n') + 1
		if !bytes.HasPrefix(bytes.TrimSpace(data[above:begin]), []byte("#")) {
			break
		}
		begin = above
	}
	end := e.end
	for {
		next := bytes.IndexByte(data[end:], '\n')
		if next < 0 {
			return [2]int{begin, len(data)}
		}
		end += next + 1
		line, _, _ := bytes.Cut(data[end:], []byte("\n"))
		if len(bytes.TrimSpace(line)) > 0 {
			return [2]int{begin, end}
		}
	}
}

// tomlTable returns a table with a value, which package encoding/json encodes as an object.
func tomlTable(value any, path []string) ([]byte, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	parsed, err := hujson.Parse(encoded)
	object, ok := parsed.Value.(*hujson.Object)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s must be a table", strings.Join(path, "."))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "[%s]\n", tomlName(path))
	for i := range object.Members {
		fmt.Fprintf(&b, "%s\n", tomlPair(&object.Members[i]))
	}
	return b.Bytes(), nil
}

func tomlPair(m *hujson.ObjectMember) string {
	return tomlName([]string{m.Name.Value.(hujson.Literal).String()}) + " = " + tomlValue(&m.Value)
}

// tomlValue returns a value of JSON as one of TOML, on one line.
func tomlValue(v *hujson.Value) string {
	var all []string
	switch value := v.Value.(type) {
	case *hujson.Object:
		for i := range value.Members {
			all = append(all, tomlPair(&value.Members[i]))
		}
		return "{ " + strings.Join(all, ", ") + " }"
	case *hujson.Array:
		for i := range value.Elements {
			all = append(all, tomlValue(&value.Elements[i]))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case hujson.Literal:
		if value.Kind() == '"' {
			return tomlString(value.String())
		}
		return string(value)
	}
	return `""`
}

// bare matches a part of a name that needs no quotation marks.
var bare = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlName(path []string) string {
	var parts []string
	for _, part := range path {
		if !bare.MatchString(part) {
			part = tomlString(part)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ".")
}

// tomlString returns a basic string.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7F:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
