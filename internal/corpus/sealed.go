package corpus

import (
	"fmt"
	"strings"
	"testing"
)

// base64URL contains the characters of unpadded base64url (RFC 4648, section 5).
const base64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Sealed returns the cases for a sealed value in base64url: the cases of rules/sealed, and generated cases in
// which a bit of a character is flipped or the value ends early.
func Sealed(t testing.TB, value string) []Case {
	t.Helper()
	cases := Cases(t, "rules/sealed")
	for i := range len(value) {
		index := strings.IndexByte(base64URL, value[i])
		if index < 0 {
			t.Fatalf("a sealed value must be in base64url: %q", value)
		}
		changed := value[:i] + string(base64URL[index^1<<(i%6)]) + value[i+1:]
		cases = append(cases,
			Generated(fmt.Sprintf("character %d changed", i), `"`+changed+`"`, "rejected"),
			Generated(fmt.Sprintf("cut to %d characters", i), `"`+value[:i]+`"`, "rejected"),
			Generated(fmt.Sprintf("without the first %d characters", i+1), `"`+value[i+1:]+`"`, "rejected"))
	}
	return cases
}
