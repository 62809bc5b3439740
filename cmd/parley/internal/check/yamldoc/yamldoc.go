// Package yamldoc reads YAML files as JSON, and keeps the line and column of each value.
package yamldoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/parley-mcp/parley/internal/atomicfile"
	"github.com/parley-mcp/parley/schema"
)

// The bounds of a file.
const (
	maxFile   = 16 << 20 // bytes, also of the JSON value
	maxValues = 1 << 20
	maxDepth  = 100
)

// Document is a YAML document.
type Document struct {
	JSON json.RawMessage // the value of the document; members keep their order

	path   string
	places map[jsontext.Pointer]place
	values int // that are in JSON so far
	depth  int // of the current one
}

// place is a position in the file, from 1.
type place struct{ line, column int }

// Read reads a file, which must have one document.
func Read(path string) (*Document, error) {
	data, err := atomicfile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse parses the content of the file at path. Its errors begin with the path and, if it is known, the line.
func Parse(path string, data []byte) (*Document, error) {
	var root, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: file is empty", path)
	case err != nil:
		return nil, syntaxError(path, err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("%s:%d: the file contains a second YAML document; move it to another file", path,
			second.Line)
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(path, err)
	}
	d := &Document{path: path, places: make(map[jsontext.Pointer]place)}
	return d, d.value(root.Content[0], root.Content[0], "")
}

// syntaxError returns an error of the parser, which is like "yaml: line 3: did not find expected key".
func syntaxError(path string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if line, rest, found := strings.Cut(strings.TrimPrefix(text, "line "), ": "); found &&
		strings.HasPrefix(text, "line ") {
		return fmt.Errorf("%s:%s: invalid YAML: %s", path, line, rest)
	}
	return fmt.Errorf("%s: invalid YAML: %s", path, text)
}

// Line returns the line of the value at a JSON Pointer. For a value in an object, it is the line of the key.
func (d *Document) Line(at jsontext.Pointer) int { return d.place(at).line }

// place returns the position of a value, or, if it is missing, of the value that should contain it.
func (d *Document) place(at jsontext.Pointer) place {
	for at != "" {
		if p, found := d.places[at]; found {
			return p
		}
		at = at.Parent()
	}
	return d.places[""]
}

// Errorf returns an error about the value at a JSON Pointer. It begins with the path, line and column.
func (d *Document) Errorf(at jsontext.Pointer, format string, args ...any) error {
	p := d.place(at)
	return fmt.Errorf("%s:%d:%d: %w", d.path, p.line, p.column, fmt.Errorf(format, args...))
}

// Decode checks the value against a schema and stores it in *into. Its error has a line for each mistake.
func (d *Document) Decode(s *schema.Schema, into any) error {
	err := s.Decode(d.JSON, into)
	var invalid *schema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	var all []error
	for _, issue := range invalid.Issues {
		at := jsontext.Pointer(issue.Path)
		text := fmt.Sprintf("expected %s, got %s", issue.Expected, issue.Got)
		if issue.Path != "" {
			text = strings.TrimPrefix(issue.Path, "/") + ": " + text
		}
		all = append(all, d.Errorf(at, "%s", text))
	}
	return errors.Join(all...)
}

// value writes a value. from is the node that determines its position: the name of a member, or the value itself.
func (d *Document) value(n, from *yaml.Node, at jsontext.Pointer) error {
	d.places[at] = place{from.Line, from.Column}
	d.depth++
	defer func() { d.depth-- }()
	switch d.values++; { // an alias counts as often as it is used
	case d.values > maxValues || len(d.JSON) > maxFile:
		return d.Errorf(at, "document is too large, with its aliases")
	case d.depth > maxDepth:
		return d.Errorf(at, "value must not be nested more than %d deep", maxDepth)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return d.value(n.Alias, from, at)
	case yaml.MappingNode:
		return d.object(n, at)
	case yaml.SequenceNode:
		return d.array(n, at)
	}
	return d.scalar(n, at)
}

func (d *Document) object(n *yaml.Node, at jsontext.Pointer) error {
	seen := make(map[string]bool)
	d.JSON = append(d.JSON, '{')
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := key.Value
		member := at.AppendToken(name)
		d.places[member] = place{key.Line, key.Column}
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!null":
			return d.Errorf(member, "a key must be a string")
		case key.ShortTag() == "!!merge":
			return d.Errorf(member, "merge key << is not supported; repeat its keys")
		case seen[name]:
			return d.Errorf(member, "duplicate key %q; remove one", name)
		}
		seen[name] = true
		if i > 0 {
			d.JSON = append(d.JSON, ',')
		}
		if err := d.text(name, member); err != nil {
			return err
		}
		d.JSON = append(d.JSON, ':')
		if err := d.value(value, key, member); err != nil {
			return err
		}
	}
	d.JSON = append(d.JSON, '}')
	return nil
}

func (d *Document) array(n *yaml.Node, at jsontext.Pointer) error {
	d.JSON = append(d.JSON, '[')
	for i, element := range n.Content {
		if i > 0 {
			d.JSON = append(d.JSON, ',')
		}
		if err := d.value(element, element, at.AppendToken(strconv.Itoa(i))); err != nil {
			return err
		}
	}
	d.JSON = append(d.JSON, ']')
	return nil
}

// scalar writes a string, number, boolean or null. Dates and values with other tags are strings.
func (d *Document) scalar(n *yaml.Node, at jsontext.Pointer) error {
	switch n.ShortTag() {
	case "!!null":
		d.JSON = append(d.JSON, "null"...)
	case "!!bool":
		value := strings.ToLower(n.Value)
		if value != "true" && value != "false" { // only with the tag
			return d.Errorf(at, "boolean %s must be true or false", n.Value)
		}
		d.JSON = append(d.JSON, value...)
	case "!!int", "!!float":
		number, err := numberOf(n.Value)
		if err != nil {
			return d.Errorf(at, "%w", err)
		}
		d.JSON = append(d.JSON, number...)
	default:
		return d.text(n.Value, at)
	}
	return nil
}

func (d *Document) text(text string, at jsontext.Pointer) error {
	out, err := jsontext.AppendQuote(d.JSON, text)
	if err != nil {
		return d.Errorf(at, "text must be valid UTF-8")
	}
	d.JSON = out
	return nil
}

// numberOf returns a number of YAML as JSON. A number that JSON has, too, stays unchanged.
func numberOf(text string) (string, error) {
	if json.Valid([]byte(text)) {
		return text, nil
	}
	plain := strings.ReplaceAll(text, "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return strconv.FormatInt(i, 10), nil
	}
	f, err := strconv.ParseFloat(plain, 64)
	encoded, invalid := json.Marshal(f)
	if err != nil || invalid != nil { // such as .inf
		return "", fmt.Errorf("%s is not a JSON number; quote it if it is text", text)
	}
	return string(encoded), nil
}
