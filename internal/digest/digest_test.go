package digest_test

import (
	"testing"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/must"
)

// The example of RFC 7636, appendix B.
func TestOfEncodesAsRFC7636Does(t *testing.T) {
	got := digest.Of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
	must.CheckEqual(t, got, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
	must.CheckEqual(t, len(got), digest.Len)
}

func TestJoinDistinguishesListsOfParts(t *testing.T) {
	lists := [][]string{nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"b", "a"}, {"1:a"}, {"a1:b"}, {"a", "1:b"},
		{"ab", ""}, {"", "ab"}}
	seen := make(map[string][]string)
	for _, list := range lists {
		var parts [][]byte
		for _, p := range list {
			parts = append(parts, []byte(p))
		}
		d := digest.Join(parts...)
		other, ok := seen[d]
		must.CheckThat(t, !ok && len(d) == digest.Len, "%q and %q have the digest %s", list, other, d)
		seen[d] = list
	}
}

func TestCanonicalKeepsTheValue(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":[2,"x"]}`, " { \"b\" : [ 2, \"\\u0078\" ], \"a\" : 1 }\n", true},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{`{"a":1}`, `{"a":"1"}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`0.1`, `0.10000000000000001`, false},
		{`null`, ``, false},
	} {
		a := must.Get(digest.Canonical([]byte(tt.a)))(t)
		b, _ := digest.Canonical([]byte(tt.b))
		must.CheckEqual(t, string(a) == string(b), tt.same, tt.a, tt.b, a, b)
	}
}
