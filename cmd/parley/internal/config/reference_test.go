package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/schema"
)

var update = flag.Bool("update", false, "write the reference of the configuration from the schema")

const referencePage = "../../../../docs/program/appendix-configuration.md"

const referenceHead = `# Configuration reference

This page has every member of a configuration file. It is generated from the
[JSON Schema](../../cmd/parley/internal/config/schema.json), which editors use for completion.
[configuration.md](configuration.md) describes how parley reads the files.

A duration is a number with a unit, such as ` + "`90s`, `5m` or `1h30m`" + `. In a pattern, ` + "`*`" +
	` matches any number of characters
and ` + "`?`" + ` matches one character.
`

// sections are the definitions of the schema that have a section of their own, in the order of the page.
var sections = []string{
	"server", "tools", "prompts", "inputLimits", "extension", "credentials", "policy", "rule", "hook", "toolset",
	"principal", "input",
}

// memberSchema is the schema of a member, or one that it contains.
type memberSchema struct {
	Ref         string            `json:"$ref"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Type        any               `json:"type"`
	Enum        []string          `json:"enum"`
	Default     json.RawMessage   `json:"default"`
	Examples    []json.RawMessage `json:"examples"`
	Deprecated  bool              `json:"deprecated"`
	Required    []string          `json:"required"`
	AnyOf       []memberSchema    `json:"anyOf"`
	Items       *memberSchema     `json:"items"`
	Values      json.RawMessage   `json:"additionalProperties"`
	Properties  orderedMembers    `json:"properties"`

	Definitions map[string]*memberSchema `json:"$defs"`
}

// orderedMembers are the members of an object in the order of the schema.
type orderedMembers []namedMember

type namedMember struct {
	name   string
	schema memberSchema
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *orderedMembers) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		member := namedMember{name: name.(string)}
		if err := d.Decode(&member.schema); err != nil {
			return err
		}
		*m = append(*m, member)
	}
	return nil
}

func readReference(t *testing.T) *memberSchema {
	t.Helper()
	root := new(memberSchema)
	if err := json.Unmarshal(Schema, root); err != nil {
		t.Fatal(err)
	}
	return root
}

// typeOf describes the type of a value for people.
func (root *memberSchema) typeOf(s *memberSchema) string {
	name := strings.TrimPrefix(s.Ref, "#/$defs/")
	switch {
	case slices.Contains(sections, name):
		title := root.Definitions[name].Title
		return fmt.Sprintf("[%s](#%s)", strings.ToLower(title[:1])+title[1:],
			strings.ReplaceAll(strings.ToLower(title), " ", "-"))
	case name == "duration":
		return "duration"
	case name == "limit":
		return "whole number, or -1 for no limit"
	case name == "names", name == "values":
		return "object of strings"
	case name != "":
		return root.typeOf(root.Definitions[name])
	case s.Enum != nil:
		return "`\"" + strings.Join(s.Enum, "\"`, `\"") + "\"`"
	case len(s.AnyOf) > 0:
		var words []string
		for i := range s.AnyOf {
			of := root.Definitions[strings.TrimPrefix(s.AnyOf[i].Ref, "#/$defs/")]
			if of == nil && !s.AnyOf[i].Deprecated || of != nil && !of.Deprecated {
				words = append(words, root.typeOf(&s.AnyOf[i]))
			}
		}
		return strings.Join(words, " or ")
	case s.Items != nil:
		of := root.typeOf(s.Items)
		if plural, isString := strings.CutPrefix(of, "string"); isString {
			of = "strings" + plural
		}
		if strings.HasPrefix(of, "[") { // a link to a section
			return "array, each element " + of
		}
		return "array of " + of
	case s.Type == "object" && len(s.Values) > 0:
		var of memberSchema
		if json.Unmarshal(s.Values, &of) == nil && of.Ref != "" {
			return "object, each member " + root.typeOf(&of)
		}
	case s.Type == "boolean":
		return "true or false"
	case s.Type == "integer":
		return "whole number"
	}
	if text, ok := s.Type.(string); ok {
		return text
	}
	return "string"
}

// reference returns the page.
func (root *memberSchema) reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	section := func(title, description string, s *memberSchema) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", title, wrapped(coded(description), "", ""))
		var others []string
		for _, m := range s.Properties {
			if m.schema.Deprecated {
				others = append(others, fmt.Sprintf("`%s`: %s", m.name, m.schema.Description))
				continue
			}
			words := []string{fmt.Sprintf("**`%s`**: %s.", m.name, root.typeOf(&m.schema)), coded(m.schema.Description)}
			switch {
			case slices.Contains(s.Required, m.name):
				words = append(words, "Required.")
			case m.schema.Default != nil:
				words = append(words, fmt.Sprintf("Default: `%s`.", m.schema.Default))
			}
			for _, example := range m.schema.Examples {
				words = append(words, fmt.Sprintf("Example: `%s`", example))
			}
			b.WriteString("\n" + wrapped(strings.Join(words, " "), "- ", "  "))
		}
		b.WriteString("\n")
		if len(others) > 0 {
			b.WriteString("\nMembers that are read for the files of other programs:\n")
			for _, line := range others {
				b.WriteString("\n" + wrapped(coded(line), "- ", "  "))
			}
			b.WriteString("\n")
		}
	}
	section("The file", root.Description, root)
	for _, name := range sections {
		s := root.Definitions[name]
		section(s.Title, s.Description, s)
	}
	return b.String()
}

// coded puts references such as ${NAME} into code spans, in which they are not HTML or emphasis.
func coded(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		bare := strings.TrimRight(word, ".,:;)")
		if strings.HasPrefix(bare, "${") || strings.HasPrefix(bare, "--") || bare == "*" || bare == "?" {
			words[i] = "`" + bare + "`" + word[len(bare):]
		}
	}
	return strings.Join(words, " ")
}

// wrapped breaks a text into lines of at most 120 columns, outside code spans.
func wrapped(text, first, rest string) string {
	var lines []string
	line := first
	for i, span := range strings.Split(text, "`") {
		if i%2 == 1 {
			text = strings.Replace(text, "`"+span+"`", "`"+strings.ReplaceAll(span, " ", "\u00a0")+"`", 1)
		}
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' }) {
		if len([]rune(line))+len([]rune(word)) >= 120 {
			lines = append(lines, strings.TrimRight(line, " "))
			line = rest
		}
		line += word + " "
	}
	lines = append(lines, strings.TrimRight(line, " "))
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\u00a0", " ")
}

func TestReferenceOfTheConfigurationIsThatOfTheSchema(t *testing.T) {
	want := readReference(t).reference()
	if *update {
		if err := os.WriteFile(referencePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePage)
	if err != nil || string(got) != want {
		t.Errorf("%s must be written with: go test -run Reference ./cmd/parley/internal/config -update (%v)",
			referencePage, err)
	}
}

// Each member has a description, what happens without it, and examples that its schema accepts.
func TestEachMemberOfTheConfigurationIsDescribed(t *testing.T) {
	root := readReference(t)
	var whole struct {
		Definitions json.RawMessage `json:"$defs"`
		Properties  json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(Schema, &whole); err != nil {
		t.Fatal(err)
	}
	check := func(object string, s *memberSchema, pointer string) {
		for _, m := range s.Properties {
			name := object + "." + m.name
			if s.Deprecated || m.schema.Deprecated {
				continue
			}
			if !strings.HasSuffix(m.schema.Description, ".") {
				t.Errorf("%s: description must be sentences", name)
			}
			optional := !slices.Contains(s.Required, m.name) && m.schema.Default == nil
			if optional && !strings.Contains(m.schema.Description, "ithout it") &&
				!strings.Contains(m.schema.Description, "require") {
				t.Errorf("%s: description must say what happens without it", name)
			}
			if len(m.schema.Examples) == 0 && m.schema.Enum == nil && m.schema.Type != "boolean" {
				t.Errorf("%s: an example is missing", name)
			}
			compiled, err := schema.Compile(fmt.Appendf(nil, `{"$ref":"#%s/properties/%s","$defs":%s,"properties":%s}`,
				pointer, m.name, whole.Definitions, whole.Properties))
			if err != nil {
				t.Fatal(err)
			}
			for _, value := range append(m.schema.Examples, m.schema.Default) {
				if err := compiled.Validate(value); value != nil && err != nil {
					t.Errorf("%s: %s: %v", name, value, err)
				}
			}
		}
	}
	check("file", root, "")
	for name, s := range root.Definitions {
		check(name, s, "/$defs/"+name)
		if len(s.Properties) > 0 && !s.Deprecated && !slices.Contains(sections, name) {
			t.Errorf("%s has no section in the reference", name)
		}
	}
}
