package output

import (
	"bytes"
	"fmt"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/parley-mcp/parley/internal/plaintext"
)

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
