package jsonscan

import (
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/internal/must"
)

func TestIntegersHaveTheirExactValueInEverySpelling(t *testing.T) {
	for literal, want := range map[string]int64{
		"0": 0, "-0": 0, "0.0": 0, "-0.00e99999999999999999999": 0, "60000": 60000, "60000.0": 60000, "6e4": 60000,
		"6E+4": 60000, "0.6e5": 60000,
		"600000e-1": 60000, "-1.50e1": -15, "9007199254740993.0": 9007199254740993,
		"9223372036854775807":     9223372036854775807,
		"9.223372036854775807e18": 9223372036854775807, "-9223372036854775808.0": -9223372036854775808,
		"0.0000000000000000000000001e25": 1,
	} {
		got, ok := Integer([]byte(literal))
		must.CheckThat(t, ok && got == want, "%s: %d, %v, want %d", literal, got, ok, want)
	}
	for _, literal := range []string{"1.5", "15e-1", "1e-1", "9223372036854775808", "9223372036854775808.0",
		"-9223372036854775809", "1e19", "1e400",
		"1e99999999999999999999", "1e-99999999999999999999", "1e9223372036854775807", "0.1e-9223372036854775808",
		"1e2147483647", "0.1e-2147483648", "", `"1"`, "true", "null", "-"} {
		got, ok := Integer([]byte(literal))
		must.CheckThat(t, !ok, "%q: %d", literal, got)
	}
}

func TestIntegersAgreeWithRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		literal := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,12})?`).Draw(t, "mantissa") +
			rapid.SampledFrom([]string{"", "", "e", "E+", "e-"}).Draw(t, "sign")
		if last := literal[len(literal)-1]; last < '0' || last > '9' {
			literal += fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "exponent"))
		}
		want, ok := new(big.Rat).SetString(literal)
		must.That(t, ok, "%s is no number", literal)
		fits := want.IsInt() && want.Num().IsInt64()
		if got, ok := Integer([]byte(literal)); ok != fits || ok && got != want.Num().Int64() {
			t.Fatalf("%s: %d, %v, want %v", literal, got, ok, want)
		}
	})
}
