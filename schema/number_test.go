package schema

import (
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

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
