// Package yamldoc reads YAML files as JSON, and knows the line and column of each value.
package yamldoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

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
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s: the file must not exceed %d bytes", path, maxFile)
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
	if line, rest, found := strings.Cut(strings.TrimPrefix(text, "line "), ": "); found && strings.HasPrefix(text, "line ") {
		return fmt.Errorf("%s:%s: invalid YAML: %s", path, line, rest)
	}
	return fmt.Errorf("%s: invalid YAML: %s", path, text)
}

// Line returns the line of the value at a JSON Pointer. The line of a member is that of its name.
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
