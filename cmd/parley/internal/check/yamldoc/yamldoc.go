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
		return nil, fmt.Errorf("%s:%d: file has a second document; write it to another file", path, second.Line)
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(path, err)
	}
	d := &Document{path: path, places: make(map[jsontext.Pointer]place)}
	c := converter{document: d}
	if err := c.value(root.Content[0], root.Content[0], ""); err != nil {
		return nil, err
	}
	d.JSON = c.out
	return d, nil
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

// converter writes a document as JSON.
type converter struct {
	document *Document
	out      []byte
	values   int
	depth    int
}

// value writes a value. from is the node that determines its position: the name of a member, or the value itself.
func (c *converter) value(n, from *yaml.Node, at jsontext.Pointer) error {
	c.document.places[at] = place{from.Line, from.Column}
	c.depth++
	defer func() { c.depth-- }()
	switch c.values++; { // an alias counts as often as it is used
	case c.values > maxValues || len(c.out) > maxFile:
		return c.document.Errorf(at, "document is too large, with its aliases")
	case c.depth > maxDepth:
		return c.document.Errorf(at, "value must not be nested more than %d deep", maxDepth)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return c.value(n.Alias, from, at)
	case yaml.MappingNode:
		return c.object(n, at)
	case yaml.SequenceNode:
		return c.array(n, at)
	}
	return c.scalar(n, at)
}

func (c *converter) object(n *yaml.Node, at jsontext.Pointer) error {
	seen := make(map[string]bool)
	c.out = append(c.out, '{')
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := key.Value
		member := at.AppendToken(name)
		c.document.places[member] = place{key.Line, key.Column}
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!null":
			return c.document.Errorf(member, "a key must be a string")
		case key.ShortTag() == "!!merge":
			return c.document.Errorf(member, "merge key << is not supported; repeat its keys")
		case seen[name]:
			return c.document.Errorf(member, "duplicate key %q; remove one", name)
		}
		seen[name] = true
		if i > 0 {
			c.out = append(c.out, ',')
		}
		if err := c.text(name, member); err != nil {
			return err
		}
		c.out = append(c.out, ':')
		if err := c.value(value, key, member); err != nil {
			return err
		}
	}
	c.out = append(c.out, '}')
	return nil
}

func (c *converter) array(n *yaml.Node, at jsontext.Pointer) error {
	c.out = append(c.out, '[')
	for i, element := range n.Content {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		if err := c.value(element, element, at.AppendToken(strconv.Itoa(i))); err != nil {
			return err
		}
	}
	c.out = append(c.out, ']')
	return nil
}

// scalar writes a string, number, boolean or null. Dates and values with other tags are strings.
func (c *converter) scalar(n *yaml.Node, at jsontext.Pointer) error {
	switch n.ShortTag() {
	case "!!null":
		c.out = append(c.out, "null"...)
	case "!!bool":
		value := strings.ToLower(n.Value)
		if value != "true" && value != "false" { // only with the tag
			return c.document.Errorf(at, "boolean %s must be true or false", n.Value)
		}
		c.out = append(c.out, value...)
	case "!!int", "!!float":
		number, err := numberOf(n.Value)
		if err != nil {
			return c.document.Errorf(at, "%w", err)
		}
		c.out = append(c.out, number...)
	default:
		return c.text(n.Value, at)
	}
	return nil
}

func (c *converter) text(text string, at jsontext.Pointer) error {
	out, err := jsontext.AppendQuote(c.out, text)
	if err != nil {
		return c.document.Errorf(at, "text must be valid UTF-8")
	}
	c.out = out
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
		return "", fmt.Errorf("number %s must be one that JSON has; write it in quotes if it is text", text)
	}
	return string(encoded), nil
}
