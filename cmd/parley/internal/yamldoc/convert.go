package yamldoc

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

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
			return c.document.Errorf(member, "name of a member must be a string")
		case key.ShortTag() == "!!merge":
			return c.document.Errorf(member, "merge key << is not supported; repeat the members")
		case seen[name]:
			return c.document.Errorf(member, "duplicate member %q; remove one", name)
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
