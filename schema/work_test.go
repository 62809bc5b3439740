package schema

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// hostile is a schema with an instance whose validation takes seconds or hours if
// it is not stopped.
type hostile struct {
	name, schema, instance string
	// mistaken reports that the instance does not match, and that only the search
	// for all mistakes takes long.
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
		{"contains nothing", `{"allOf":[` + repeated(4_900, `{"contains":{"const":%d},"minContains":0,"maxContains":9}`) + `]}`, `[` + repeated(100_000, `"x"`) + `]`, false},
		{"unevaluatedItems", many(4_900, `"unevaluatedItems":true`), ones, false},
		{"unevaluatedProperties", many(4_900, `"unevaluatedProperties":true`), members, false},
		{"required", many(9_000, `"required":["a1"]`), members, false},
		{"minProperties", many(9_000, `"minProperties":1`), members, false},
		{"propertyNames", many(4_900, `"propertyNames":true`), members, false},
		{"additionalProperties", many(4_900, `"additionalProperties":true`), members, false},
		{"patternProperties", `{"patternProperties":{` + repeated(9_000, `"q%d":true`) + `}}`, `{` + repeated(100_000, `"a%d":1`) + `}`, false},
		{"patternProperties of escaped names", `{"patternProperties":{` + repeated(9_000, `"^q%d":true`) + `}}`, `{` + escaped + `:1}`, false},
		{"dependentRequired", `{"dependentRequired":{"a1":[` + repeated(50_000, `"a%d"`) + `]}}`, `{` + repeated(100_000, `"a%d":1`) + `}`, false},
		{"dependentRequired of escaped names", `{"dependentRequired":{` + repeated(9_000, `"b%d":["a"]`) + `}}`, `{` + escaped + `:1}`, false},
		{"maxLength", many(9_000, `"maxLength":4194303`), `"` + strings.Repeat("ü", 2<<20) + `"`, false},
		{"minLength of escapes", many(9_000, `"minLength":1`), escaped, false},
		{"format", `{"$schema":"http://json-schema.org/draft-07/schema#",` + many(9_000, `"format":"uri-reference"`)[1:], long, false},
		{"type of a long number", many(9_000, `"type":"integer"`), `1.` + strings.Repeat("0", 4<<20), false},
		{"multipleOf", many(9_000, `"multipleOf":1`), strings.Repeat("7", 4<<20), false},
		{"const", `{"not":{"anyOf":[` + repeated(4_900, `{"const":%d}`) + `]}}`, members, false},
		{"enum of sorted members", `{"not":{"anyOf":[` + repeated(4_900, `{"enum":[{"a":%d}]}`) + `]}}`, `{` + repeated(100_000, `"\u0061%d":1`) + `}`, false},

		{"report of types", many(9_000, `"type":"number"`), escaped, true},
		{"report of alternatives of types", `{"anyOf":[` + repeated(9_000, `{"type":"number","title":"%d"}`) + `]}`, escaped, true},
		{"report of lengths", `{"allOf":[` + repeated(9_000, `{"maxLength":%d}`) + `]}`, long, true},
		{"report of values", `{"allOf":[` + repeated(9_000, `{"enum":[%d]}`) + `]}`, escaped, true},
		{"report of missing members", `{"required":[` + repeated(50_000, `"b%d"`) + `]}`, `{` + repeated(100_000, `"a%d":1`) + `}`, true},
		{"report of missing members of items", `{"items":{"anyOf":[{"required":[` + repeated(50_000, `"b%d"`) + `]}]}}`, `[` + repeated(100_000, `{"a":%d}`) + `]`, true},
		{"report of unknown members", `{"additionalProperties":false,"properties":{` + repeated(9_000, `"b%d":true`) + `}}`, `{` + repeated(100_000, `"a%d":1`) + `}`, true},
		{"report of unevaluated members", `{"unevaluatedProperties":false,"properties":{` + repeated(9_000, `"b%d":true`) + `}}`, `{` + repeated(100_000, `"a%d":1`) + `}`, true},
		{"report of elements", `{"items":{"anyOf":[{"type":"number"},{"type":"null"}]}}`, `[` + repeated(100_000, `"a%d"`) + `]`, true},
		{"report of alternatives", `{"anyOf":[` + repeated(4_900, `{"minLength":9%d,"maxLength":0}`) + `]}`, escaped, true},
		{"report of alternatives in alternatives", nestedAlternatives(12), `"x"`, true},
	}
}

// nestedAlternatives returns alternatives of alternatives, down to a depth. None
// accepts a string of one letter.
func nestedAlternatives(depth int) string {
	if depth == 0 {
		return `{"minLength":2}`
	}
	inner := nestedAlternatives(depth - 1)
	return `{"anyOf":[` + inner + `,` + strings.ReplaceAll(inner, `2`, `3`) + `]}`
}

// TestEveryKeywordIsChargedForItsWork gives each validation two looks at a clock
// after the first one. If the work of a keyword is not charged, the validation
// never looks, and takes the time that the work takes.
func TestEveryKeywordIsChargedForItsWork(t *testing.T) {
	for _, h := range hostileKeywords() {
		t.Run(h.name, func(t *testing.T) {
			s, err := Compile([]byte(h.schema))
			if err != nil {
				t.Fatal(err)
			}
			clock := time.Time{}.Add(time.Hour)
			looks := 0
			r := newRun(2 * time.Second)
			r.now = func() time.Time {
				looks++
				clock = clock.Add(time.Second)
				return clock
			}
			err = r.validate(s.program, []byte(h.instance))
			var invalid *ValidationError
			switch {
			case errors.Is(err, ErrTooSlow):
			case h.mistaken && errors.As(err, &invalid):
				for _, issue := range invalid.Issues {
					if n := len(issue.Expected) + len(issue.Got); n > 2*(maxExpected+len("…")) {
						t.Errorf("an issue has %d bytes", n)
					}
				}
			default:
				t.Errorf("%v after %d looks at the clock, want ErrTooSlow", err, looks)
			}
		})
	}
}

// TestHostileReportsEndInTime uses the clock of the machine, because a report that
// takes too long has the same result as one that is cut in time. The allowance is
// for a loaded machine.
func TestHostileReportsEndInTime(t *testing.T) {
	const allowance = time.Minute // the work that a bound prevents takes much longer, also on a fast machine
	for _, h := range hostileKeywords() {
		if !h.mistaken {
			continue
		}
		s, err := Compile([]byte(h.schema))
		if err != nil {
			t.Fatalf("%s: %v", h.name, err)
		}
		start := time.Now()
		err = s.Validate([]byte(h.instance))
		if took := time.Since(start); took > allowance {
			t.Errorf("%s: took %v: %.100v", h.name, took, err)
		}
	}
}

func TestAReportEndsWithItsLastIssue(t *testing.T) {
	s := compile(t, `{"items":{"type":"string"}}`)
	r := newRun(time.Hour)
	looks := 0
	r.now = func() time.Time { looks++; return time.Time{}.Add(time.Hour) }
	err := r.validate(s.program, []byte(`[`+repeated(500_000, `%d`)+`]`))
	var invalid *ValidationError
	if !errors.As(err, &invalid) || len(invalid.Issues) != maxIssues {
		t.Fatalf("%v, want %d issues", err, maxIssues)
	}
	if r.fuel < 0 || looks > 2+2*3_500_000/bytesPerUnit/refuelUnits {
		t.Errorf("%d looks at the clock: the report goes on after its last issue", looks)
	}
}
