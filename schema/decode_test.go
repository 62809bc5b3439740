package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-mcp/parley/internal/must"
)

type search struct {
	Query   string         `json:"query"`
	Limit   int            `json:"limit" default:"10"`
	Mode    string         `json:"mode" default:"fast" enum:"fast,deep"`
	Timeout time.Duration  `json:"timeout" default:"1m30s"`
	Ratio   *float64       `json:"ratio" default:"0.5"`
	Page    page           `json:"page,omitzero"`
	Sort    *order         `json:"sort"`
	Filters []filter       `json:"filters,omitempty"`
	ByName  map[string]any `json:"byName,omitempty"`
}

type page struct {
	Size   int  `json:"size" default:"20"`
	Number uint `json:"number,omitzero"`
}

type order struct {
	By   string `json:"by"`
	Desc bool   `json:"desc" default:"true"`
}

type filter struct {
	Op    string `json:"op" default:"eq"`
	Value any    `json:"value"`
}

func pointerTo[T any](v T) *T { return &v }

func TestDefaultsFillAbsentMembers(t *testing.T) {
	for _, test := range []struct {
		raw  string
		want search
	}{
		{`{"query":"x"}`, search{Query: "x", Limit: 10, Mode: "fast", Timeout: 90 * time.Second, Ratio: pointerTo(0.5),
			Page: page{Size: 20}}},
		{`{}`, search{Limit: 10, Mode: "fast", Timeout: 90 * time.Second, Ratio: pointerTo(0.5), Page: page{Size: 20}}},
		{` { "limit" : 0 , "mode":"deep","timeout":"0s","ratio":0,"page":{"number":2.0},"sort":{"by":"a"} } `,
			search{Mode: "deep", Ratio: pointerTo(0.0), Page: page{Size: 20, Number: 2},
				Sort: &order{By: "a", Desc: true}}},
		{`{"query":"x","limit":1e1,"mode":"deep","timeout":"1h","ratio":1,"page":{"size":1},"sort":{"by":"a",` +
			`"desc":false},"filters":[{},{"op":"ne","value":{"op":1}},{"value":"}"}]}`,
			search{Query: "x", Limit: 10, Mode: "deep", Timeout: time.Hour, Ratio: pointerTo(1.0), Page: page{Size: 1},
				Sort:    &order{By: "a"},
				Filters: []filter{{Op: "eq"}, {Op: "ne", Value: map[string]any{"op": 1.0}}, {Op: "eq", Value: "}"}}}},
		{`{"\u006cimit":5,"byName":{"limit":1}}`, search{Limit: 5, Mode: "fast", Timeout: 90 * time.Second,
			Ratio: pointerTo(0.5), Page: page{Size: 20},
			ByName: map[string]any{"limit": 1.0}}},
	} {
		var got search
		must.Check(t, Decode([]byte(test.raw), &got), test.raw)
		must.CheckEqual(t, cmp.Diff(test.want, got), "", test.raw)
	}
}

// Some models and clients write null for an argument that they leave out.
func TestNullForAnOptionalMemberIsAbsent(t *testing.T) {
	type arguments struct {
		Query string   `json:"query"`
		After *string  `json:"after,omitempty"`
		Limit int      `json:"limit" default:"10"`
		Tags  []string `json:"tags,omitempty"`
		Any   any      `json:"any,omitempty"`
		Inner struct {
			Size int `json:"size,omitzero"`
		} `json:"inner,omitzero"`
		Raw json.RawMessage `json:"raw,omitzero"`
	}
	s := must.Get(ForType(reflect.TypeFor[arguments]()))(t)
	for raw, want := range map[string]arguments{
		`{"query":"x","after":null,"limit":null,"tags":null}`: {Query: "x", Limit: 10},
		`{"limit":null,"query":"x"}`:                          {Query: "x", Limit: 10},
		`{"after":null,"query":"x","inner":{"size":null},"any":null,"raw":null}`: {Query: "x", Limit: 10,
			Raw: json.RawMessage("null")},
		`{"query":"x","inner":null,"any":{"after":null},"raw":{"after" : null}}`: {Query: "x", Limit: 10,
			Any: map[string]any{"after": nil}, Raw: json.RawMessage(`{"after" : null}`)},
	} {
		var got arguments
		must.Check(t, s.Decode([]byte(raw), &got), raw)
		must.CheckEqual(t, cmp.Diff(want, got), "", raw)
	}
	for raw, want := range map[string]string{
		`{"query":null,"after":null}`:              "/query: expected string, got null",
		`{"after":null}`:                           "query",
		`{"query":"x","tags":[null],"after":null}`: "/tags/0: expected string, got null",
		`{"query":"x","after":null,"other":null}`:  "other",
		`{"query":"x","after":null,"After":null}`:  "After",
		`{"query":"x","after":null,"after":null}`:  "twice",
		`null`: "expected object, got null",
	} {
		var got arguments
		must.CheckFails(t, s.Decode([]byte(raw), &got), want, raw)
	}
	// A slice and a map may be absent if the program's own schema says so.
	lists, err := Compile([]byte(`{"type":"object","properties":{"tags":{"type":"array"},"inner":{"type":"object",` +
		`"properties":{"sizes":{"type":"object"}}},` +
		`"count":{"type":"integer"}},"required":["count"]}`))
	must.Do(t, err)
	type slices struct {
		Tags  []string `json:"tags"`
		Count int      `json:"count"`
		Inner struct {
			Sizes map[string]int `json:"sizes"`
		} `json:"inner"`
	}
	must.Check(t, lists.Decode([]byte(`{"tags":null,"count":1,"inner":{"sizes":null}}`), new(slices)))
	must.CheckFails(t, lists.Decode([]byte(`{"tags":null,"count":null}`), new(slices)),
		"count: expected integer, got null", "null for a required integer")
	inferred := must.Get(For[slices]())(t)
	must.CheckFails(t, inferred.Decode([]byte(`{"tags":null,"count":1,"inner":{"sizes":{}}}`), new(slices)),
		"/tags: expected array", "null for a required list")
	// If the program's own schema requires the property, it is obeyed.
	own, err := Compile([]byte(`{"type":"object","required":["after"],"properties":{"after":{"type":"string"}}}`))
	must.Do(t, err)
	if err := own.Decode([]byte(`{"query":"x","after":null}`), new(arguments)); err == nil {
		t.Error("null counts as a required property")
	}
}

func TestDefaultsReachListsAndMaps(t *testing.T) {
	var got struct {
		List []page
		Map  map[string]*page
		Deep [1][]pair[page, tree]
	}
	must.Do(t, Decode([]byte(`{"List":[{},{"size":1}],"Map":{"a":{}},"Deep":[[{"first":{},"second":{"name":"n",`+
		`"kids":[{"name":"m"}]}}]]}`), &got))
	must.CheckThat(t, got.List[0].Size == 20 && got.List[1].Size == 1 && got.Map["a"].Size == 20 &&
		got.Deep[0][0].First.Size == 20 && got.Deep[0][0].Second.Kids[0].Name == "m", "%+v", got)
}

func TestIntegersAreExactInEverySpelling(t *testing.T) {
	type in struct {
		N int64   `json:"n"`
		U uint64  `json:"u"`
		L []int8  `json:"l"`
		F float64 `json:"f"`
		R json.RawMessage
	}
	for _, test := range []struct {
		raw  string
		want in
	}{
		{`{"n":9007199254740993,"u":18446744073709551615}`, in{N: 9007199254740993, U: math.MaxUint64}},
		{`{"n":-9223372036854775808,"u":0}`, in{N: math.MinInt64}},
		{`{"n":9007199254740993.0,"u":1.8446744073709551615e19}`, in{N: 9007199254740993, U: math.MaxUint64}},
		{`{"n":1e3,"u":100e-2,"l":[1.0,-2.50e1,0.0,-0],"f":1.50,"R":1.0}`,
			in{N: 1000, U: 1, L: []int8{1, -25, 0, 0}, F: 1.5, R: json.RawMessage(`1.0`)}},
		{`{"u":-0}`, in{}},
	} {
		var got in
		must.Check(t, Decode([]byte(test.raw), &got), test.raw)
		must.CheckEqual(t, cmp.Diff(test.want, got, cmpopts.EquateEmpty()), "", test.raw)
	}
}

func TestDecodeErrorsNameThePlace(t *testing.T) {
	type in struct {
		Name  string                   `json:"name"`
		Small map[string][]int8        `json:"small"`
		Big   int64                    `json:"big"`
		When  time.Time                `json:"when"`
		Long  time.Duration            `json:"long"`
		Addr  netip.Addr               `json:"addr"`
		Bytes []byte                   `json:"bytes"`
		Inner struct{ A, B *struct{} } `json:"inner"`
		On    bool                     `json:"on"`
	}
	for _, test := range []struct{ raw, want string }{
		{`{"name":5}`, `value/name: expected string, got number 5`},
		{`{"small":{"a/b":[1,2,300]}}`, `value/small/a~1b/2: expected integer from -128 to 127, got number 300`},
		{`{"big":9223372036854775808}`,
			`value/big: expected integer from -9223372036854775808 to 9223372036854775807, got number ` +
				`9223372036854775808`},
		{`{"big":1.5}`, `value/big: expected integer from -9223372036854775808 to 9223372036854775807, got number 1.5`},
		{`{"when":"yesterday"}`,
			`value/when: expected date and time such as "2006-01-02T15:04:05Z", got string "yesterday"`},
		{`{"long":"1 hour"}`, `value/long: expected duration such as "1h30m", got string "1 hour"`},
		{`{"long":3600}`, `value/long: expected duration such as "1h30m", got number 3600`},
		{`{"addr":"localhost"}`,
			`value/addr: expected valid Addr (ParseAddr("localhost"): unable to parse IP), got string "localhost"`},
		{`{"bytes":"%%"}`, `value/bytes: expected string in base 64, got string "%%"`},
		{`{"inner":{"A":[]}}`, `value/inner/A: expected object, got array of 0 items`},
		{`{"on":"true"}`, `value/on: expected boolean, got string "true"`},
		{`[]`, `value: expected object, got array of 0 items`},
		{`{"name":"a","name":"b"}`, `value/name: expected each property once, got the property "name" twice`},
		{`{"name":"a",}`, `value/name: expected valid JSON, got unexpected '}' at byte 12`},
		{``, `value: expected valid JSON, got end of input at byte 0`},
	} {
		var v in
		err := Decode([]byte(test.raw), &v)
		var invalid *ValidationError
		must.CheckThat(t, errors.As(err, &invalid) && err.Error() == test.want,
			"%s\n got %v\nwant %s", test.raw, err, test.want)
	}
}

func TestDecodeIsStrict(t *testing.T) {
	var v struct {
		Name string `json:"name"`
	}
	err := Decode([]byte(`{"NAME":"a","Name":"b"}`), &v)
	must.CheckThat(t, err == nil && v.Name == "", "another case: %q, %v", v.Name, err)
	for _, raw := range []string{`{"name":"a","name":"a"}`, "{\"name\":\"\xff\"}", `{"name":"\ud800"}`,
		`{"name":"a"} {}`} {
		err := Decode([]byte(raw), &v)
		must.CheckThat(t, err != nil, "%q is accepted", raw)
	}
	if err := Decode([]byte(`{}`), v); err == nil {
		t.Error("a value that is not a pointer is accepted")
	}
	if err := Decode([]byte(`{}`), nil); err == nil {
		t.Error("nil is accepted")
	}
	if err := Decode([]byte(`{}`), (*search)(nil)); err == nil {
		t.Error("a nil pointer is accepted")
	}
}

func TestDecodeKeepsNothingOfTheInput(t *testing.T) {
	var v struct {
		S string
		R json.RawMessage
		A any
	}
	raw := []byte(`{"S":"abc","R":{"a":1},"A":["x"]}`)
	must.Do(t, Decode(raw, &v))
	for i := range raw {
		raw[i] = '#'
	}
	must.CheckThat(t, v.S == "abc" && string(v.R) == `{"a":1}` && v.A.([]any)[0] == "x", "%+v", v)
}

// Stamp is exported because a struct that is embedded by pointer must be exported to
// be decoded.
type Stamp struct {
	ID int64 `json:"id"`
}

// Structured content relies on this.
func TestMarshalledValuesMatchTheirSchema(t *testing.T) {
	type everything struct {
		P     *int     `json:"p"`
		S     *string  `json:"s"`
		Z     *address `json:"z"`
		Slice []string `json:"slice"`
		Map   map[string]*int
		D     time.Duration `json:"d"`
		Bytes []byte        `json:"bytes"`
		Any   any           `json:"any"`
		Raw   json.RawMessage
		Q     *int64 `json:"q,string"`
		*Stamp
		In   pair[*int, *pair[*string, string]] `json:"in"`
		List []pair[*string, *string]           `json:"list"`
		Last *bool                              `json:"last"`
	}
	one, text := 1, `nu,ll":null}`
	for _, test := range []struct {
		value any
		want  string
	}{
		{everything{}, `{"slice":[],"Map":{},"d":"0s","bytes":"","any":null,"Raw":null,"in":{},"list":[]}`},
		{everything{P: &one, Any: map[string]any{"b": nil, "a": time.Second}, D: 1500 * time.Nanosecond,
			In: pair[*int, *pair[*string, string]]{Second: &pair[*string, string]{Second: "null"}}},
			`{"p":1,"slice":[],"Map":{},"d":"1.5µs","bytes":"","any":{"a":"1s","b":null},"Raw":null,` +
				`"in":{"second":{"second":"null"}},"list":[]}`},
		{everything{S: &text, Last: new(bool), Q: pointerTo(int64(math.MaxInt64)), Stamp: &Stamp{ID: 1},
			List: []pair[*string, *string]{{}, {First: &text}, {Second: &text}, {First: &text, Second: &text}}},
			`{"s":"nu,ll\":null}","slice":[],"Map":{},"d":"0s","bytes":"","any":null,"Raw":null,` +
				`"q":"9223372036854775807","id":1,"in":{},"list":[{},{"first":"nu,ll\":null}"},{"second":"nu,` +
				`ll\":null}"},{"first":"nu,ll\":null}","second":"nu,ll\":null}"}],"last":false}`},
		{&everything{Z: &address{}},
			`{"z":{"street":""},"slice":[],"Map":{},"d":"0s","bytes":"","any":null,"Raw":null,"in":{},"list":[]}`},
		{tree{Name: "a", Kids: []*tree{{Name: "b"}}}, `{"name":"a","kids":[{"name":"b"}]}`},
		{chainOf[int]{Value: 1}, `{"value":1}`},
		{pair[*int, *int]{}, `{}`},
		{loose{Known: "a", Rest: map[string]int{"c": 2, "b": 1}}, `{"known":"a","b":1,"c":2}`},
		{matrix{}, `[]`},
		{matrix(nil), `[]`},
	} {
		raw, err := Marshal(test.value)
		if err != nil {
			t.Errorf("%+v: %v", test.value, err)
			continue
		}
		must.CheckEqual(t, cmp.Diff(test.want, string(raw)), "", test.value)
		s, err := ForType(reflect.TypeOf(test.value))
		if err != nil {
			t.Errorf("%T: %v", test.value, err)
			continue
		}
		if err := s.Validate(raw); err != nil {
			t.Errorf("%s does not match %s: %v", raw, s.JSON(), err)
		}
		into := reflect.New(reflect.TypeOf(test.value))
		must.Check(t, Decode(raw, into.Interface()), raw)
		must.CheckEqual(t, string(must.Get(Marshal(into.Elem().Interface()))(t)), string(raw))
	}
	must.CheckEqual(t, string(must.Get(Marshal(nil))(t)), "null")
	_, err := Marshal(math.NaN())
	must.CheckThat(t, err != nil, "NaN has a JSON form")
}

// fuzzed contains a field of each kind for which the schema and the decoder agree.
type fuzzed struct {
	S string                    `json:"s"`
	N int32                     `json:"n,omitzero" minimum:"-2147483648"`
	U uint16                    `json:"u" default:"7"`
	F float64                   `json:"f,omitzero" minimum:"-1e9" maximum:"1e9"`
	B bool                      `json:"b,omitzero"`
	L []pair[*int8, string]     `json:"l,omitempty"`
	M map[string]map[string]any `json:"m,omitempty"`
	P struct {
		Size   int32  `json:"size" default:"20"`
		Number uint16 `json:"number,omitzero"`
	} `json:"p,omitzero"`
	R json.RawMessage `json:"r,omitempty"`
	T *tree           `json:"t"`
}

func FuzzMatchingValuesDecode(f *testing.F) {
	s := must.Get(For[fuzzed]())(f)
	for _, seed := range []string{
		`{"s":"a","n":1.0,"u":-0,"f":1e-400,"b":true,"l":[{"first":-0.0,"second":"x"}],"m":{"a":{"b":[null]}},` +
			`"p":{"number":1e2},"r":null,"t":{"name":"n","kids":[{"name":"k"}]}}`,
		`{"s":"","p":{}}`, `{"s":1}`, `{"s":"a","u":65536}`, `{"s":"\u0000","l":[]}`,
		`{"\u0073":"a","n":214748364.7e1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		invalid := s.Validate(raw)
		var v fuzzed
		err := Decode(raw, &v)
		if invalid != nil {
			return
		}
		must.Do(t, err, raw, "matches the schema, but")
		again, err := Marshal(v)
		must.Do(t, err, raw)
		must.Do(t, s.Validate(again), raw, "came back", again)
	})
}

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
