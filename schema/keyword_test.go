package schema

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/internal/must"
)

// keywordCases lists cases in which the oracle differs from the drafts and which the official test suite lacks: a
// schema with valid and invalid instances, and the drafts that they apply to.
var keywordCases = []struct {
	name           string
	since, until   draft
	schema         string
	valid, invalid []string
}{
	{"empty enum", draft6, draft2020, `{"enum":[]}`, nil, []string{`1`, `null`}},
	{"equal values in enum", draft6, draft2020, `{"enum":[1,1.0]}`, []string{`1`}, []string{`2`}},
	{"const of another normal form", draft6, draft2020, `{"const":"\u00e9"}`, []string{`"é"`}, []string{`"e\u0301"`}},
	{"format is an annotation", draft4, draft2020, `{"format":"ipv4"}`, []string{`"127.0.0.1"`, `"nonsense"`}, nil},
	{"content keywords are annotations", draft4, draft2020,
		`{"contentEncoding":"base64","contentMediaType":"application/json"}`, []string{`"%"`}, nil},
	{"resource of another draft", draft2020, draft2020,
		`{"$ref":"#/$defs/old","$defs":{"old":{"$id":"http://x/old",` +
			`"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],` +
			`"dependentRequired":{"a":["b"]}}}}`,
		[]string{`["a",1]`, `{"a":1}`}, []string{`[1]`}},
	{"$recursiveRef is unknown", draft2020, draft2020, `{"properties":{"a":{"$recursiveRef":"#"}},"required":["b"]}`,
		[]string{`{"b":1,"a":{}}`}, nil},
	{"unknown keywords", draft4, draft2020, `{"x-a":{"$ref":5,"type":"odd"},"Type":"string","minimum ":3}`,
		[]string{`1`, `"a"`}, nil},
}

func TestDraftsDecideWhereTheOracleDiffers(t *testing.T) {
	for _, test := range keywordCases {
		for d := test.since; d <= test.until; d++ {
			s := compile(t, strings.Replace(test.schema, `{`, `{"$schema":"`+draftURIs[d]+`",`, 1))
			for _, instance := range test.valid {
				if err := s.Validate([]byte(instance)); err != nil {
					t.Errorf("%s: %s\n%s: %v", test.name, s.JSON(), instance, err)
				}
			}
			for _, instance := range test.invalid {
				if s.Validate([]byte(instance)) == nil {
					t.Errorf("%s: %s\n%s is valid", test.name, s.JSON(), instance)
				}
			}
		}
	}
}

// The compiler applies the rules of the meta-schemas without compiling them.
func TestCompileRejectsWhatTheMetaSchemaRejects(t *testing.T) {
	values := []string{`null`, `true`, `0`, `1`, `-1`, `1.5`, `"a"`, `"string"`, `"1"`, `[]`, `["a"]`, `["a","a"]`,
		`["string","string"]`, `[1]`, `[{}]`, `[true]`,
		`{}`, `{"a":true}`, `{"a":{}}`, `{"a":1}`, `{"a":[]}`, `{"a":["b"]}`, `{"a":["b","b"]}`, `{"type":"odd"}`}
	keywords := []string{"title", "description", "default", "examples", "readOnly", "writeOnly", "deprecated",
		"$comment", "contentEncoding", "contentMediaType",
		"contentSchema", "$defs", "definitions", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary",
		"format", "type", "enum", "const",
		"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern",
		"maxItems", "minItems", "uniqueItems",
		"maxContains", "minContains", "maxProperties", "minProperties", "required", "dependentRequired",
		"dependentSchemas", "dependencies", "properties",
		"patternProperties", "additionalProperties", "propertyNames", "items", "prefixItems", "additionalItems",
		"unevaluatedItems", "unevaluatedProperties",
		"contains", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
	for d, uri := range draftURIs {
		meta := must.Get(oracle([]byte(`{"$ref":"` + uri + `"}`)))(t)
		for _, keyword := range keywords {
			for _, value := range values {
				if keyword == "enum" && d <= draft7 && value == "[]" ||
					keyword == "enum" && strings.Contains(value, `",`) ||
					keyword == "examples" && d == draft6 {
					continue // drafts 6 and 7 only advise against these; the oracle's draft 6 has no examples
				}
				schema := `{"$schema":"` + uri + `","` + keyword + `":` + value + `}`
				document := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(schema)))(t)
				_, err := Compile([]byte(schema))
				want := meta.Validate(document)
				must.CheckThat(t, (err == nil) == (want == nil), "%s: %v, the meta-schema says %v", schema, err, want)
			}
		}
	}
}

func TestUncheckedKeywordsAreListed(t *testing.T) {
	s := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{
		"a":{"pattern":"(?=a)"},
		"b":{"patternProperties":{"(?<!x)y":{"type":"string"}},"additionalProperties":false},
		"c":{"multipleOf":`+strings.Repeat("7", 1001)+`},
		"e":{"pattern":"^a"}}}`)
	var pointers []string
	for _, u := range s.Unchecked() {
		pointers = append(pointers, u.Pointer)
		must.CheckThat(t, u.Reason != "", "%s: there is no reason", u.Pointer)
	}
	want := []string{"/properties/a/pattern", "/properties/b/patternProperties/(?<!x)y", "/properties/c/multipleOf"}
	must.CheckEqual(t, cmp.Diff(want, pointers), "")
	must.Check(t, s.Validate([]byte(`{"a":"b","b":{"y":1,"z":2},"c":8}`)))
	must.CheckThat(t, s.Validate([]byte(`{"e":"x"}`)) != nil, "a keyword that can be checked is not")
	got := compile(t, fixture2020).Unchecked()
	must.CheckThat(t, got == nil, "all keywords can be checked, but Unchecked returns %v", got)
}

// If the verdict depends on a keyword that cannot be checked, the value is valid.
func TestUncheckedKeywordsNeverRejectAValue(t *testing.T) {
	const unknown = `{"pattern":"(?=a)"}`
	for _, schema := range []string{
		unknown, `{"not":` + unknown + `}`, `{"not":{"not":` + unknown + `}}`,
		`{"oneOf":[` + unknown + `,{"type":"string"}]}`, `{"oneOf":[` + unknown + `,` + unknown + `]}`,
		`{"if":` + unknown + `,"then":false}`, `{"if":` + unknown + `,"then":false,"else":{"type":"string"}}`,
		`{"if":` + unknown + `,"else":false}`,
		`{"anyOf":[{"type":"number"},` + unknown + `]}`,
		`{"allOf":[{"not":{"$ref":"#/$defs/a"}}],"$defs":{"a":` + unknown + `}}`,
		`{"not":{"anyOf":[{"type":"number"},` + unknown + `]}}`,
	} {
		must.Check(t, compile(t, schema).Validate([]byte(`"x"`)), schema)
	}
	const maybe = `{"propertyNames":` + unknown + `}`
	for schema, instance := range map[string]string{
		`{"contains":` + unknown + `,"maxContains":1}`:                                    `["x","y"]`,
		`{"not":{"contains":` + unknown + `}}`:                                            `["x"]`,
		`{"patternProperties":{"(?=a)":{"type":"string"}},"unevaluatedProperties":false}`: `{"x":1}`,
		`{"properties":{"a":` + unknown + `},"not":{"properties":{"a":` + unknown + `}}}`: `{"a":"x"}`,
		`{"unevaluatedProperties":{"not":` + unknown + `}}`:                               `{"a":"x"}`,
		`{"dependentSchemas":{"a":{"not":{"properties":{"a":{"not":` + unknown + `}}}}}}`: `{"a":"x"}`,
		`{"propertyNames":{"not":` + unknown + `}}`:                                       `{"a":"x"}`,
		// The properties that a branch evaluates may be evaluated.
		`{"if":` + maybe +
			`,"then":{"properties":{"a":true}},"unevaluatedProperties":false}`: `{"a":1}`,
		`{"if":` + maybe +
			`,"else":{"properties":{"a":true}},"unevaluatedProperties":false}`: `{"a":1}`,
		`{"if":` + maybe +
			`,"then":{},"else":{"properties":{"a":true}},"unevaluatedProperties":false}`: `{"a":1}`,
		`{"if":` + maybe +
			`,"then":{"properties":{"a":true}},"else":{"properties":{"a":false}},` +
			`"unevaluatedProperties":false}`: `{"a":1}`,
		`{"if":{"contains":` + unknown +
			`},"else":{"prefixItems":[true]},"unevaluatedItems":false}`: `["x"]`,
		`{"not":{"anyOf":[{"required":["a"],"properties":{"a":` + unknown +
			`}},true],"unevaluatedProperties":false}}`: `{"a":"x"}`,
		`{"prefixItems":[{"oneOf":[` + unknown + `,true]}],"items":{"not":` + unknown +
			`}}`: `["x","y"]`,
	} {
		must.Check(t, compile(t, schema).Validate([]byte(instance)), schema, instance)
	}
	// Other keywords still decide.
	for _, schema := range []string{
		`{"oneOf":[` + unknown + `,true,true]}`, `{"not":{"anyOf":[` + unknown + `,true]}}`,
		`{"if":` + unknown + `,"then":false,"else":false}`,
		`{"anyOf":[{"type":"number"},{"allOf":[` + unknown + `,false]}]}`,
	} {
		must.CheckThat(t, compile(t, schema).Validate([]byte(`"x"`)) != nil,
			"%s: a value is valid that other keywords reject", schema)
	}
}

func drawLiteral(t *rapid.T, label string) string {
	return rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][-+]?[0-9]{1,2})?`).Draw(t, label)
}

func TestNumbersCompareAsRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawLiteral(t, "a"), drawLiteral(t, "b")
		if rapid.Bool().Draw(t, "near") {
			b = a + "0"
		}
		x, okA := new(big.Rat).SetString(a)
		y, okB := new(big.Rat).SetString(b)
		if !okA || !okB {
			return
		}
		d, e := parseDecimal([]byte(a)), parseDecimal([]byte(b))
		must.Equal(t, sign(d.cmp(&e)), x.Cmp(y), a, b)
		must.Equal(t, sign(newBound([]byte(b)).cmp([]byte(a))), x.Cmp(y), a, b)
		must.Equal(t, d.isInteger(), x.IsInt(), a)
		same := string(appendCanonicalNumber(nil, []byte(a))) == string(appendCanonicalNumber(nil, []byte(b)))
		must.Equal(t, same, (x.Cmp(y) == 0), a, b)
		if text, ok := plainInteger([]byte(a)); ok {
			n, _ := new(big.Rat).SetString(string(text))
			must.That(t, n != nil && n.Cmp(x) == 0, "%s spelled out is %s", a, text)
		}
	})
}

func TestMultiplesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.StringMatching(`[1-9][0-9]{0,17}(\.[0-9]{1,3})?|0\.0{0,3}[1-9]{1,9}`).Draw(t, "unit")
		d := parseDecimal([]byte(unit))
		v, ok := newDivisor(&d)
		if !ok {
			return
		}
		u, _ := new(big.Rat).SetString(unit)
		a := drawLiteral(t, "a")
		if rapid.Bool().Draw(t, "product") {
			n := rapid.Int64().Draw(t, "factor")
			a = new(big.Rat).Mul(u, new(big.Rat).SetInt64(n)).FloatString(20)
		}
		x, _ := new(big.Rat).SetString(a)
		e := parseDecimal([]byte(a))
		must.Equal(t, v.divides(&e, unlimited), new(big.Rat).Quo(x, u).IsInt(), a, unit)
	})
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

func TestHugeExponentsCostNothing(t *testing.T) {
	s := compile(t, `{"type":"integer","minimum":3,"exclusiveMaximum":1e99999999999999998,"multipleOf":7}`)
	for _, n := range []struct {
		literal string
		valid   bool
	}{
		{"7e1000000000", true},
		{"1e1000000000", false},
		{"7e99999999999999997", true},
		{"7e99999999999999999", false},
		{"-7e1000000000", false},
		{"7e-1000000000", false},
		{"0e1000000000", false},
		{"0.00000000007e1000000000", true},
	} {
		allocs := testing.AllocsPerRun(1, func() { _ = s.Validate([]byte(n.literal)) })
		if err := s.Validate([]byte(n.literal)); (err == nil) != n.valid {
			t.Errorf("%s: %v, want valid: %v", n.literal, err, n.valid)
		} else if allocs > 50 {
			t.Errorf("%s: %v allocations", n.literal, allocs)
		}
	}
	unique := compile(t, `{"uniqueItems":true,"enum":[[1e1000000000,10e999999998]]}`)
	must.Check(t, unique.Validate([]byte(`[10e999999999,1e999999999]`)))
	must.CheckThat(t, unique.Validate([]byte(`[1e1000000000,10e999999999]`)) != nil, "equal numbers pass uniqueItems")
}

func ExampleSchema_Validate_numbers() {
	s, _ := Compile([]byte(`{"type": "integer", "maximum": 9007199254740993}`))
	fmt.Println(s.Validate([]byte(`9007199254740993.0`)))
	fmt.Println(s.Validate([]byte(`9007199254740994`)))
	// Output:
	// <nil>
	// value: expected at most 9007199254740993, got number 9007199254740994
}

func TestHeadersAreInDocumentOrder(t *testing.T) {
	got, err := Headers([]byte(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"query":{"type":"string"},
		"options":{"type":"object","properties":{
			"dry/run":{"x-mcp-header":"Dry-Run","type":"boolean"},
			"limit":{"type":"integer","x-mcp-header":"!#$%&'*+-.^_` + "`" + `|~9"}}},
		"x-mcp-header":{"type":"string","default":{"x-mcp-header":"data"},"enum":[{"x-mcp-header":""}],"examples":[{"x-mcp-header":1}]}}}`))
	must.Do(t, err)
	want := []HeaderParam{
		{Name: "Region", Path: []string{"region"}, Type: "string"},
		{Name: "Dry-Run", Path: []string{"options", "dry/run"}, Type: "boolean"},
		{Name: "!#$%&'*+-.^_`|~9", Path: []string{"options", "limit"}, Type: "integer"},
	}
	must.CheckEqual(t, cmp.Diff(want, got), "")
	for _, none := range []string{`{}`, `true`, `{"properties":{"a":{"type":"string"}}}`} {
		got := must.Get(Headers([]byte(none)))(t)
		must.CheckThat(t, got == nil, "%s: %v", none, got)
	}
}

func TestHeaderConstraintsAreEnforced(t *testing.T) {
	property := func(schema string) string { return `{"properties":{"p":` + schema + `}}` }
	for _, test := range []struct{ schema, pointer, reason string }{
		{property(`{"type":"string","x-mcp-header":""}`), "/properties/p", "empty"},
		{property(`{"type":"string","x-mcp-header":5}`), "/properties/p", "must be a string"},
		{property(`{"type":"string","x-mcp-header":"a b"}`), "/properties/p", "must be a header name"},
		{property(`{"type":"string","x-mcp-header":"a:"}`), "/properties/p", "must be a header name"},
		{property(`{"type":"string","x-mcp-header":"é"}`), "/properties/p", "must be a header name"},
		{property(`{"type":"string","x-mcp-header":"a\r\nb"}`), "/properties/p", "must be a header name"},
		{property(`{"type":"string","x-mcp-header":"a\u0000"}`), "/properties/p", "must be a header name"},
		{property(`{"type":"number","x-mcp-header":"A"}`), "/properties/p", "type"},
		{property(`{"type":"object","x-mcp-header":"A"}`), "/properties/p", "type"},
		{property(`{"type":"number","x\u002dmcp-header":"A"}`), "/properties/p", "type"},
		{property(`{"type":"array","x-mcp-header":"A"}`), "/properties/p", "type"},
		{property(`{"type":"null","x-mcp-header":"A"}`), "/properties/p", "type"},
		{property(`{"type":["string","integer"],"x-mcp-header":"A"}`), "/properties/p", "type"},
		{property(`{"x-mcp-header":"A"}`), "/properties/p", "type"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"A"}}}`,
			"/properties/b", "must be unique"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"AB"},"b":{"type":"string","x-mcp-header":"aB"}}}`,
			"/properties/b", "must be unique"},
		{`{"type":"string","x-mcp-header":"A"}`, "", "root"},
		{property(`{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`), "/properties/p/items",
			"must be reachable"},
		{property(`{"prefixItems":[true,{"type":"string","x-mcp-header":"A"}]}`), "/properties/p/prefixItems/1",
			"must be reachable"},
		{property(`{"oneOf":[{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}]}`),
			"/properties/p/oneOf/0/properties/q", "must be reachable"},
		{`{"allOf":[{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}]}`, "/allOf/0/properties/q",
			"must be reachable"},
		{`{"not":{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}}`, "/not/properties/q", "must be reachable"},
		{`{"if":{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}}`, "/if/properties/q", "must be reachable"},
		{`{"then":{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}}`, "/then/properties/q",
			"must be reachable"},
		{`{"additionalProperties":{"type":"string","x-mcp-header":"A"}}`, "/additionalProperties", "must be reachable"},
		{`{"patternProperties":{"^a":{"type":"string","x-mcp-header":"A"}}}`, "/patternProperties/^a",
			"must be reachable"},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}}}`,
			"/$defs/a/properties/q", "must be reachable"},
		{`{"x-custom":{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}}`, "/x-custom/properties/q",
			"must be reachable"},
	} {
		got, err := Headers([]byte(test.schema))
		var bad *HeaderError
		if !errors.As(err, &bad) || bad.Pointer != test.pointer || !strings.Contains(bad.Reason, test.reason) {
			t.Errorf("%s: %v, %v, want %q at %q", test.schema, got, err, test.reason, test.pointer)
		}
	}
	for _, schema := range []string{
		`{"properties":{` + repeated(101, `"a%d":{"type":"string","x-mcp-header":"A%[1]d"}`) + `}}`,
		property(`{"properties":{"` + strings.Repeat("x", 9<<10) + `":{"type":"string","x-mcp-header":"A"}}}`),
	} {
		var bad *HeaderError
		_, err := Headers([]byte(schema))
		must.CheckThat(t, errors.As(err, &bad) && len(err.Error()) <= 2048, "%v, want a short *HeaderError", err)
	}
	var invalid *ValidationError
	_, err := Headers([]byte(`{"properties":{},"properties":{}}`))
	must.CheckThat(t, errors.As(err, &invalid), "%v, want a *ValidationError", err)
}

// FuzzXMCPHeaderSchema checks that each annotation of an accepted schema is the one at its path in the document, and
// satisfies the constraints: a token that is unique without regard to case, on a string, an integer or a boolean.
func FuzzXMCPHeaderSchema(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"integer",` +
		`"x-mcp-header":"B"}}}}}`))
	f.Add([]byte(`{"items":{"type":"string","x-mcp-header":"A"}}`))
	f.Add([]byte(`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`))
	f.Add([]byte(`{"properties":{"a":{"type":"boolean","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`))
	f.Add([]byte(`{"properties":{"a":{"type":"boolean","x-mcp-header":"a"},"b":{"type":"string","x-mcp-header":"A"}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		params, err := Headers(raw)
		if err != nil {
			return
		}
		d := &document{}
		must.Do(t, d.scan(raw))
		must.That(t, len(params) <= maxHeaders, "%d annotations are accepted", len(params))
		taken := map[string]bool{}
		for _, p := range params {
			must.That(t, p.Type == "string" || p.Type == "integer" || p.Type == "boolean", "%s: %+v", raw, p)
			pointer := []byte{}
			for _, name := range p.Path {
				pointer = appendPointer(append(pointer, "/properties"...), name)
			}
			at, ok := d.at(string(pointer))
			must.That(t, ok, "%s: nothing at %s", raw, pointer)
			name, _ := d.member(at, "x-mcp-header")
			typ, _ := d.member(at, "type")
			must.That(t, d.Text(name) == p.Name && d.Text(typ) == p.Type && isToken(p.Name) &&
				!taken[strings.ToLower(p.Name)], "%s: %+v", raw, p)
			taken[strings.ToLower(p.Name)] = true
		}
	})
}

func ExampleHeaders() {
	params, err := Headers([]byte(`{"type": "object", "properties": {
		"region": {"type": "string", "x-mcp-header": "Region"},
		"query": {"type": "string"}}}`))
	for _, p := range params {
		fmt.Println(p.Name, p.Path, p.Type)
	}
	fmt.Println(err)
	// Output:
	// Region [region] string
	// <nil>
}
