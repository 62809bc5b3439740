package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSchemasAtALimitPassAndLargerOnesFail(t *testing.T) {
	small := Limits{MaxSubschemas: 3, MaxDepth: 2, MaxRegexp: 5}
	for _, test := range []struct{ name, within, beyond string }{
		{"subschemas", `{"anyOf":[true,true]}`, `{"anyOf":[true,true,true]}`},
		{"depth", `{"not":true}`, `{"not":{"not":true}}`},
		{"regular expression", `{"pattern":"aaaaa"}`, `{"pattern":"aaaaaa"}`},
		{"regular expression of names", `{"patternProperties":{"aaaaa":true}}`, `{"patternProperties":{"aaaaaa":true}}`},
		{"regular expression with unevaluatedItems", `{"unevaluatedItems":true,"pattern":"aaaaa"}`, `{"unevaluatedItems":true,"pattern":"aaaaaa"}`},
	} {
		if _, err := small.Compile([]byte(test.within)); err != nil {
			t.Errorf("%s: at the bound: %v", test.name, err)
		}
		var limit *LimitError
		if _, err := small.Compile([]byte(test.beyond)); !errors.As(err, &limit) || !errors.Is(err, ErrLimit) || errors.Is(err, ErrTooSlow) {
			t.Errorf("%s: beyond the bound: %v, want a *LimitError", test.name, err)
		}
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
		if _, err := Compile([]byte(test.doc(test.most))); err != nil {
			t.Errorf("%s: %d: %v", test.name, test.most, err)
		}
		if _, err := Compile([]byte(test.doc(test.most + 1))); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %d: %v, want ErrLimit", test.name, test.most+1, err)
		}
	}
}

func TestInstancesAreBounded(t *testing.T) {
	for _, schema := range []string{`true`, `{"unevaluatedItems":true}`} {
		s, err := Compile([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
		if err := s.Validate([]byte(nested(128))); err != nil {
			t.Errorf("%s: 128 levels: %v", schema, err)
		}
		if err := s.Validate([]byte(nested(129))); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: 129 levels: %v, want ErrLimit", schema, err)
		}
	}
	s, err := Compile([]byte(`true`))
	if err != nil {
		t.Fatal(err)
	}
	list := func(n int) string { return "[0" + strings.Repeat(",0", n-1) + "]" }
	if err := s.Validate([]byte(list(999_999))); err != nil { // and the list itself
		t.Errorf("a million values: %v", err)
	}
	if err := s.Validate([]byte(list(1_000_000))); !errors.Is(err, ErrLimit) {
		t.Errorf("a million values and one: %v, want ErrLimit", err)
	}
}

func TestTimeIsBounded(t *testing.T) {
	for _, schema := range []string{`{` + doubling("oneOf", 60) + `}`, `{"unevaluatedItems":true,` + doubling("oneOf", 60) + `}`} {
		s, err := Limits{MaxTime: time.Millisecond}.Compile([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		err = s.Validate([]byte(`"x"`))
		if !errors.Is(err, ErrTooSlow) || !errors.Is(err, ErrLimit) {
			t.Errorf("%v, want ErrTooSlow", err)
		}
	}
}

func TestShortValidationsIgnoreTheTimeLimit(t *testing.T) {
	s, err := Limits{MaxTime: time.Nanosecond}.Compile([]byte(`{"type":"string"}`))
	if err != nil {
		t.Fatal(err)
	}
	var invalid *ValidationError
	if err := s.Validate([]byte(`1`)); !errors.As(err, &invalid) {
		t.Errorf("%v, want a *ValidationError: a short check never looks at the clock", err)
	}
}

func ExampleLimits_Compile() {
	_, err := Limits{MaxDepth: 2}.Compile([]byte(`{"items": {"items": {"type": "string"}}}`))
	fmt.Println(err)
	// Output: schema: limit exceeded: depth of subschemas must be at most 2
}
