package config

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/schema"
)

// memberSchema is the schema of a member, or one that it contains.
type memberSchema struct {
	Title       string                   `json:"title"`
	Description string                   `json:"description"`
	Type        any                      `json:"type"`
	Enum        []string                 `json:"enum"`
	Default     json.RawMessage          `json:"default"`
	Examples    []json.RawMessage        `json:"examples"`
	Deprecated  bool                     `json:"deprecated"`
	Required    []string                 `json:"required"`
	Properties  map[string]*memberSchema `json:"properties"`
	Definitions map[string]*memberSchema `json:"$defs"`
}

func readReference(t *testing.T) *memberSchema {
	t.Helper()
	root := new(memberSchema)
	must.Do(t, json.Unmarshal(Schema, root))
	return root
}

// The reference has the texts, the defaults and the examples of the schema.
func TestReferenceOfTheConfigurationHasTheTextsOfTheSchema(t *testing.T) {
	text := must.Get(os.ReadFile("REFERENCE.md"))(t)
	plain := func(text string) string { return strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " ") }
	root := readReference(t)
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = plain(body)
	}
	check := func(title string, s *memberSchema) {
		section := sections[title]
		has := func(text string) {
			if text = plain(text); !strings.Contains(section, text) {
				t.Errorf("section %q of the reference has no text %q", title, text)
			}
		}
		has(s.Description)
		for name, m := range s.Properties {
			if m.Deprecated {
				has("- " + name + ": " + m.Description)
				continue
			}
			_, item, found := strings.Cut(section, "- **"+name+"**: ")
			item, _, _ = strings.Cut(item, " - **")
			want := []string{m.Description}
			if m.Default != nil {
				want = append(want, "Default: "+string(m.Default))
			}
			for _, example := range m.Examples {
				want = append(want, "Example: "+string(example))
			}
			for _, text := range want {
				must.CheckThat(t, found && strings.Contains(item, plain(text)),
					"%s in section %q of the reference has no text %q", name, title, text)
			}
		}
	}
	check("The file", root)
	for _, s := range root.Definitions {
		if len(s.Properties) > 0 && !s.Deprecated {
			check(s.Title, s)
		}
	}
}

// Each member has a description, what happens without it, and examples that its schema accepts.
func TestEachMemberOfTheConfigurationIsDescribed(t *testing.T) {
	root := readReference(t)
	var whole struct {
		Definitions json.RawMessage `json:"$defs"`
		Properties  json.RawMessage `json:"properties"`
	}
	must.Do(t, json.Unmarshal(Schema, &whole))
	check := func(object string, s *memberSchema, pointer string) {
		for member, m := range s.Properties {
			name := object + "." + member
			if s.Deprecated || m.Deprecated {
				continue
			}
			must.CheckThat(t, strings.HasSuffix(m.Description, "."), "%s: description must be sentences", name)
			optional := !slices.Contains(s.Required, member) && m.Default == nil
			says := func(text string) bool { return strings.Contains(m.Description, text) }
			must.CheckThat(t, !optional || says("ithout it") || says("Default: ") || says("require"),
				"%s: description must say what happens without it", name)
			must.CheckThat(t, len(m.Examples) != 0 || m.Enum != nil || m.Type == "boolean",
				"%s: an example is missing", name)
			compiled, err := schema.Compile(fmt.Appendf(nil, `{"$ref":"#%s/properties/%s","$defs":%s,"properties":%s}`,
				pointer, member, whole.Definitions, whole.Properties))
			must.Do(t, err)
			for _, value := range append(m.Examples, m.Default) {
				err := compiled.Validate(value)
				must.CheckThat(t, value == nil || err == nil, "%s: %s: %v", name, value, err)
			}
		}
	}
	check("file", root, "")
	for name, s := range root.Definitions {
		check(name, s, "/$defs/"+name)
	}
}
