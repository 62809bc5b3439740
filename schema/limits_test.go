package schema

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

func TestSchemasAtALimitPassAndLargerOnesFail(t *testing.T) {
	small := limits{MaxSubschemas: 3, MaxDepth: 2, MaxRegexp: 5}
	for _, test := range []struct{ name, within, beyond string }{
		{"subschemas", `{"anyOf":[true,true]}`, `{"anyOf":[true,true,true]}`},
		{"depth", `{"not":true}`, `{"not":{"not":true}}`},
		{"regular expression", `{"pattern":"aaaaa"}`, `{"pattern":"aaaaaa"}`},
		{"regular expression of names", `{"patternProperties":{"aaaaa":true}}`,
			`{"patternProperties":{"aaaaaa":true}}`},
		{"regular expression with unevaluatedItems", `{"unevaluatedItems":true,"pattern":"aaaaa"}`,
			`{"unevaluatedItems":true,"pattern":"aaaaaa"}`},
	} {
		must.Check(t, must.Err(small.Compile([]byte(test.within))), test.name, "at the bound")
		var limit *limitError
		_, err := small.Compile([]byte(test.beyond))
		must.CheckThat(t, errors.As(err, &limit) && errors.Is(err, ErrLimit) && !errors.Is(err, errTooSlow),
			"%s: beyond the bound: %v, want a *limitError", test.name, err)
	}
}

func TestSchemasAtADefaultLimitPassAndLargerOnesFail(t *testing.T) {
	for _, test := range []struct {
		name string
		doc  func(n int) string
		most int
	}{
		{"subschemas", func(n int) string { return `{"anyOf":[` + repeated(n-1, `{"const":%d}`) + `]}` }, 10_000},
		{"depth", func(n int) string { return strings.Repeat(`{"not":`, n-1) + `true` + strings.Repeat(`}`, n-1) }, 64},
		{"regular expression", func(n int) string { return `{"pattern":"` + strings.Repeat("a", n) + `"}` }, 4096},
	} {
		must.Check(t, must.Err(Compile([]byte(test.doc(test.most)))), test.name, test.most)
		must.CheckIs(t, must.Err(Compile([]byte(test.doc(test.most+1)))), ErrLimit, test.name, test.most+1)
	}
}

func TestInstancesAreBounded(t *testing.T) {
	for _, schema := range []string{`true`, `{"unevaluatedItems":true}`} {
		s := must.Get(Compile([]byte(schema)))(t)
		nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
		must.Check(t, s.Validate([]byte(nested(128))), schema, "128 levels")
		must.CheckIs(t, s.Validate([]byte(nested(129))), ErrLimit, schema)
	}
	s := must.Get(Compile([]byte(`true`)))(t)
	list := func(n int) string { return "[0" + strings.Repeat(",0", n-1) + "]" }
	must.Check(t, s.Validate([]byte(list(999_999))), "a million values") // and the list itself
	must.CheckIs(t, s.Validate([]byte(list(1_000_000))), ErrLimit)
}

func TestTimeIsBounded(t *testing.T) {
	for _, schema := range []string{`{` + doubling("oneOf", 60) + `}`,
		`{"unevaluatedItems":true,` + doubling("oneOf", 60) + `}`} {
		s := must.Get(limits{MaxTime: time.Millisecond}.Compile([]byte(schema)))(t)
		err := s.Validate([]byte(`"x"`))
		must.CheckIs(t, err, errTooSlow)
		must.CheckIs(t, err, ErrLimit)
	}
}

func TestShortValidationsIgnoreTheTimeLimit(t *testing.T) {
	s := must.Get(limits{MaxTime: time.Nanosecond}.Compile([]byte(`{"type":"string"}`)))(t)
	var invalid *ValidationError
	if err := s.Validate([]byte(`1`)); !errors.As(err, &invalid) {
		t.Errorf("%v, want a *ValidationError: a short check never looks at the clock", err)
	}
}

// hostile is a schema with an instance whose validation takes seconds or hours if it is not stopped.
type hostile struct {
	name, schema, instance string
	// mistaken means that the instance does not match, and that only the search for all mistakes takes long.
	mistaken bool
}

// many returns a schema that applies a number of equal subschemas to the same value.
func many(n int, keywords string) string {
	return `{"allOf":[` + repeated(n, `{`+keywords+`,"title":"%d"}`) + `]}`
}

func hostileKeywords() []hostile {
	escaped := `"` + strings.Repeat(`\u0041`, 700_000) + `"`
	long := `"` + strings.Repeat("x", 4<<20) + `"`
	ones := `[` + repeated(500_000, `1`) + `]`
	members := `{` + repeated(100_000, `"a%d":1`) + `}`
	return []hostile{
		{"items", many(4_900, `"items":true`), ones, false},
		{"prefixItems", many(3_000, `"prefixItems":[true],"items":true`), ones, false},
		{"contains", many(4_900, `"contains":true,"maxContains":2000000`), ones, false},
		{"contains nothing", `{"allOf":[` + repeated(4_900,
			`{"contains":{"const":%d},"minContains":0,"maxContains":9}`) + `]}`, `[` + repeated(100_000, `"x"`) + `]`,
			false},
		{"unevaluatedItems", many(4_900, `"unevaluatedItems":true`), ones, false},
		{"unevaluatedProperties", many(4_900, `"unevaluatedProperties":true`), members, false},
		{"required", many(9_000, `"required":["a1"]`), members, false},
		{"minProperties", many(9_000, `"minProperties":1`), members, false},
		{"propertyNames", many(4_900, `"propertyNames":true`), members, false},
		{"additionalProperties", many(4_900, `"additionalProperties":true`), members, false},
		{"patternProperties", `{"patternProperties":{` + repeated(9_000, `"q%d":true`) + `}}`,
			`{` + repeated(100_000, `"a%d":1`) + `}`, false},
		{"patternProperties of escaped names", `{"patternProperties":{` + repeated(9_000, `"^q%d":true`) + `}}`,
			`{` + escaped + `:1}`, false},
		{"dependentRequired", `{"dependentRequired":{"a1":[` + repeated(50_000, `"a%d"`) + `]}}`,
			`{` + repeated(100_000, `"a%d":1`) + `}`, false},
		{"dependentRequired of escaped names", `{"dependentRequired":{` + repeated(9_000, `"b%d":["a"]`) + `}}`,
			`{` + escaped + `:1}`, false},
		{"maxLength", many(9_000, `"maxLength":4194303`), `"` + strings.Repeat("ü", 2<<20) + `"`, false},
		{"minLength of escapes", many(9_000, `"minLength":1`), escaped, false},
		{"type of a long number", many(9_000, `"type":"integer"`), `1.` + strings.Repeat("0", 4<<20), false},
		{"multipleOf", many(9_000, `"multipleOf":1`), strings.Repeat("7", 4<<20), false},
		{"const", `{"not":{"anyOf":[` + repeated(4_900, `{"const":%d}`) + `]}}`, members, false},
		{"enum of sorted members", `{"not":{"anyOf":[` + repeated(4_900, `{"enum":[{"a":%d}]}`) + `]}}`,
			`{` + repeated(100_000, `"\u0061%d":1`) + `}`, false},

		{"report of types", many(9_000, `"type":"number"`), escaped, true},
		{"report of alternatives of types", `{"anyOf":[` + repeated(9_000, `{"type":"number","title":"%d"}`) + `]}`,
			escaped, true},
		{"report of lengths", `{"allOf":[` + repeated(9_000, `{"maxLength":%d}`) + `]}`, long, true},
		{"report of values", `{"allOf":[` + repeated(9_000, `{"enum":[%d]}`) + `]}`, escaped, true},
		{"report of missing members", `{"required":[` + repeated(50_000, `"b%d"`) + `]}`,
			`{` + repeated(100_000, `"a%d":1`) + `}`, true},
		{"report of missing members of items", `{"items":{"anyOf":[{"required":[` + repeated(50_000, `"b%d"`) + `]}]}}`,
			`[` + repeated(100_000, `{"a":%d}`) + `]`, true},
		{"report of unknown members", `{"additionalProperties":false,"properties":{` + repeated(9_000, `"b%d":true`) +
			`}}`, `{` + repeated(100_000, `"a%d":1`) + `}`, true},
		{"report of unevaluated members", `{"unevaluatedProperties":false,"properties":{` +
			repeated(9_000, `"b%d":true`) + `}}`, `{` + repeated(100_000, `"a%d":1`) + `}`, true},
		{"report of elements", `{"items":{"anyOf":[{"type":"number"},{"type":"null"}]}}`,
			`[` + repeated(100_000, `"a%d"`) + `]`, true},
		{"report of alternatives", `{"anyOf":[` + repeated(4_900, `{"minLength":9%d,"maxLength":0}`) + `]}`, escaped,
			true},
		{"report of alternatives in alternatives", nestedAlternatives(12), `"x"`, true},
	}
}

// nestedAlternatives returns alternatives of alternatives, down to a depth. None accepts a string of one letter.
func nestedAlternatives(depth int) string {
	if depth == 0 {
		return `{"minLength":2}`
	}
	inner := nestedAlternatives(depth - 1)
	return `{"anyOf":[` + inner + `,` + strings.ReplaceAll(inner, `2`, `3`) + `]}`
}

// TestEveryKeywordIsChargedForItsWork lets each validation look at the clock only twice after the first time. If the
// work of a keyword is not charged, the validation never looks at the clock, and takes as long as the work takes.
func TestEveryKeywordIsChargedForItsWork(t *testing.T) {
	for _, h := range hostileKeywords() {
		t.Run(h.name, func(t *testing.T) {
			s := must.Get(Compile([]byte(h.schema)))(t)
			clock := time.Time{}.Add(time.Hour)
			looks := 0
			r := newRun(2 * time.Second)
			r.now = func() time.Time {
				looks++
				clock = clock.Add(time.Second)
				return clock
			}
			err := r.validate(s.program, []byte(h.instance))
			var invalid *ValidationError
			switch {
			case errors.Is(err, errTooSlow):
			case h.mistaken && errors.As(err, &invalid):
				for _, issue := range invalid.Issues {
					n := len(issue.Expected) + len(issue.Got)
					must.CheckThat(t, n <= 2*(maxExpected+len("…")), "an issue has %d bytes", n)
				}
			default:
				t.Errorf("%v after %d looks at the clock, want errTooSlow", err, looks)
			}
		})
	}
}

// TestHostileReportsEndInTime uses the clock of the machine, because a report that takes too long gives the same
// result as a report that is cut off in time. The allowance is for a loaded machine.
func TestHostileReportsEndInTime(t *testing.T) {
	const allowance = time.Minute // the work that a bound prevents takes much longer, even on a fast machine
	for _, h := range hostileKeywords() {
		if !h.mistaken {
			continue
		}
		s, err := Compile([]byte(h.schema))
		must.Do(t, err, h.name)
		start := time.Now()
		err = s.Validate([]byte(h.instance))
		took := time.Since(start)
		must.CheckThat(t, took <= allowance, "%s: took %v: %.100v", h.name, took, err)
	}
}

func TestAReportEndsWithItsLastIssue(t *testing.T) {
	s := compile(t, `{"items":{"type":"string"}}`)
	r := newRun(time.Hour)
	looks := 0
	r.now = func() time.Time { looks++; return time.Time{}.Add(time.Hour) }
	err := r.validate(s.program, []byte(`[`+repeated(500_000, `%d`)+`]`))
	var invalid *ValidationError
	must.That(t, errors.As(err, &invalid) && len(invalid.Issues) == maxIssues, "%v, want %d issues", err, maxIssues)
	must.CheckThat(t, r.fuel >= 0 && looks <= 2+2*3_500_000/bytesPerUnit/refuelUnits,
		"%d looks at the clock: the report goes on after its last issue", looks)
}

// trap listens on a port and fails the test if there is a connection.
func trap(t *testing.T) (base string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
			t.Errorf("%s received a connection", listener.Addr())
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String() + "/"
}

// Rule V1.
func TestRemoteRefIsNeverFetched(t *testing.T) {
	base := trap(t)
	local := filepath.Join(t.TempDir(), "schema.json")
	must.Do(t, os.WriteFile(local, []byte(`true`), 0o600))
	for _, schema := range []string{
		`{"$ref":"` + base + `a.json"}`,
		`{"$ref":"` + base + `a.json#/$defs/x"}`,
		`{"$dynamicRef":"` + base + `a.json#x"}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveRef":"` + base + `"}`,
		`{"$id":"` + base + `root.json","$ref":"other.json"}`,
		`{"$id":"` + base + `root.json","$defs":{"a":{"$id":"sub/","items":{"$ref":"other.json"}}}}`,
		`{"properties":{"a":{"items":{"anyOf":[true,{"$ref":"` + base + `"}]}}}}`,
		`{"$schema":"` + base + `meta"}`,
		`{"$defs":{"a":{"$id":"` + base + `sub","$schema":"` + base + `meta"}},"$ref":"#/$defs/a"}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"` + base + `root","$ref":"x"}`,
		`{"unevaluatedProperties":{"$ref":"` + base + `"}}`,
		`{"$ref":"file://` + local + `"}`,
		`{"$ref":"` + local + `"}`,
		`{"$ref":"other.json"}`,
		`{"$id":"urn:example:root","$ref":"other.json"}`,
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`,
	} {
		s, err := Compile([]byte(schema))
		var ref *RefError
		var unknown *dialectError
		must.CheckThat(t, errors.As(err, &ref) || errors.As(err, &unknown),
			"Compile(%s): %v, %v, want a *RefError or *dialectError", schema, s, err)
	}
}

// Rule V2.
func TestFetchingCannotBeTurnedOn(t *testing.T) {
	limits := reflect.TypeFor[limits]()
	for i := range limits.NumField() {
		switch f := limits.Field(i); f.Type.Kind() {
		case reflect.Int, reflect.Int64: // bounds
		default:
			t.Errorf("Limits.%s is a %s; a schema must not reach the network through it", f.Name, f.Type)
		}
	}
}

// Rule V3.
func TestUnresolvedReferenceIsRejected(t *testing.T) {
	for _, schema := range []string{
		`{"$ref":"#/$defs/missing"}`,
		`{"$ref":"#missing"}`,
		`{"$defs":{"a":{"$ref":"#/nowhere"}}}`, // rejected although it is not reachable
		`{"$defs":{"a":{"$ref":"https://example.com/other"}}}`,
		`{"then":{"$ref":"https://example.com/other"}}`,
		`{"items":[{}],"$schema":"http://json-schema.org/draft-07/schema#","additionalItems":{"$ref":"#/items/1"}}`,
		`{"unevaluatedProperties":{"$ref":"#/$defs/missing"}}`,
		`{"unevaluatedProperties":{"$ref":"#missing"}}`,
		`{"$ref":"%zz"}`,
	} {
		_, err := Compile([]byte(schema))
		var ref *RefError
		must.CheckThat(t, errors.As(err, &ref), "Compile(%s): %v, want a *RefError", schema, err)
	}
}

func TestReferenceCyclesAreRejected(t *testing.T) {
	for _, schema := range []string{
		`{"$ref":"#"}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		`{"anyOf":[{"type":"string"},{"$ref":"#"}]}`,
		`{"allOf":[{"not":{"if":{"$ref":"#"},"then":false}}]}`,
		`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"oneOf":[{"$ref":"#/$defs/x"}]}}}`,
		`{"dependentSchemas":{"a":{"$ref":"#"}}}`,
		`{"unevaluatedProperties":false,"$ref":"#"}`,
		`{"$dynamicAnchor":"a","$dynamicRef":"#a"}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,` +
			`"allOf":[{"$recursiveRef":"#"}]}`,
		`{"$id":"http://x/a","$ref":"b","$defs":{"b":{"$id":"b","$dynamicAnchor":"n","not":{"$dynamicRef":"#n"}}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema","dependencies":{"a":{"$ref":"#"}}}`,
	} {
		_, err := Compile([]byte(schema))
		var ref *RefError
		must.CheckThat(t, errors.As(err, &ref), "Compile(%s): %v, want a *RefError", schema, err)
	}
	for _, schema := range []string{
		`{"properties":{"a":{"$ref":"#"}}}`,
		`{"items":{"$ref":"#"},"unevaluatedItems":false}`,
		`{"$defs":{"a":{"$ref":"#/$defs/a"}}}`, // not reachable
		`{"$dynamicAnchor":"a","unevaluatedProperties":{"$dynamicRef":"#a"},"unevaluatedItems":{"$dynamicRef":"#a"}}`,
	} {
		must.Check(t, must.Err(Compile([]byte(schema))), schema)
	}
}

// doubling returns definitions a0 … an, each of which applies the next one twice.
func doubling(keyword string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"a%d":{"%s":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, keyword, i+1, i+1)
	}
	return fmt.Sprintf(`"$ref":"#/$defs/a0","$defs":{%s"a%d":{"type":"string"}}`, b.String(), n)
}

// repeated returns n elements of an array or an object. The format may contain
// one verb, for the index of the element.
func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(format, "%") {
			fmt.Fprintf(&b, format, i)
		} else {
			b.WriteString(format)
		}
	}
	return b.String()
}

// TestAdversarialInputEndsInTime checks that hostile schemas and instances end within the limit of time, with some
// allowance for a loaded machine. Without a limit they take hours.
func TestAdversarialInputEndsInTime(t *testing.T) {
	const allowance = time.Minute // the work that a bound prevents takes much longer, even on a fast machine
	long := strings.Repeat("x", 4<<20)
	for _, bomb := range []struct{ name, schema, instance string }{
		{"allOf", `{` + doubling("allOf", 60) + `}`, `"x"`},
		{"anyOf", `{` + doubling("anyOf", 60) + `}`, `1`},
		{"oneOf", `{` + doubling("oneOf", 60) + `}`, `"x"`},
		{"allOf and unevaluatedItems", `{"unevaluatedItems":false,` + doubling("allOf", 60) + `}`, `"x"`},
		{"oneOf and unevaluatedItems", `{"unevaluatedItems":false,` + doubling("oneOf", 60) + `}`, `[1]`},
		{"anyOf and unevaluatedProperties", `{"unevaluatedProperties":false,` + doubling("anyOf", 60) + `}`,
			`{` + repeated(10_000, `"a%d":1`) + `}`},
		{"unevaluatedProperties in each of many subschemas",
			`{"allOf":[` + repeated(5_000, `{"unevaluatedProperties":{"type":"number"},"title":"%d"}`) + `]}`,
			`{` + repeated(50_000, `"a%d":1`) + `}`},
		{"unevaluatedItems in each of many subschemas", `{"anyOf":[` +
			repeated(5_000, `{"unevaluatedItems":{"type":"string"},"title":"%d"}`) + `]}`,
			`[` + repeated(50_000, `%d`) + `]`},
		{"contains and unevaluatedItems", `{"unevaluatedItems":true,"allOf":[` +
			repeated(5_000, `{"contains":{"const":%d}}`) + `]}`, `[` + repeated(50_000, `%d`) + `]`},
		{"references to references", `{` + doubling("allOf", 200) + `}`, `"x"`},
		{"dynamic references", `{"$id":"http://x/r","$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}},` +
			`"anyOf":[{"additionalProperties":{"$dynamicRef":"#n"}},{"patternProperties":{"":{"$dynamicRef":"#n"}}},` +
			`{"type":"string"}]}`,
			strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100)},
		{"recursive references", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,` +
			`"anyOf":[{"items":{"$recursiveRef":"#"}},{"contains":{"$recursiveRef":"#"}},` +
			`{"unevaluatedItems":{"$recursiveRef":"#"}}],"not":{"type":"number"}}`,
			strings.Repeat(`[`, 100) + `1` + strings.Repeat(`]`, 100)},
		{"expression", `{"pattern":"(x+x+)+y(a|b|c|d|e.*f.*g){900}"}`, `"` + long + `"`},
		{"expression and unevaluatedItems", `{"unevaluatedItems":false,"pattern":"(x+x+)+y(a|b|c|d|e.*f.*g){900}"}`,
			`"` + long + `"`},
		{"expression on names",
			`{"unevaluatedItems":false,"patternProperties":{"(x+x+)+y(a|b|c|d|e.*f.*g){900}":true}}`,
			`{"` + long + `":1}`},
		{"number", `{"multipleOf":7,"minimum":3}`, `1e10000000000000000`},
		{"number and unevaluatedItems", `{"unevaluatedItems":false,"multipleOf":7,"minimum":3}`, `1e1000000000`},
		{"digits", `{"multipleOf":0.0000007,"minimum":3}`, strings.Repeat("7", 4<<20)},
		{"digits of a divisor", `{"multipleOf":` + strings.Repeat("7", 1000) + `}`, strings.Repeat("3", 4<<20)},
		{"exponent of a large divisor", `{"multipleOf":` + strings.Repeat("7", 1000) + `}`, `1e9999999999999999`},
		{"bounds with exponents", `{"minimum":1e1000000000,"exclusiveMaximum":1e-1000000000}`, `1e999999999`},
		{"unique", `{"uniqueItems":true}`, `[` + repeated(60_000, `["a%d"]`) + `]`},
		{"unique and unevaluatedItems", `{"unevaluatedItems":true,"uniqueItems":true}`,
			`[` + repeated(60_000, `["a%d"]`) + `]`},
		{"unique in many subschemas", `{"allOf":[` + repeated(5_000, `{"uniqueItems":true,"title":"%d"}`) + `]}`,
			`[` + repeated(60_000, `["a%d"]`) + `]`},
		{"long names", `{"properties":{"` + long + `":{"properties":{` + repeated(9_000, `"a%d":{"type":"string"}`) +
			`}}}}`, `{"` + long + `":{` + repeated(9_000, `"a%d":1`) + `}}`},
		{"long names in alternatives", `{"additionalProperties":{"additionalProperties":{"anyOf":[` +
			repeated(5_000, `{"const":%d}`) + `]}}}`, `{"` + long + `":{` + repeated(9_000, `"a%d":"x"`) + `}}`},
		{"long names and unevaluatedProperties",
			`{"unevaluatedProperties":true,"additionalProperties":{"additionalProperties":{"type":"string"}}}`,
			`{"` + long + `":{` + repeated(9_000, `"a%d":1`) + `}}`},
		{"names", `{}`, `{` + repeated(200_000, `"a%d":1`) + `}`},
		{"enum", `{"unevaluatedItems":true,"items":{"enum":[` + repeated(20_000, `"a%d"`) + `]}}`,
			`[` + repeated(20_000, `"b%d"`) + `]`},
		{"dependents", `{"dependentRequired":{` + repeated(9_000, `"a%d":["b"]`) + `}}`,
			`{` + repeated(100_000, `"a%d":1`) + `}`},
	} {
		t.Run(bomb.name, func(t *testing.T) {
			start := time.Now()
			s, err := Compile([]byte(bomb.schema))
			if err == nil {
				err = s.Validate([]byte(bomb.instance))
			}
			var invalid *ValidationError
			var ref *RefError
			var malformed *invalidSchemaError
			must.CheckThat(t, err == nil || errors.Is(err, ErrLimit) || errors.As(err, &invalid) ||
				errors.As(err, &ref) || errors.As(err, &malformed), "the error has an unknown type: %v", err)
			took := time.Since(start)
			must.CheckThat(t, took <= allowance, "took %v", took)
		})
	}
}

// Rule V4.
func TestCompilingIsBounded(t *testing.T) {
	for _, bomb := range []struct{ name, schema string }{
		{"subschemas", `{"anyOf":[` + repeated(10_001, `{"const":%d}`) + `]}`},
		{"subschemas behind one reference", `{"$ref":"#/x","x":{"anyOf":[` + repeated(10_001, `{"const":%d}`) + `]}}`},
		{"depth", strings.Repeat(`{"not":`, 64) + `true` + strings.Repeat(`}`, 64)},
		{"references in a row", `{"$ref":"#/$defs/a0","$defs":{` + chain(300) + `}}`},
		{"references in a row and unevaluatedItems", `{"unevaluatedItems":false,"$ref":"#/$defs/a0","$defs":{` +
			chain(300) + `}}`},
		{"length of an expression", `{"pattern":"` + strings.Repeat("a", 4097) + `"}`},
		{"length of a name's expression", `{"patternProperties":{"` + strings.Repeat("a", 4097) + `":true}}`},
		{"instructions", `{"pattern":"` + strings.Repeat("a{1000}", 100) + `"}`},
		{"instructions in all", `{"anyOf":[` + repeated(300, `{"pattern":"a{900}%d"}`) + `]}`},
		{"identifiers", `{"$id":"http://x/` + strings.Repeat("x", 8000) + `/","anyOf":[` +
			repeated(300, `{"$id":"x%d"}`) + `]}`},
		{"subschemas behind references", `{"anyOf":[` + repeated(5_000, `{"$ref":"#/x/%d"}`) + `],"x":[` +
			repeated(5_001, `{"const":%d}`) + `]}`},
		{"length of a reference", `{"$ref":"#/` + strings.Repeat("x", 9<<10) + `"}`},
		{"length of an identifier", `{"$id":"` + strings.Repeat("x", 9<<10) + `"}`},
		{"levels", strings.Repeat(`[`, 129) + strings.Repeat(`]`, 129)},
	} {
		must.CheckIs(t, must.Err(Compile([]byte(bomb.schema))), ErrLimit, bomb.name)
	}
}

// chain returns n definitions, each of which refers to the next one.
func chain(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"a%d":{"$ref":"#/$defs/a%d"},`, i, i+1)
	}
	return b.String() + fmt.Sprintf(`"a%d":true`, n)
}

// Compiling takes time in proportion to the length of the document.
// Rule V4.
func TestCompilingEndsInTime(t *testing.T) {
	const allowance = time.Minute // the work that a bound prevents takes much longer, even on a fast machine
	for _, bomb := range []struct{ name, schema string }{
		{"identifiers", `{"anyOf":[` + repeated(9_000, `{"$id":"x%d"}`) + `]}`},
		{"references", `{"anyOf":[` + repeated(4_000, `{"$ref":"#/x/%d"}`) + `],"x":[` +
			repeated(4_000, `{"const":%d}`) + `]}`},
		{"anchors", `{"anyOf":[` + repeated(4_000, `{"$ref":"#a%d"}`) + `],"$defs":{` +
			repeated(4_000, `"%d":{"$anchor":"a%[1]d"}`) + `}}`},
		{"dynamic anchors", `{"$id":"http://x/r","items":{"$dynamicRef":"#n"},"$dynamicAnchor":"n","$defs":{` +
			repeated(900, `"%d":{"$id":"r%[1]d","$dynamicAnchor":"n","items":{"$dynamicRef":"#n"}}`) + `}}`},
		{"references to elements of a large array", `{"anyOf":[` + repeated(4_000, `{"$ref":"#/examples/80%04d"}`) +
			`],"examples":[` + repeated(810_000, `true`) + `]}`},
		{"numbers", `{"unevaluatedItems":false,"minimum":1e1000000}`},
		{"paths", `{"unevaluatedItems":false,"properties":{"` + strings.Repeat("x", 1<<20) + `":{"anyOf":[` +
			repeated(100, `{"const":%d}`) + `]}}}`},
		{"required", `{"required":[` + repeated(50_000, `"a%d"`) + `]}`},
	} {
		start := time.Now()
		must.Check(t, must.Err(Compile([]byte(bomb.schema))), bomb.name)
		took := time.Since(start)
		must.CheckThat(t, took <= allowance, "%s took %v", bomb.name, took)
	}
}

// Rule V5.
func TestUnknownDialectIsATypedError(t *testing.T) {
	for _, uri := range []string{
		"https://example.com/dialect", "http://json-schema.org/draft-03/schema#", "json-schema.org/draft-07/schema", "",
		"https://json-schema.org/draft/2020-12/schema#fragment", "https://spec.openapis.org/oas/3.1/dialect/base",
		"draft-07", ":",
	} {
		_, err := Compile([]byte(fmt.Sprintf(`{"$schema":%q,"type":"object"}`, uri)))
		var unknown *dialectError
		must.CheckThat(t, errors.As(err, &unknown) && unknown.Dialect == uri,
			"$schema %q: %v, want a *dialectError", uri, err)
	}
}

// Rule V5.
func TestEveryKnownDialectIsUsed(t *testing.T) {
	// Some keywords have a meaning only in some drafts.
	for _, test := range []struct {
		uri   string
		valid bool
	}{
		{"http://json-schema.org/draft-04/schema#", true},
		{"http://json-schema.org/draft-06/schema", true},
		{"https://json-schema.org/draft-07/schema#", true},
		{"https://json-schema.org/draft/2019-09/schema", false},
		{"http://json-schema.org/draft/2020-12/schema", false},
		{"https://json-schema.org/schema", false},
	} {
		s, err := Compile([]byte(fmt.Sprintf(`{"$schema":%q,"dependentRequired":{"a":["b"]}}`, test.uri)))
		if err != nil {
			t.Errorf("%s: %v", test.uri, err)
			continue
		}
		if err := s.Validate([]byte(`{"a":1}`)); (err == nil) != test.valid {
			t.Errorf("%s: %v, want valid: %v", test.uri, err, test.valid)
		}
	}
}
