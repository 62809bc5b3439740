package digest_test

import (
	"testing"

	"github.com/parley-mcp/parley/internal/digest"
)

// The example of RFC 7636, appendix B.
func TestOfEncodesAsRFC7636Does(t *testing.T) {
	got := digest.Of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
	if got != "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM" || len(got) != digest.Len {
		t.Errorf("%q", got)
	}
}

func TestJoinDistinguishesListsOfParts(t *testing.T) {
	lists := [][]string{nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"b", "a"}, {"1:a"}, {"a1:b"}, {"a", "1:b"}, {"ab", ""}, {"", "ab"}}
	seen := make(map[string][]string)
	for _, list := range lists {
		var parts [][]byte
		for _, p := range list {
			parts = append(parts, []byte(p))
		}
		d := digest.Join(parts...)
		if other, ok := seen[d]; ok || len(d) != digest.Len {
			t.Errorf("%q and %q have the digest %s", list, other, d)
		}
		seen[d] = list
	}
}
