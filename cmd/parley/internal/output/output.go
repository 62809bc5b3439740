// Package output writes the results and errors of commands as JSON or YAML.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// Format is an output format. It implements pflag.Value.
type Format string

// The output formats.
const (
	Table Format = "table" // text for people
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats returns all formats.
func Formats() []string { return []string{string(Table), string(JSON), string(YAML)} }

// String returns the name of the format.
func (f *Format) String() string { return string(*f) }

// Set sets the format to the one with a name.
func (f *Format) Set(name string) error {
	switch Format(name) {
	case Table, JSON, YAML:
		*f = Format(name)
		return nil
	}
	return errors.New("must be table, json or yaml")
}

// Type returns the name that the help shows for a value.
func (f *Format) Type() string { return "format" }

// Write writes v as one JSON value or YAML document, which ends with a newline. The members are those of
// encoding/json in both formats. Characters that could control or deceive a terminal are escaped. The format must not
// be Table.
func Write(w io.Writer, f Format, v any) error {
	return write(w, f, v, func(text []byte) ([]byte, error) {
		var b bytes.Buffer
		err := json.Indent(&b, text, "", "  ")
		return b.Bytes(), err
	})
}

// WriteEvent is like Write for one of several values on a stream: a JSON value is on one line, and a YAML document
// begins with "---".
func WriteEvent(w io.Writer, f Format, v any) error {
	if f == YAML {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
	}
	return write(w, f, v, func(text []byte) ([]byte, error) { return text, nil })
}

func write(w io.Writer, f Format, v any, layout func([]byte) ([]byte, error)) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	if f == YAML {
		text, err := toYAML(b.Bytes())
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	text, err := layout(b.Bytes())
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, terminal.JSON(string(text)))
	return err
}
