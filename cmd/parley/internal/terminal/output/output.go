// Package output writes the results and errors of commands as JSON or YAML.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/internal/plaintext"
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

// Write writes v as one JSON value or YAML document, which ends with a newline. The keys are those of encoding/json in
// both formats. Characters that could control or deceive a terminal are escaped. The format must not be Table.
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

// toYAML converts a JSON value to a YAML document. Members keep their order.
func toYAML(text []byte) ([]byte, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	node, err := nextNode(decoder)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return nil, err
	}
	return []byte(escape(b.String())), nil
}

// nextNode returns the next value as a YAML node.
func nextNode(decoder *jsontext.Decoder) (*yaml.Node, error) {
	token, err := decoder.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		return collection(decoder, yaml.MappingNode, '}')
	case '[':
		return collection(decoder, yaml.SequenceNode, ']')
	case '"':
		return stringNode(token.String())
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}, nil // a number, true, false or null
}

// collection returns the names and values of an object, or the elements of an array.
func collection(decoder *jsontext.Decoder, kind yaml.Kind, end jsontext.Kind) (*yaml.Node, error) {
	node := &yaml.Node{Kind: kind}
	for decoder.PeekKind() != end {
		element, err := nextNode(decoder)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, element)
	}
	_, err := decoder.ReadToken()
	return node, err
}

// stringNode returns a string, in quotes if it would have another type or meaning without them.
func stringNode(text string) (*yaml.Node, error) {
	node := new(yaml.Node)
	if err := node.Encode(text); err != nil {
		return nil, err
	}
	if escape(text) != text {
		node.Style = yaml.DoubleQuotedStyle // only these can have the escape sequences of escape
	}
	return node, nil
}

// escape escapes invisible characters, which are in double quotes. The encoder escapes control characters.
func escape(text string) string {
	return plaintext.Replace(text, func(r rune) string {
		if unicode.IsControl(r) {
			return string(r)
		}
		return fmt.Sprintf(`\U%08X`, r)
	})
}

// Flag is the flag --output of all commands.
const Flag = "output"

// AddFlag adds the flag --output to a command and its subcommands.
func AddFlag(root *cobra.Command) {
	format := Table
	root.PersistentFlags().VarP(&format, Flag, "o", "table, json or yaml, also for errors")
	// the flag exists
	_ = root.RegisterFlagCompletionFunc(Flag, cobra.FixedCompletions(Formats(), cobra.ShellCompDirectiveNoFileComp))
}

// Of returns the output format of a command line.
func Of(cmd *cobra.Command) Format {
	if flag := cmd.Flag(Flag); flag != nil {
		return Format(flag.Value.String())
	}
	return Table
}

// Print prints value to stdout as JSON or YAML, or a text for people.
func Print(cmd *cobra.Command, value any, format string, args ...any) error {
	return Text(cmd, value, func(b *strings.Builder) { fmt.Fprintf(b, format, args...) })
}

// Text prints value to stdout as JSON or YAML, or the text for people that write appends to a builder.
func Text(cmd *cobra.Command, value any, write func(b *strings.Builder)) error {
	return Show(cmd, value, func(w io.Writer) error {
		var b strings.Builder
		write(&b)
		_, err := io.WriteString(w, b.String())
		return err
	})
}

// Show prints value to stdout as JSON or YAML, or calls table, which prints it for people.
func Show(cmd *cobra.Command, value any, table func(w io.Writer) error) error {
	if f := Of(cmd); f != Table {
		return Write(cmd.OutOrStdout(), f, value)
	}
	return table(cmd.OutOrStdout())
}
