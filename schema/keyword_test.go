package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// keywordCases lists for each keyword, or behaviour that several share, a schema
// with valid and invalid instances, and the drafts to which they apply.
var keywordCases = []struct {
	name           string
	since, until   draft
	schema         string
	valid, invalid []string
}{
	// Values.
	{"type", draft4, draft2020, `{"type":["integer","null"]}`, []string{`1`, `1.0`, `null`},
		[]string{`1.5`, `"1"`, `[]`}},
	{"enum", draft4, draft2020, `{"enum":[1,"a",{"b":[]}]}`, []string{`1.0`, `"a"`, `{"b":[]}`},
		[]string{`2`, `{"b":{}}`}},
	{"empty enum", draft6, draft2020, `{"enum":[]}`, nil, []string{`1`, `null`}},
	{"equal values in enum", draft6, draft2020, `{"enum":[1,1.0]}`, []string{`1`}, []string{`2`}},
	{"const", draft6, draft2020, `{"const":{"a":1}}`, []string{`{"a":1.0}`}, []string{`{"a":2}`, `{}`}},
	{"const of another normal form", draft6, draft2020, `{"const":"\u00e9"}`, []string{`"é"`}, []string{`"e\u0301"`}},
	{"const is unknown", draft4, draft4, `{"const":1}`, []string{`2`}, nil},

	// Numbers.
	{"exclusiveMinimum as a boolean", draft4, draft4, `{"minimum":1,"exclusiveMinimum":true}`, []string{`2`},
		[]string{`1`, `0`}},
	{"exclusiveMinimum false", draft4, draft4, `{"minimum":1,"exclusiveMinimum":false}`, []string{`1`}, []string{`0`}},
	{"exclusiveMaximum as a boolean", draft4, draft4, `{"exclusiveMaximum":true,"maximum":1}`, []string{`0`},
		[]string{`1`, `2`}},
	{"exclusiveMinimum", draft6, draft2020, `{"exclusiveMinimum":1}`, []string{`1.1`}, []string{`1`}},
	{"exclusiveMaximum and maximum", draft6, draft2020, `{"exclusiveMaximum":3,"maximum":2}`, []string{`2`},
		[]string{`3`, `2.5`}},
	{"multipleOf a small number", draft4, draft2020, `{"multipleOf":1e-8}`, []string{`12391239123`, `1e-8`},
		[]string{`1e-9`}},
	{"multipleOf a large number", draft4, draft2020, `{"multipleOf":36893488147419103232}`,
		[]string{`0`, `73786976294838206464`, `-3.6893488147419103232e21`}, []string{`36893488147419103233`, `1`}},

	// Strings.
	{"minLength as a number with fraction", draft4, draft2020, `{"minLength":2.0}`, []string{`"é€"`}, []string{`"€"`}},
	{"pattern", draft4, draft2020, `{"pattern":"^\\p{Letter}+$"}`, []string{`"né"`, `1`}, []string{`"n1"`, `""`}},
	{"format is an assertion", draft4, draft7, `{"format":"ipv4"}`, []string{`"127.0.0.1"`, `1`},
		[]string{`"127.0.0.01"`, `"::1"`}},
	{"format is an annotation", draft2019, draft2020, `{"format":"ipv4"}`, []string{`"127.0.0.1"`, `"nonsense"`}, nil},
	{"unknown format", draft4, draft2020, `{"format":"odd"}`, []string{`"nonsense"`}, nil},
	{"content keywords are annotations", draft4, draft2020,
		`{"contentEncoding":"base64","contentMediaType":"application/json"}`, []string{`"%"`}, nil},

	// Objects.
	{"required", draft4, draft2020, `{"required":["a"]}`, []string{`{"a":null}`, `1`}, []string{`{}`, `{"A":1}`}},
	{"additionalProperties", draft4, draft2020,
		`{"properties":{"a":{}},"patternProperties":{"^x":{}},"additionalProperties":false}`,
		[]string{`{"a":1,"xy":2}`}, []string{`{"b":1}`}},
	{"additionalProperties ignores applicators", draft4, draft2020,
		`{"allOf":[{"properties":{"a":{}}}],"additionalProperties":{"type":"string"}}`, []string{`{"a":"x"}`},
		[]string{`{"a":1}`}},
	{"patternProperties", draft4, draft2020, `{"patternProperties":{"a":{"type":"string"},"b$":{"minLength":2}}}`,
		[]string{`{"ab":"xx","c":1}`}, []string{`{"ab":"x"}`, `{"a":1}`}},
	{"propertyNames", draft6, draft2020, `{"propertyNames":{"enum":["a","b"]}}`, []string{`{"a":1}`},
		[]string{`{"c":1}`}},
	{"minProperties", draft4, draft2020, `{"minProperties":1.0,"maxProperties":2}`, []string{`{"a":1}`},
		[]string{`{}`, `{"a":1,"b":2,"c":3}`}},
	{"dependencies", draft4, draft2020, `{"dependencies":{"a":["b"],"c":{"minProperties":3}}}`,
		[]string{`{"a":1,"b":1}`, `{"b":1}`}, []string{`{"a":1}`, `{"c":1}`}},
	{"dependentRequired", draft2019, draft2020, `{"dependentRequired":{"a":["b"]}}`, []string{`{"a":1,"b":1}`, `{}`},
		[]string{`{"a":1}`}},
	{"dependentSchemas", draft2019, draft2020, `{"dependentSchemas":{"a":{"required":["b"]}}}`,
		[]string{`{"a":1,"b":1}`, `{}`}, []string{`{"a":1}`}},

	// Arrays.
	{"items as a schema", draft4, draft2020, `{"items":{"type":"string"}}`, []string{`["a"]`, `[]`},
		[]string{`["a",1]`}},
	{"items as a list", draft4, draft2019, `{"items":[{"type":"string"}],"additionalItems":{"type":"integer"}}`,
		[]string{`["a",1]`, `[]`}, []string{`[1]`, `["a","b"]`}},
	{"additionalItems without a list", draft4, draft2019, `{"items":{"type":"string"},"additionalItems":false}`,
		[]string{`["a","b"]`}, []string{`[1]`}},
	{"additionalItems is unknown", draft2020, draft2020, `{"prefixItems":[true],"additionalItems":false}`,
		[]string{`[1,2]`}, nil},
	{"prefixItems", draft2020, draft2020, `{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`,
		[]string{`["a",1]`}, []string{`[1]`, `["a","b"]`}},
	{"contains", draft6, draft2020, `{"contains":{"minimum":5}}`, []string{`[1,5]`}, []string{`[]`, `[1]`}},
	{"minContains and maxContains", draft2019, draft2020, `{"contains":{"const":1},"minContains":2,"maxContains":3}`,
		[]string{`[1,1]`, `[1,2,1,1]`}, []string{`[1]`, `[1,1,1,1]`}},
	{"minContains zero", draft2019, draft2020, `{"contains":{"const":1},"minContains":0}`, []string{`[]`, `[2]`}, nil},
	{"maxContains zero", draft2019, draft2020, `{"contains":{"const":1},"minContains":0,"maxContains":0}`,
		[]string{`[2]`}, []string{`[1]`}},
	{"minContains without contains", draft2019, draft2020, `{"minContains":2,"maxContains":0}`, []string{`[]`, `[1]`},
		nil},
	{"uniqueItems", draft4, draft2020, `{"uniqueItems":true}`, []string{`[1,true,"1",[1],{"a":1}]`},
		[]string{`[1,1.0]`, `[{"a":1,"b":2},{"b":2,"a":1}]`}},

	// Logic.
	{"allOf, anyOf, oneOf, not", draft4, draft2020,
		`{"allOf":[{"minimum":1}],"anyOf":[{"maximum":5},{"multipleOf":7}],"oneOf":[{"multipleOf":2},` +
			`{"multipleOf":3}],"not":{"enum":[4]}}`,
		[]string{`2`, `3`, `14`}, []string{`0`, `4`, `6`, `8`, `5`}},
	{"if, then, else", draft7, draft2020, `{"if":{"minimum":0},"then":{"multipleOf":2},"else":false}`, []string{`2`},
		[]string{`1`, `-2`}},
	{"then false", draft7, draft2020, `{"if":{"const":1},"then":false}`, []string{`2`}, []string{`1`}},
	{"then without if", draft7, draft2020, `{"then":false,"else":false}`, []string{`1`}, nil},
	{"if is unknown", draft4, draft6, `{"if":{},"then":{"enum":[1]}}`, []string{`2`}, nil},

	// Identifiers and references.
	{"$ref makes its siblings meaningless", draft4, draft7,
		`{"$ref":"#/definitions/a","enum":[1],"definitions":{"a":{"type":"integer"}}}`, []string{`2`}, []string{`"a"`}},
	{"$ref and its siblings apply", draft2019, draft2020,
		`{"$ref":"#/$defs/a","enum":[1],"$defs":{"a":{"type":"integer"}}}`, []string{`1`}, []string{`2`, `"a"`}},
	{"pointer with escapes", draft4, draft2020,
		`{"definitions":{"a/b~c%d e":{"type":"string"}},"properties":{"x":{"$ref":"#/definitions/a~1b~0c%25d%20e"}}}`,
		[]string{`{"x":"a"}`}, []string{`{"x":1}`}},
	{"pointer into an unknown keyword", draft4, draft2020,
		`{"components":[{"type":"string"}],"properties":{"x":{"$ref":"#/components/0"}}}`, []string{`{"x":"a"}`},
		[]string{`{"x":1}`}},
	{"id as a base", draft4, draft4,
		`{"id":"http://x/root","properties":{"a":{"$ref":"other"}},"definitions":{"o":{"id":"other","type":"string"}}}`,
		[]string{`{"a":"x"}`}, []string{`{"a":1}`}},
	{"$id as a base", draft6, draft2020,
		`{"$id":"http://x/root","properties":{"a":{"$ref":"other"}},"definitions":{"o":{"$id":"other",` +
			`"type":"string"}}}`, []string{`{"a":"x"}`}, []string{`{"a":1}`}},
	{"$id as an anchor", draft6, draft7,
		`{"properties":{"a":{"$ref":"#here"}},"definitions":{"o":{"$id":"#here","type":"string"}}}`,
		[]string{`{"a":"x"}`}, []string{`{"a":1}`}},
	{"$anchor", draft2019, draft2020,
		`{"properties":{"a":{"$ref":"#here"}},"$defs":{"o":{"$anchor":"here","type":"string"}}}`, []string{`{"a":"x"}`},
		[]string{`{"a":1}`}},
	{"$id in an enum is data", draft6, draft2020, `{"enum":[{"$id":"x"},{"$id":"x","a":1}]}`, []string{`{"$id":"x"}`},
		[]string{`1`}},
	{"$ref as a property", draft4, draft2020, `{"properties":{"$ref":{"type":"string"}}}`, []string{`{"$ref":"a"}`},
		[]string{`{"$ref":1}`}},
	{"resource of another draft", draft2020, draft2020,
		`{"$ref":"#/$defs/old","$defs":{"old":{"$id":"http://x/old",` +
			`"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],` +
			`"dependentRequired":{"a":["b"]}}}}`,
		[]string{`["a",1]`, `{"a":1}`}, []string{`[1]`}},
	{"$dynamicRef uses the outermost anchor", draft2020, draft2020,
		`{"$id":"http://x/strict","$dynamicAnchor":"node","$ref":"tree","unevaluatedProperties":false,
		"$defs":{"tree":{"$id":"tree","$dynamicAnchor":"node","type":"object","properties":{"data":true,"children":{"items":{"$dynamicRef":"#node"}}}}}}`,
		[]string{`{"children":[{"data":1}]}`}, []string{`{"children":[{"daat":1}]}`, `{"x":1}`}},
	{"$dynamicRef without a dynamic anchor is a $ref", draft2020, draft2020,
		`{"$id":"http://x/r","$dynamicAnchor":"a","properties":{"x":{"$dynamicRef":"in#a"}},` +
			`"$defs":{"in":{"$id":"in","$anchor":"a","type":"string"}}}`,
		[]string{`{"x":"a"}`}, []string{`{"x":{}}`}},
	{"$recursiveRef uses the outermost anchor", draft2019, draft2019,
		`{"$id":"http://x/strict","$recursiveAnchor":true,"$ref":"tree","unevaluatedProperties":false,
		"$defs":{"tree":{"$id":"tree","$recursiveAnchor":true,"type":"object","properties":{"data":true,"children":{"items":{"$recursiveRef":"#"}}}}}}`,
		[]string{`{"children":[{"data":1}]}`}, []string{`{"children":[{"daat":1}]}`}},
	{"$recursiveRef is unknown", draft2020, draft2020, `{"properties":{"a":{"$recursiveRef":"#"}},"required":["b"]}`,
		[]string{`{"b":1,"a":{}}`}, nil},

	// Evaluated members and items.
	{"unevaluatedProperties sees applicators", draft2019, draft2020,
		`{"allOf":[{"properties":{"a":true}}],"if":{"required":["b"],"properties":{"b":true}},` +
			`"unevaluatedProperties":false}`,
		[]string{`{"a":1}`, `{"a":1,"b":1}`}, []string{`{"c":1}`}},
	{"unevaluatedProperties does not see failed branches", draft2019, draft2020,
		`{"anyOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":true}}],"unevaluatedProperties":false}`,
		[]string{`{"b":1}`, `{"a":"x","b":1}`}, []string{`{"a":1}`}},
	{"unevaluatedProperties does not see not", draft2019, draft2020,
		`{"not":{"not":{"properties":{"a":true}}},"unevaluatedProperties":false}`, []string{`{}`}, []string{`{"a":1}`}},
	{"unevaluatedProperties does not see cousins", draft2019, draft2020,
		`{"allOf":[{"properties":{"a":true}},{"unevaluatedProperties":false}]}`, []string{`{}`}, []string{`{"a":1}`}},
	{"unevaluatedProperties sees inner unevaluatedProperties", draft2019, draft2020,
		`{"allOf":[{"unevaluatedProperties":true}],"unevaluatedProperties":false}`, []string{`{"a":1}`}, nil},
	{"unevaluatedProperties sees dependentSchemas", draft2019, draft2020,
		`{"dependentSchemas":{"a":{"properties":{"a":true,"b":true}}},"unevaluatedProperties":false}`,
		[]string{`{"a":1,"b":1}`}, []string{`{"b":1}`}},
	{"evaluated members belong to one value", draft2019, draft2020,
		`{"properties":{"a":{"properties":{"b":true}}},"unevaluatedProperties":false}`, []string{`{"a":{"b":1}}`},
		[]string{`{"a":{},"b":1}`}},
	{"unevaluatedProperties as a schema", draft2019, draft2020,
		`{"patternProperties":{"^x":true},"unevaluatedProperties":{"type":"string"}}`, []string{`{"x":1,"a":"b"}`},
		[]string{`{"a":1}`}},
	{"unevaluatedItems sees items lists", draft2019, draft2019, `{"allOf":[{"items":[true]}],"unevaluatedItems":false}`,
		[]string{`[1]`}, []string{`[1,2]`}},
	{"unevaluatedItems sees additionalItems", draft2019, draft2019,
		`{"items":[true],"additionalItems":true,"unevaluatedItems":false}`, []string{`[1,2]`}, nil},
	{"unevaluatedItems ignores contains", draft2019, draft2019, `{"contains":{"const":1},"unevaluatedItems":false}`,
		nil, []string{`[1]`}},
	{"unevaluatedItems sees prefixItems", draft2020, draft2020,
		`{"allOf":[{"prefixItems":[true]}],"unevaluatedItems":false}`, []string{`[1]`}, []string{`[1,2]`}},
	{"unevaluatedItems sees contains", draft2020, draft2020,
		`{"contains":{"const":1},"minContains":0,"unevaluatedItems":{"type":"string"}}`, []string{`["a",1,"b"]`, `[]`},
		[]string{`[2]`}},
	{"evaluated items belong to one value", draft2020, draft2020,
		`{"prefixItems":[{"prefixItems":[true,true]}],"unevaluatedItems":false}`, []string{`[[1,2]]`},
		[]string{`[[1],2]`}},
	{"unevaluatedProperties is unknown", draft4, draft7, `{"unevaluatedProperties":false}`, []string{`{"a":1}`}, nil},

	// Meta-schemas and unknown keywords.
	{"definitions", draft4, draft2020,
		`{"definitions":{"a":{"enum":[1]}},"properties":{"x":{"$ref":"#/definitions/a"}}}`, []string{`{"x":1}`},
		[]string{`{"x":2}`}},
	{"unknown keywords", draft4, draft2020, `{"x-a":{"$ref":5,"type":"odd"},"Type":"string","minimum ":3}`,
		[]string{`1`, `"a"`}, nil},
	{"reference to the meta-schema", draft4, draft4, `{"$ref":"http://json-schema.org/draft-04/schema#"}`,
		[]string{`{"minimum":1,"exclusiveMinimum":true}`},
		[]string{`{"exclusiveMinimum":true}`, `{"required":[]}`, `true`}},
	{"reference to the meta-schema", draft6, draft6, `{"$ref":"http://json-schema.org/draft-06/schema#"}`,
		[]string{`{"exclusiveMinimum":1}`, `true`}, []string{`{"exclusiveMinimum":true}`, `{"properties":{"a":1}}`}},
	{"reference to the meta-schema", draft7, draft7, `{"$ref":"http://json-schema.org/draft-07/schema#"}`,
		[]string{`{"if":{"type":"string"}}`}, []string{`{"if":{"type":"odd"}}`}},
	{"reference to the meta-schema", draft2019, draft2019, `{"$ref":"https://json-schema.org/draft/2019-09/schema"}`,
		[]string{`{"items":[{"type":"string"}]}`}, []string{`{"items":[{"type":"odd"}]}`, `{"$anchor":"1"}`}},
	{"reference to the meta-schema", draft2020, draft2020, `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`,
		[]string{`{"prefixItems":[{"type":"string"}]}`},
		[]string{`{"prefixItems":[{"type":"odd"}]}`, `{"items":[true]}`}},
	{"reference into the meta-schema", draft2020, draft2020,
		`{"$ref":"https://json-schema.org/draft/2020-12/meta/validation#/$defs/stringArray"}`, []string{`["a","b"]`},
		[]string{`["a","a"]`, `[1]`}},
}

func TestKeywordsHaveTheMeaningOfTheirDraft(t *testing.T) {
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
		meta := compile(t, `{"$ref":"`+uri+`"}`)
		for _, keyword := range keywords {
			for _, value := range values {
				if keyword == "enum" && d <= draft7 && value == "[]" ||
					keyword == "enum" && strings.Contains(value, `",`) {
					continue // the specifications of drafts 6 and 7 only advise against these
				}
				schema := `{"$schema":"` + uri + `","` + keyword + `":` + value + `}`
				_, err := Compile([]byte(schema))
				if want := meta.Validate([]byte(schema)); (err == nil) != (want == nil) {
					t.Errorf("%s: %v, the meta-schema says %v", schema, err, want)
				}
			}
		}
	}
}

func TestUncheckedKeywordsAreListed(t *testing.T) {
	s := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{
		"a":{"pattern":"(?=a)"},
		"b":{"patternProperties":{"(?<!x)y":{"type":"string"}},"additionalProperties":false},
		"c":{"multipleOf":`+strings.Repeat("7", 1001)+`},
		"d":{"format":"idn-hostname","minLength":2},
		"e":{"pattern":"^a"}}}`)
	var pointers []string
	for _, u := range s.Unchecked() {
		pointers = append(pointers, u.Pointer)
		if u.Reason == "" {
			t.Errorf("%s: there is no reason", u.Pointer)
		}
	}
	want := []string{"/properties/a/pattern", "/properties/b/patternProperties/(?<!x)y", "/properties/c/multipleOf",
		"/properties/d/format"}
	if diff := cmp.Diff(want, pointers); diff != "" {
		t.Error(diff)
	}
	if err := s.Validate([]byte(`{"a":"b","b":{"y":1,"z":2},"c":8,"d":"-a"}`)); err != nil {
		t.Errorf("unchecked keywords reject a value: %v", err)
	}
	for _, instance := range []string{`{"d":"x"}`, `{"e":"x"}`} {
		if s.Validate([]byte(instance)) == nil {
			t.Errorf("%s is valid", instance)
		}
	}
	if got := compile(t, fixture2020).Unchecked(); got != nil {
		t.Errorf("all keywords can be checked, but Unchecked returns %v", got)
	}
}

// Where a keyword that cannot be checked decides the verdict, the value is valid.
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
		if err := compile(t, schema).Validate([]byte(`"x"`)); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
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
		// The members that a branch evaluates may be evaluated.
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
		if err := compile(t, schema).Validate([]byte(instance)); err != nil {
			t.Errorf("%s: %s: %v", schema, instance, err)
		}
	}
	// Other keywords still decide.
	for _, schema := range []string{
		`{"oneOf":[` + unknown + `,true,true]}`, `{"not":{"anyOf":[` + unknown + `,true]}}`,
		`{"if":` + unknown + `,"then":false,"else":false}`,
		`{"anyOf":[{"type":"number"},{"allOf":[` + unknown + `,false]}]}`,
	} {
		if compile(t, schema).Validate([]byte(`"x"`)) == nil {
			t.Errorf("%s: a value is valid that other keywords reject", schema)
		}
	}
}

func TestFormatsAreChecked(t *testing.T) {
	for _, test := range []struct {
		format         string
		valid, invalid []string
	}{
		{"date-time", []string{"2026-02-28T23:59:60Z", "2026-01-01t00:00:00.5+01:30"},
			[]string{"2026-02-29T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01T22:59:60Z",
				"2026-01-01T24:00:00Z"}},
		{"date", []string{"2024-02-29"}, []string{"2023-02-29", "2024-2-29", "20240229"}},
		{"time", []string{"08:30:06Z", "23:59:60Z", "01:29:60+01:30"},
			[]string{"8:30:06Z", "08:30:06", "08:30:06.Z", "12:00:00+24:00", "23:59:61Z"}},
		{"duration", []string{"P4DT12H30M5S", "P4W", "PT36H"}, []string{"PT1D", "P", "P1YT", "P2S", "4D", "P1D2H"}},
		{"email", []string{"joe.bloggs@example.com", `"joe bloggs"@example.com`, "joe@[127.0.0.1]", "joe@[IPv6:::1]"},
			[]string{"2962", ".test@example.com", "te..st@example.com", "joe@-a", "joe@[127.0.0.300]", "a@b@c d"}},
		{"idn-email", []string{"실례@실례.테스트"}, []string{"2962", "a@b_c.테스트"}},
		{"hostname", []string{"www.example.com", "xn--4gbwdl.xn--wgbh1c", "1host"},
			[]string{"-a", "a-", "not_valid", "a..b", "XN-", "", strings.Repeat("a", 64)}},
		{"ipv4", []string{"192.168.0.1"}, []string{"127.0.0", "256.1.1.1", "1.2.3.04", "0x7f000001"}},
		{"ipv6", []string{"::1", "::ffff:192.168.0.1", "1:2:3:4:5:6:7:8"},
			[]string{"12345::", "::1%eth0", "1::2::3", "127.0.0.1"}},
		{"uri", []string{"http://foo.bar/?q=x&y=(z)#f", "urn:oasis:x", "http://[::1]:80/", "mailto:a@b"},
			[]string{"//a/b", "/a", `\\WINDOWS`, "http://a b", "http://[::1", "bar,baz:foo", ":// should fail",
				"http://a%zz"}},
		{"uri-reference", []string{"", "/a?b", "#f", "a/b:c", "//h"},
			[]string{`\\WINDOWS`, `#frag\ment`, "1:2", "a b"}},
		{"iri", []string{"http://ƒøø.ßår/?∂éœ=πîx"}, []string{"/abc", "âππ"}},
		{"iri-reference", []string{"âππ", "/é"}, []string{`\\ñ`}},
		{"uri-template", []string{"http://x/{a}/{b*}{?c,d:3}", "", "é/{a}", "\u00a0", "\U000e1000", "\ue000"},
			[]string{"http://x/{a", "http://x/a}", "{a b}", "{}", "{a:0}", "a\u0080", "\u009f{a}", "\ufdd0", "\ufff0",
				"\uffff", "\U0001fffe", "\U000e0001"}},
		{"uuid", []string{"2EB8AA08-aa98-11ea-b4aa-73b441d16380"},
			[]string{"2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638x"}},
		{"json-pointer", []string{"", "/a~0~1/b"}, []string{"a", "/~", "/~2"}},
		{"relative-json-pointer", []string{"0", "1/a", "2#"}, []string{"", "/a", "01/a", "1##", "-1/a"}},
		{"regex", []string{"^a+$", "(b|c)*"}, []string{"(", "^(abc]"}},
	} {
		s := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","format":"`+test.format+`"}`)
		for want, texts := range map[bool][]string{true: test.valid, false: test.invalid} {
			for _, text := range texts {
				raw, err := json.Marshal(text)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Validate(raw); (err == nil) != want {
					t.Errorf("%s %q: %v, want valid: %v", test.format, text, err, want)
				}
			}
		}
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
		if got, want := sign(d.cmp(&e)), x.Cmp(y); got != want {
			t.Fatalf("%s and %s: %d, want %d", a, b, got, want)
		}
		if got, want := sign(newBound([]byte(b)).cmp([]byte(a))), x.Cmp(y); got != want {
			t.Fatalf("%s and the bound %s: %d, want %d", a, b, got, want)
		}
		if got, want := d.isInteger(), x.IsInt(); got != want {
			t.Fatalf("%s is an integer: %v, want %v", a, got, want)
		}
		same := string(appendCanonicalNumber(nil, []byte(a))) == string(appendCanonicalNumber(nil, []byte(b)))
		if same != (x.Cmp(y) == 0) {
			t.Fatalf("%s and %s have the same canonical form: %v", a, b, same)
		}
		if text, ok := plainInteger([]byte(a)); ok {
			if n, _ := new(big.Rat).SetString(string(text)); n == nil || n.Cmp(x) != 0 {
				t.Fatalf("%s spelled out is %s", a, text)
			}
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
		if got, want := v.divides(&e, unlimited), new(big.Rat).Quo(x, u).IsInt(); got != want {
			t.Fatalf("%s is a multiple of %s: %v, want %v", a, unit, got, want)
		}
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
	if err := unique.Validate([]byte(`[10e999999999,1e999999999]`)); err != nil {
		t.Error(err)
	}
	if unique.Validate([]byte(`[1e1000000000,10e999999999]`)) == nil {
		t.Error("equal numbers pass uniqueItems")
	}
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
	if err != nil {
		t.Fatal(err)
	}
	want := []HeaderParam{
		{Name: "Region", Path: []string{"region"}, Type: "string"},
		{Name: "Dry-Run", Path: []string{"options", "dry/run"}, Type: "boolean"},
		{Name: "!#$%&'*+-.^_`|~9", Path: []string{"options", "limit"}, Type: "integer"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, none := range []string{`{}`, `true`, `{"properties":{"a":{"type":"string"}}}`} {
		if got, err := Headers([]byte(none)); err != nil || got != nil {
			t.Errorf("%s: %v, %v", none, got, err)
		}
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
		if _, err := Headers([]byte(schema)); !errors.As(err, &bad) || len(err.Error()) > 2048 {
			t.Errorf("%v, want a short *HeaderError", err)
		}
	}
	var invalid *ValidationError
	if _, err := Headers([]byte(`{"properties":{},"properties":{}}`)); !errors.As(err, &invalid) {
		t.Errorf("%v, want a *ValidationError", err)
	}
}

// FuzzXMCPHeaderSchema checks that each annotation of an accepted schema is the one that the document has at its path,
// and holds the constraints: a token that is unique without regard to case, on a string, an integer or a boolean.
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
		if err := d.scan(raw); err != nil {
			t.Fatal(err)
		}
		if len(params) > maxHeaders {
			t.Fatalf("%d annotations are accepted", len(params))
		}
		taken := map[string]bool{}
		for _, p := range params {
			if p.Type != "string" && p.Type != "integer" && p.Type != "boolean" {
				t.Fatalf("%s: %+v", raw, p)
			}
			pointer := []byte{}
			for _, name := range p.Path {
				pointer = appendPointer(append(pointer, "/properties"...), name)
			}
			at, ok := d.at(string(pointer))
			if !ok {
				t.Fatalf("%s: nothing at %s", raw, pointer)
			}
			name, _ := d.member(at, "x-mcp-header")
			typ, _ := d.member(at, "type")
			if d.Text(name) != p.Name || d.Text(typ) != p.Type || !isToken(p.Name) || taken[strings.ToLower(p.Name)] {
				t.Fatalf("%s: %+v", raw, p)
			}
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
