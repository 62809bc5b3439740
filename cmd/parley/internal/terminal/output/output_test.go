package output

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/parley-mcp/parley/internal/must"
)

func written(t *testing.T, f Format, v any) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, Write(&b, f, v))
	return b.String()
}

func TestYAMLHasTheMembersAndTheirOrderOfJSON(t *testing.T) {
	v := struct {
		Name  string          `json:"name"`
		Count int             `json:"count"`
		None  []string        `json:"none"`
		Raw   json.RawMessage `json:"raw"`
		Empty string          `json:"empty,omitempty"`
	}{"a: b", 3, nil, json.RawMessage(`{"z":1.5e3,"a":[true,{}, []],"text":"one\ntwo\n"}`), ""}
	want := `name: 'a: b'
count: 3
none: null
raw:
  z: 1.5e3
  a:
    - true
    - {}
    - []
  text: |
    one
    two
`
	must.CheckEqual(t, written(t, YAML, v), want)
}

func TestStringsOfYAMLStayStrings(t *testing.T) {
	texts := []string{"true", "no", "y", "12", "1e3", "null", "~", "", " x ", "2026-07-28", "12:30:45", "- a", "# a",
		"{}", "a\tb", "é€😀", "a\u202eb\n", "\u00ad", "\x1b[31m", "\r\n", "<<"}
	text := written(t, YAML, texts)
	var got []any
	must.Do(t, yaml.Unmarshal([]byte(text), &got), text)
	for i, want := range texts {
		must.CheckThat(t, got[i] == want, "%q becomes %#v in\n%s", want, got[i], text)
	}
	must.CheckThat(t, !strings.ContainsAny(text, "\x1b\u202e\u00ad\r"), "not sanitised: %q", text)
	must.CheckContains(t, text, `"no"`, "a parser of YAML 1.1 reads no as false")
}

func TestNamesOfYAMLAreSanitised(t *testing.T) {
	text := written(t, YAML, map[string]int{"a\u202eb": 1, "\x1b": 2, "true": 3})
	var got map[string]int
	err := yaml.Unmarshal([]byte(text), &got)
	must.CheckThat(t, err == nil && got["a\u202eb"] == 1 && got["\x1b"] == 2 && got["true"] == 3,
		"%v %v from\n%s", got, err, text)
	must.CheckThat(t, !strings.ContainsAny(text, "\x1b\u202e"), "not sanitised: %q", text)
}

func TestJSONIsIndentedAndAnEventIsOnOneLine(t *testing.T) {
	v := map[string]string{"a": "<\u202e>"}
	if got, want := written(t, JSON, v), "{\n  \"a\": \"<\\u202e>\"\n}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for format, want := range map[Format]string{JSON: "{\"a\":\"<\\u202e>\"}\n", YAML: "---\na: \"<\\U0000202E>\"\n"} {
		var b strings.Builder
		err := WriteEvent(&b, format, v)
		must.CheckThat(t, err == nil && b.String() == want, "%s: got %q %v, want %q", format, b.String(), err, want)
	}
}

func TestUnknownFormatIsAnError(t *testing.T) {
	f := Table
	if err := f.Set("xml"); err == nil || !strings.Contains(err.Error(), "must be table, json or yaml") || f != Table {
		t.Error(f, err)
	}
}
