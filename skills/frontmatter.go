package skills

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"go.yaml.in/yaml/v3"
)

// Limits of a frontmatter.
const (
	maxFrontmatter = 64 << 10 // bytes
	maxNodes       = 10_000   // values, counting what an alias repeats
	maxDepth       = 64
)

var errFrontmatter = fmt.Errorf("%s must begin with frontmatter: a line of ---, YAML, and a line of ---", fileName)

// frontmatterOf returns the frontmatter of a SKILL.md as a JSON object.
func frontmatterOf(contents []byte) (json.RawMessage, error) {
	text := bytes.TrimPrefix(contents, []byte("\uFEFF"))
	text = text[:min(len(text), maxFrontmatter)]
	first, rest, ok := bytes.Cut(text, []byte{'\n'})
	if !ok || string(bytes.TrimRight(first, " \t\r")) != "---" {
		return nil, errFrontmatter
	}
	end := -1
	for at := 0; at < len(rest); {
		line, _, whole := bytes.Cut(rest[at:], []byte{'\n'})
		if string(bytes.TrimRight(line, " \t\r")) == "---" && bytes.HasPrefix(line, []byte("---")) {
			end = at
			break
		}
		if !whole {
			break
		}
		at += len(line) + 1
	}
	switch {
	case end < 0 && len(contents) > maxFrontmatter:
		return nil, fmt.Errorf("the frontmatter of %s must not exceed %d bytes", fileName, maxFrontmatter)
	case end < 0:
		return nil, errFrontmatter
	}
	return fromYAML(rest[:end])
}

// fromYAML converts a YAML mapping to a JSON object. Scalars have the types of the core schema of YAML 1.2.
func fromYAML(text []byte) (json.RawMessage, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the frontmatter is empty")
		}
		return nil, fmt.Errorf("the frontmatter must be YAML: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the frontmatter must be a YAML mapping")
	}
	c := converter{left: maxNodes}
	value, err := c.value(doc.Content[0], 0)
	if err != nil {
		return nil, fmt.Errorf("frontmatter: %w", err)
	}
	return json.Marshal(value)
}

type converter struct {
	left int // number of values that may follow
}

func (c *converter) value(n *yaml.Node, depth int) (any, error) {
	if c.left--; c.left < 0 || depth > maxDepth {
		return nil, fmt.Errorf("it must have at most %d values and %d levels", maxNodes, maxDepth)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return c.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		all := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, err := c.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	case yaml.MappingNode:
		all := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: a key must be a string", key.Line)
			}
			if _, twice := all[key.Value]; twice {
				return nil, fmt.Errorf("line %d: the key %.80q occurs twice", key.Line, key.Value)
			}
			v, err := c.value(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			all[key.Value] = v
		}
		return all, nil
	}
	return scalar(n)
}

// The forms of numbers in the core schema (YAML 1.2.2, section 10.3.2).
var (
	decimal = regexp.MustCompile(`^[-+]?[0-9]+$`)
	octal   = regexp.MustCompile(`^0o[0-7]+$`)
	hexa    = regexp.MustCompile(`^0x[0-9a-fA-F]+$`)
	float   = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	special = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

func scalar(n *yaml.Node) (any, error) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Style&(quoted|yaml.TaggedStyle) != 0 {
		return n.Value, nil
	}
	switch v := n.Value; {
	case v == "" || v == "~" || v == "null" || v == "Null" || v == "NULL":
		return nil, nil
	case v == "true" || v == "True" || v == "TRUE":
		return true, nil
	case v == "false" || v == "False" || v == "FALSE":
		return false, nil
	case decimal.MatchString(v):
		digits := strings.TrimLeft(strings.TrimLeft(v, "+-"), "0")
		if digits == "" {
			digits = "0"
		}
		if v[0] == '-' {
			digits = "-" + digits
		}
		return json.Number(digits), nil
	case octal.MatchString(v), hexa.MatchString(v):
		u, err := strconv.ParseUint(v, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: the number %.80s is too large", n.Line, v)
		}
		return json.Number(strconv.FormatUint(u, 10)), nil
	case float.MatchString(v):
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: the number %.80s is too large", n.Line, v)
		}
		return f, nil
	case special.MatchString(v):
		return nil, fmt.Errorf("line %d: JSON has no number %s", n.Line, v)
	}
	return n.Value, nil
}

// compareFrontmatter returns an error that names the first differing field.
func compareFrontmatter(entry, file json.RawMessage) error {
	var a, b map[string]jsontext.Value
	if err := errors.Join(jsonv2.Unmarshal(entry, &a), jsonv2.Unmarshal(file, &b)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if v, ok := b[name]; !ok || !equal(a[name], v) {
			return fmt.Errorf("the field %.80q of its frontmatter differs", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			return fmt.Errorf("its frontmatter contains the additional field %.80q", name)
		}
	}
	return nil
}

// equal reports whether two JSON values are equal.
func equal(a, b jsontext.Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case '{':
		var x, y map[string]jsontext.Value
		return jsonv2.Unmarshal(a, &x) == nil && jsonv2.Unmarshal(b, &y) == nil && maps.EqualFunc(x, y, equal)
	case '[':
		var x, y []jsontext.Value
		return jsonv2.Unmarshal(a, &x) == nil && jsonv2.Unmarshal(b, &y) == nil && slices.EqualFunc(x, y, equal)
	case '"':
		var x, y string
		return jsonv2.Unmarshal(a, &x) == nil && jsonv2.Unmarshal(b, &y) == nil && x == y
	case '0':
		return equalNumbers(strings.TrimSpace(string(a)), strings.TrimSpace(string(b)))
	}
	return true
}

// equalNumbers compares numbers that may be written differently. Integers are compared exactly.
func equalNumbers(a, b string) bool {
	if a == b {
		return true
	}
	if decimal.MatchString(a) && decimal.MatchString(b) {
		return false
	}
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err1 == nil && err2 == nil && x == y && !math.IsInf(x, 0)
}
