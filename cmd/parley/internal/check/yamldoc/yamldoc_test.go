package yamldoc

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/schema"
)

func TestYAMLBecomesJSONOfTheSameValue(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: [x, 'y', \"z\"]\n":             `{"a":1,"b":["x","y","z"]}`,
		"z: 1\na: 2":                             `{"z":1,"a":2}`,
		"- yes\n- true\n- False\n- ~\n- null\n-": `["yes",true,false,null,null,null]`,
		"- 2025-11-25\n- 12:30\n- 1e3\n- 1.50":   `["2025-11-25","12:30",1e3,1.50]`,
		"- 0x1F\n- 0o17\n- +5\n- 1_000\n- .5":    `[31,15,5,1000,0.5]`,
		"- 9007199254740993":                     `[9007199254740993]`,
		"- '12'\n- \"true\"\n- !!str 5":          `["12","true","5"]`,
		"text: |\n  one\n  two\n":                `{"text":"one\ntwo\n"}`,
		"a: &x {b: 1}\nc: *x":                    `{"a":{"b":1},"c":{"b":1}}`,
		"404: none":                              `{"404":"none"}`,
		`{"a": [1, {"b": "\u00e9\n"}]}`:          `{"a":[1,{"b":"é\n"}]}`,
		"\ufeff# comment\na: 1 # another":        `{"a":1}`,
	} {
		d, err := Parse("f", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if string(d.JSON) != want {
			t.Errorf("%q: got %s, want %s", text, d.JSON, want)
		}
	}
}

func TestInvalidDocumentIsAnErrorWithItsPosition(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "f: file is empty",
		"# nothing\n":              "f: file is empty",
		"a: 1\na: 2\n":             `f:2:1: duplicate key "a"; remove one`,
		"a: 1\n  b: 2\n":           "f:2: invalid YAML: mapping values are not allowed in this context",
		"a: *b\n":                  "f: invalid YAML: unknown anchor 'b' referenced",
		"a: 1\n---\nb: 2\n":        "f:2: the file contains a second YAML document; move it to another file",
		"x:\n  - .inf\n":           "f:2:5: .inf is not a JSON number; quote it if it is text",
		"x: &a\n  y: *a\n":         "f:2:3: value must not be nested more than 100 deep",
		"x: &a {b: 1}\n<<: *a\n":   "f:2:1: merge key << is not supported; repeat its keys",
		"[a, b]: 1\n":              "f:1:1: a key must be a string",
		"x:\n  ? \n  : 1\n":        "a key must be a string",
		strings.Repeat("[", 200):   "f:1: invalid YAML: did not find expected node content",
		"a: \"\\ud800\"\n":         "f: invalid YAML: found invalid Unicode character escape code",
		"a: 1\n\tb: 2\n":           "f:2: invalid YAML: ",
		"- !!bool yes\n":           "f:1:3: boolean yes must be true or false",
		"a: 99999999999999999999x": "",
	} {
		_, err := Parse("f", []byte(text))
		if want == "" {
			must.Check(t, err, text)
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestAliasesCannotMultiplyADocumentWithoutBound(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for _, next := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		before := string(next[0] - 1)
		b.WriteString("a" + next + ": &a" + next + " [" + strings.Repeat("*a"+before+", ", 9) + "*a" + before + "]\n")
	}
	must.CheckFails(t, must.Err(Parse("f", []byte(b.String()))), "too large")
}

func TestMistakesHaveTheirPosition(t *testing.T) {
	s, err := schema.Compile([]byte(`{"type": "object", "additionalProperties": false, "required": ["tests"], "properties": {
		"tests": {"type": "array", "items": {"type": "object", "additionalProperties": false, "properties": {"call": {"type": "string"}, "with": {"required": ["a"]}}}}}}`))
	must.Do(t, err)
	d := must.Get(Parse("f", []byte("tests:\n  - call: 1\n  - cal: x\n  - {call: x,\n     with: {b: 1}}\n")))(t)
	want := `f:2:5: tests/0/call: expected string, got number 1
f:3:5: tests/1/cal: expected one of the properties "call", "with", got unknown property "cal"
f:5:6: tests/2/with/a: expected a value, got nothing; it is required`
	if err := d.Decode(s, new(any)); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	must.CheckEqual(t, d.Line("/tests/2/call"), 4)
	d, err = Parse("f", []byte("{}"))
	must.Do(t, err)
	if err := d.Decode(s, new(any)); err == nil ||
		err.Error() != "f:1:1: tests: expected array, got nothing; it is required" {
		t.Errorf("got %v", err)
	}
}
