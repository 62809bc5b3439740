package auth_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/auth"
)

type params = map[string]string

func ExampleParseChallenges() {
	for _, c := range auth.ParseChallenges([]string{`Bearer scope="files:read", resource_metadata="https://mcp.example/meta"`}) {
		fmt.Println(c.Scheme, c.Params["scope"])
	}
	// Output: Bearer files:read
}

func TestChallengesAreReadAsTheyAreWritten(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		want    []auth.Challenge
	}{
		"nothing":           {nil, nil},
		"empty":             {[]string{"", " , ,"}, nil},
		"a scheme alone":    {[]string{"Bearer"}, []auth.Challenge{{Scheme: "Bearer"}}},
		"parameters":        {[]string{`Bearer realm="a b", Scope=x`}, []auth.Challenge{{Scheme: "Bearer", Params: params{"realm": "a b", "scope": "x"}}}},
		"an escape":         {[]string{`Bearer realm="a\"b\\"`}, []auth.Challenge{{Scheme: "Bearer", Params: params{"realm": `a"b\`}}}},
		"a comma inside":    {[]string{`Bearer realm="a, Basic b=c"`}, []auth.Challenge{{Scheme: "Bearer", Params: params{"realm": "a, Basic b=c"}}}},
		"space at equals":   {[]string{`Bearer realm = "a"`}, []auth.Challenge{{Scheme: "Bearer", Params: params{"realm": "a"}}}},
		"an unquoted URL":   {[]string{`Bearer resource_metadata=https://a.example/b?c=d, error=x`}, []auth.Challenge{{Scheme: "Bearer", Params: params{"resource_metadata": "https://a.example/b?c=d", "error": "x"}}}},
		"two in a header":   {[]string{`Basic realm="a", DPoP algs="ES256"`}, []auth.Challenge{{Scheme: "Basic", Params: params{"realm": "a"}}, {Scheme: "DPoP", Params: params{"algs": "ES256"}}}},
		"two headers":       {[]string{`Basic`, `DPoP`}, []auth.Challenge{{Scheme: "Basic"}, {Scheme: "DPoP"}}},
		"schemes, a list":   {[]string{`Basic, DPoP`}, []auth.Challenge{{Scheme: "Basic"}, {Scheme: "DPoP"}}},
		"token68":           {[]string{`Negotiate abc/d==, Bearer`}, []auth.Challenge{{Scheme: "Negotiate", Token68: "abc/d=="}, {Scheme: "Bearer"}}},
		"empty elements":    {[]string{`Bearer ,, a="b",,c=d`}, []auth.Challenge{{Scheme: "Bearer", Params: params{"a": "b", "c": "d"}}}},
		"a repeated name":   {[]string{`Bearer scope=a, SCOPE=b`}, nil},
		"no end":            {[]string{`Basic, Bearer realm="a`}, []auth.Challenge{{Scheme: "Basic"}}},
		"no value":          {[]string{`Bearer x="y", realm=, z=a`}, nil},
		"quote in the name": {[]string{`Bearer "realm"=x`}, nil},
		"too many":          {[]string{strings.Repeat("A,", 40)}, slicesRepeat(auth.Challenge{Scheme: "A"}, 16)},
		"too long":          {[]string{"Basic", "Bearer realm=" + strings.Repeat("x", 16<<10)}, []auth.Challenge{{Scheme: "Basic"}}},
	} {
		if diff := cmp.Diff(c.want, auth.ParseChallenges(c.headers)); diff != "" {
			t.Errorf("%s: %q is read as (-want +got):\n%s", name, c.headers, diff)
		}
	}
}

func slicesRepeat(c auth.Challenge, n int) (all []auth.Challenge) {
	for range n {
		all = append(all, c)
	}
	return all
}

func FuzzWWWAuthenticate(f *testing.F) {
	for _, seed := range []string{
		`Bearer realm="a\"b", scope=x`, `Basic, DPoP algs="ES256"`, `Negotiate abc==`, `Bearer a="`, "Bearer resource_metadata=https://a.example/b?c=d",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		for _, c := range auth.ParseChallenges([]string{header}) {
			if strings.ContainsAny(header, "\x00\n\r") || strings.ContainsFunc(header, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7F }) {
				return // no header of a response holds these
			}
			again := auth.ParseChallenges([]string{c.String()})
			if len(again) != 1 {
				t.Fatalf("%q of %q is read as %d challenges", c, header, len(again))
			}
			if diff := cmp.Diff(c, again[0]); diff != "" {
				t.Fatalf("%q of %q is read otherwise (-want +got):\n%s", c, header, diff)
			}
		}
	})
}
