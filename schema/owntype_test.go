//lint:file-ignore SA5008 the tags are wrong on purpose

package schema

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

// match is a string such as "2024/11" in JSON.
type match struct{ Year, Number int }

func (m match) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `"%d/%d"`, m.Year, m.Number), nil
}

func (m *match) UnmarshalJSON(raw []byte) error {
	_, err := fmt.Sscanf(string(raw), `"%d/%d"`, &m.Year, &m.Number)
	return err
}

// round describes its JSON, and stands for a type of another package.
type round struct{ match }

func (round) JSONSchema() string {
	return `{"type":"string","pattern":"^[0-9]+/[0-9]+$","description":"a round"}`
}

type color string

func (*color) JSONSchema() string {
	return ` {"$schema":"x", "type":"string", "enum":["red", "blue"]} `
}

type broken struct{ match }

func (broken) JSONSchema() string { return `"string"` }

// pinned has fields that its own schema describes differently.
type pinned struct {
	Next *pinned `json:"next"`
}

func (pinned) JSONSchema() string { return `{"type":"object"}` }

func TestTypesWithJSONMethodsGetASchema(t *testing.T) {
	property := func(s *Schema, err error) string {
		if err != nil {
			return err.Error()
		}
		text := strings.TrimPrefix(string(s.JSON()), `{"type":"object","properties":{"a":`)
		text, _, _ = strings.Cut(text, `,"additionalProperties":false}`)
		return text
	}
	for name, test := range map[string]struct{ got, want string }{
		"nothing known": {property(For[struct {
			A match `json:"a" doc:"such as 2024/11"`
		}]()), `{"description":"such as 2024/11"}},"required":["a"]`},
		"a method": {property(For[struct {
			A round `json:"a"`
		}]()), `{"type":"string","pattern":"^[0-9]+/[0-9]+$","description":"a round"}},"required":["a"]`},
		"a method and tags": {property(For[struct {
			A *round `json:"a" doc:"the last one" maxLength:"9" default:"2024/1"`
		}]()), `{"type":"string","pattern":"^[0-9]+/[0-9]+$","description":"the last one","default":"2024/1",` +
			`"maxLength":9}}`},
		"a method of the pointer": {property(For[struct {
			A []color `json:"a" maxItems:"2"`
		}]()), `{"type":"array","maxItems":2,"items":{"type":"string","enum":["red", "blue"]}}},"required":["a"]`},
		"a pattern": {property(For[struct {
			A match `json:"a" pattern:"^[0-9]+/[0-9]+$"`
		}]()), `{"type":"string","pattern":"^[0-9]+/[0-9]+$"}},"required":["a"]`},
		"a format, of elements": {property(For[struct {
			A []match `json:"a" format:"match-id"`
		}]()), `{"type":"array","items":{"type":"string","format":"match-id"}}},"required":["a"]`},
		"a number": {property(For[struct {
			A json.RawMessage `json:"a" minimum:"0"`
		}]()), `{"type":"number","minimum":0}},"required":["a"]`},
		"recursion": {property(For[struct {
			A pinned `json:"a"`
		}]()), `{"type":"object"}},"required":["a"]`},
		"an invalid schema": {property(For[struct {
			A broken `json:"a"`
		}]()), `schema: struct { A schema.broken "json:\"a\"" }.A: JSONSchema of broken must return a JSON Schema that ` +
			`is an object: it is string "string"`},
	} {
		must.CheckEqual(t, test.got, test.want, name)
	}
	s := must.Get(For[struct {
		A round `json:"a" default:"2024/1"`
		B match `json:"b" format:"match-id" default:"2024/2"`
	}]())(t)
	var v struct {
		A round `json:"a" default:"2024/1"`
		B match `json:"b" format:"match-id" default:"2024/2"`
	}
	must.Do(t, s.Decode([]byte(`{}`), &v))
	must.CheckEqual(t, fmt.Sprint(v), "{{{2024 1}} {2024 2}}")
	must.CheckContains(t, fmt.Sprint(s.Decode([]byte(`{"a":{"Year":1}}`), &v)), "value/a: expected string")
	must.CheckContains(t, fmt.Sprint(s.Decode([]byte(`{"a":"x"}`), &v)), "value/a: expected string matching")
}

// A tag that can never be right would make each call fail, or mislead the model.
func TestTagsThatCannotBeRightAreErrors(t *testing.T) {
	for want, err := range map[string]error{
		`format of a time.Time must be date-time`: errorOf(For[struct {
			A time.Time `json:"a" format:"date"`
		}]()),
		`for format:"time", use a string`: errorOf(For[struct {
			A []*time.Time `json:"a" format:"time"`
		}]()),
		`format of a time.Duration must not be duration`: errorOf(For[struct {
			A time.Duration `json:"a" format:"duration"`
		}]()),
		`enum must list values without spaces beside the commas: "y", not " y"`: errorOf(For[struct {
			A string `json:"a" enum:"x, y"`
		}]()),
		`enum must list values without spaces beside the commas: "x", not "x "`: errorOf(For[struct {
			A []string `json:"a" enum:"x ,y"`
		}]()),
		`beside the commas: "2", not " 2"`: errorOf(For[struct {
			A int `json:"a" enum:"1, 2"`
		}]()),
		`enum must fit the type: value: expected valid Addr`: errorOf(For[struct {
			A []netip.Addr `json:"a" enum:"127.0.0.1,localhost"`
		}]()),
		`default must fit the type: value: expected date and time`: errorOf(For[struct {
			A time.Time `json:"a" default:"tomorrow"`
		}]()),
		`default must fit the type: value: expected valid Addr`: errorOf(For[struct {
			A *netip.Addr `json:"a" default:"nonsense"`
		}]()),
		`default must fit the type: value: expected string in base 64`: errorOf(For[struct {
			A []byte `json:"a" default:"???"`
		}]()),
		`default must fit the type: value: expected integer from 0`: errorOf(For[struct {
			A uint64 `json:"a" default:"99999999999999999999"`
		}]()),
		`default must match the schema: value: expected boolean, got number 1`: errorOf(For[struct {
			A bool `json:"a" default:"1"`
		}]()),
		`default must fit the type: value: expected valid match`: errorOf(For[struct {
			A match `json:"a" default:"5"`
		}]()),
		`default must fit the type: value/0/b: expected date and time`: errorOf(For[struct {
			A []struct {
				B time.Time `json:"b"`
			} `json:"a" default:"[{\"b\":\"now\"}]"`
		}]()),
		`the json tag must not end with a comma; write json:"-,case:strict"`: errorOf(For[struct {
			A string `json:"-,"`
		}]()),
		`the json tag must not end with a comma; write json:"a"`: errorOf(For[struct {
			A string `json:"a,"`
		}]()),
	} {
		must.CheckContains(t, fmt.Sprint(err), want)
	}
	type dash struct {
		A string `json:"-,case:strict"`
	}
	s := must.Get(For[dash]())(t)
	must.CheckContains(t, string(s.JSON()), `"properties":{"-":{"type":"string"}}`)
	var v dash
	must.Do(t, s.Decode([]byte(`{"-":"x"}`), &v))
	must.CheckEqual(t, string(must.Get(Marshal(v))(t)), `{"-":"x"}`)
}

func errorOf(_ *Schema, err error) error { return err }
