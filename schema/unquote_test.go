package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func TestStringsOfJSONAreReadWhereNoStringIsAllowed(t *testing.T) {
	const tags = `{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string"}},"n":{"type":"integer"}},` +
		`"additionalProperties":false}`
	for _, test := range []struct{ schema, instance, want string }{
		{tags, `{"tags":"[\"a\",\"b\"]"}`, `{"tags":["a","b"]}`},
		{tags, `{"tags":" [\"a\"]\n","n":1}`, `{"tags":["a"],"n":1}`},
		{tags, `{"n":"1","tags":"[]"}`, `{"n":"1","tags":[]}`},
		{tags, `{"tags":["[1]"]}`, `{"tags":["[1]"]}`},
		{tags, `{"tags":"a,b"}`, `{"tags":"a,b"}`},
		{tags, `{"tags":"[1,"}`, `{"tags":"[1,"}`},
		{tags, `{"tags":"[{\"a\":1,\"a\":2}]"}`, `{"tags":"[{\"a\":1,\"a\":2}]"}`},
		{tags, `{"tags":"5"}`, `{"tags":"5"}`},
		{tags, `"{\"tags\":\"[]\"}"`, `{"tags":[]}`},
		{`{"properties":{"o":{"type":["object","null"]}}}`, `{"o":"{}"}`, `{"o":{}}`},
		{`{"properties":{"o":{"type":["object","string"]}}}`, `{"o":"{}"}`, `{"o":"{}"}`},
		{`{"properties":{"o":{}}}`, `{"o":"{}"}`, `{"o":"{}"}`},
		{`{"properties":{"o":{"anyOf":[{"type":"array"},{"type":"null"}]}}}`, `{"o":"[1]"}`, `{"o":[1]}`},
		{`{"properties":{"o":{"anyOf":[{"type":"array"},{"type":"string"}]}}}`, `{"o":"[1]"}`, `{"o":"[1]"}`},
		{`{"properties":{"o":{"anyOf":[{"type":"array"},{}]}}}`, `{"o":"[1]"}`, `{"o":"[1]"}`},
		{`{"properties":{"o":{"$ref":"#/$defs/o"}},"$defs":{"o":{"type":"object"}}}`, `{"o":"{}"}`, `{"o":{}}`},
		{`{"properties":{"o":{"allOf":[{"type":"array"},{"type":"array"}]}}}`, `{"o":"[]"}`, `{"o":[]}`},
		{`{"properties":{"o":{"not":{"type":"array"}}}}`, `{"o":"[]"}`, `{"o":"[]"}`},
		{`{"properties":{"o":{"if":{"type":"array"},"then":false}}}`, `{"o":"[]"}`, `{"o":"[]"}`},
		{`{"items":{"oneOf":[{"type":"null"},{"type":"object","properties":{"l":{"type":"array"}},"required":["l"]}]}}`,
			`[{"l":"[1]"},"{\"l\":\"[2]\"}"]`, `[{"l":[1]},{"l":[2]}]`},
		{`{"items":{"type":"object"}}`, `[` + strings.Repeat(`"{\"a\":1}",`, 19) + `{}]`,
			`[` + strings.Repeat(`{"a":1},`, 19) + `{}]`},
	} {
		s := compile(t, test.schema)
		must.CheckEqual(t, string(s.Unquote([]byte(test.instance))), test.want, test.schema, test.instance)
	}
}

func TestUnquotingIsBounded(t *testing.T) {
	s := compile(t, `{"$defs":{"l":{"type":"array","items":{"$ref":"#/$defs/l"}}},"$ref":"#/$defs/l"}`)
	nested := "[]"
	for range 10 {
		nested = "[" + string(appendQuoted(nil, nested)) + "]"
	}
	got := string(s.Unquote([]byte(nested)))
	must.CheckThat(t, strings.HasPrefix(got, "[[[[[\""), "got %.100s", got)
	_ = s.Unquote([]byte(`[` + strings.Repeat(`"[]",`, 100_000) + `[]]`))
}

func TestDecodeReadsStringsOfJSONAndNulls(t *testing.T) {
	type in struct {
		Tags []string       `json:"tags" minItems:"1"`
		Map  map[string]int `json:"map,omitzero"`
		Note *string        `json:"note"`
	}
	s := must.Get(For[in]())(t)
	var v in
	must.Do(t, s.Decode([]byte(`{"tags":"[\"a\"]","map":"{\"x\":1}","note":null}`), &v))
	must.CheckEqual(t, fmt.Sprint(v.Tags, v.Map, v.Note == nil), "[a] map[x:1] true")
	for instance, want := range map[string]string{
		`{"tags":"a"}`:   `value/tags: expected array, got string "a"`,
		`{"tags":"[1]"}`: `value/tags: expected array, got string "[1]"`,
	} {
		must.CheckEqual(t, fmt.Sprint(s.Decode([]byte(instance), &v)), want)
	}
}

func TestLargeIntegersInAnInterfaceAreExactOrAnError(t *testing.T) {
	type named any
	type in struct {
		Any   any            `json:"any,omitzero"`
		Map   map[string]any `json:"map,omitzero"`
		List  []any          `json:"list,omitzero"`
		Named named          `json:"named,omitzero"`
	}
	s := must.Get(For[in]())(t)
	for literal, want := range map[string]any{
		"1": 1.0, "0.1": 0.1, "-9007199254740992": -9007199254740992.0, "9007199254740992": 9007199254740992.0,
		"9007199254740993": int64(9007199254740993), "-9007199254740993": int64(-9007199254740993),
		"9007199254740994": int64(9007199254740994), "18446744073709551615": uint64(1<<64 - 1),
		"100000000000000000000": 1e20, "1e300": 1e300, "6.02214076e23": 6.02214076e23,
		"0.12345678901234567890": 0.12345678901234567890,
	} {
		for _, decode := range []func([]byte, any) error{Decode, s.Decode} {
			var v in
			must.Do(t, decode([]byte(`{"any":`+literal+`,"map":{"a":[`+literal+`]},"list":[{"b":`+literal+
				`}],"named":`+literal+`}`), &v))
			for _, got := range []any{v.Any, v.Map["a"].([]any)[0], v.List[0].(map[string]any)["b"], v.Named} {
				must.CheckEqual(t, got, want, literal)
			}
			if want, ok := want.(int64); ok {
				must.CheckContains(t, string(must.Get(Marshal(v))(t)), fmt.Sprintf(`"map":{"a":[%d]}`, want))
			}
		}
	}
	for _, literal := range []string{"18446744073709551617", "-9223372036854775809", "1" + strings.Repeat("2", 5000)} {
		var v in
		err := s.Decode([]byte(`{"map":{"a":[`+literal+`]}}`), &v)
		must.CheckContains(t, fmt.Sprint(err), "value/map/a/0: expected integer of at most 64 bits, got number "+literal[:16])
	}
}
