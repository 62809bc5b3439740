package challenge_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/must"
)

type params = map[string]string

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		want    []challenge.Challenge
	}{
		"nothing":       {nil, nil},
		"empty":         {[]string{"", " , ,"}, nil},
		"only a scheme": {[]string{"Bearer"}, []challenge.Challenge{{Scheme: "Bearer"}}},
		"parameters": {[]string{`Bearer realm="a b", Scope=x`},
			[]challenge.Challenge{{Scheme: "Bearer", Params: params{"realm": "a b", "scope": "x"}}}},
		"escaped characters": {[]string{`Bearer realm="a\"b\\"`},
			[]challenge.Challenge{{Scheme: "Bearer", Params: params{"realm": `a"b\`}}}},
		"comma in quotes": {[]string{`Bearer realm="a, Basic b=c"`},
			[]challenge.Challenge{{Scheme: "Bearer", Params: params{"realm": "a, Basic b=c"}}}},
		"spaces around =": {[]string{`Bearer realm = "a"`},
			[]challenge.Challenge{{Scheme: "Bearer", Params: params{"realm": "a"}}}},
		"unquoted URL": {[]string{`Bearer resource_metadata=https://a.example/b?c=d, error=x`},
			[]challenge.Challenge{{Scheme: "Bearer", Params: params{"resource_metadata": "https://a.example/b?c=d",
				"error": "x"}}}},
		"two in one header": {[]string{`Basic realm="a", DPoP algs="ES256"`},
			[]challenge.Challenge{{Scheme: "Basic", Params: params{"realm": "a"}},
				{Scheme: "DPoP", Params: params{"algs": "ES256"}}}},
		"two headers":     {[]string{`Basic`, `DPoP`}, []challenge.Challenge{{Scheme: "Basic"}, {Scheme: "DPoP"}}},
		"list of schemes": {[]string{`Basic, DPoP`}, []challenge.Challenge{{Scheme: "Basic"}, {Scheme: "DPoP"}}},
		"token68": {[]string{`Negotiate abc/d==, Bearer`},
			[]challenge.Challenge{{Scheme: "Negotiate", Token68: "abc/d=="}, {Scheme: "Bearer"}}},
		"empty elements": {[]string{`Bearer ,, a="b",,c=d`},
			[]challenge.Challenge{{Scheme: "Bearer", Params: params{"a": "b", "c": "d"}}}},
		"repeated parameter":  {[]string{`Bearer scope=a, SCOPE=b`}, nil},
		"unterminated string": {[]string{`Basic, Bearer realm="a`}, []challenge.Challenge{{Scheme: "Basic"}}},
		"no value":            {[]string{`Bearer x="y", realm=, z=a`}, nil},
		"quoted name":         {[]string{`Bearer "realm"=x`}, nil},
		"too many": {[]string{strings.Repeat("A,", 40)},
			slices.Repeat([]challenge.Challenge{{Scheme: "A"}}, 16)},
		"too long": {[]string{"Basic", "Bearer realm=" + strings.Repeat("x", 16<<10)},
			[]challenge.Challenge{{Scheme: "Basic"}}},
	} {
		must.CheckEqual(t, cmp.Diff(c.want, challenge.Parse(c.headers)), "", name, c.headers)
	}
}

func FuzzWWWAuthenticate(f *testing.F) {
	for _, seed := range []string{
		`Bearer realm="a\"b", scope=x`, `Basic, DPoP algs="ES256"`, `Negotiate abc==`, `Bearer a="`,
		"Bearer resource_metadata=https://a.example/b?c=d",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		for _, c := range challenge.Parse([]string{header}) {
			if strings.ContainsAny(header, "\x00\n\r") ||
				strings.ContainsFunc(header, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7F }) {
				return // a response header cannot contain these characters
			}
			again := challenge.Parse([]string{c.String()})
			must.Equal(t, len(again), 1, c, header)
			must.Equal(t, cmp.Diff(c, again[0]), "", c, header)
		}
	})
}

func TestUnionKeepsTheOrder(t *testing.T) {
	got := challenge.Union([]string{"b", "a"}, nil, []string{"a", "c", "b"})
	must.CheckThat(t, slices.Equal(got, []string{"b", "a", "c"}), "%q", got)
	if got := challenge.Union(nil, nil); got != nil {
		t.Errorf("%q", got)
	}
}

func TestCheckScopes(t *testing.T) {
	for scope, want := range map[string]bool{
		"mcp": true, "files:read": true, "https://example.com/a": true, "!": true,
		"": false, "a b": false, `a"b`: false, `a\b`: false, "\u00e9": false, "a\n": false, "offline_access": false,
	} {
		err := challenge.CheckScopes([]string{"ok", scope})
		must.CheckThat(t, (err == nil) == want, "%q: %v", scope, err)
	}
}

type requestContext struct {
	context.Context
	missing challenge.Missing
}

func (r *requestContext) Value(key any) any {
	if _, ok := key.(challenge.MissingKey); ok {
		return &r.missing
	}
	return r.Context.Value(key)
}

func TestMissingScopesAreCollectedPerRequest(t *testing.T) {
	challenge.AddMissing(t.Context(), []string{"a"}) // no request
	got := challenge.MissingScopes(t.Context())
	must.CheckThat(t, got == nil, "without a request: %q", got)
	ctx := context.WithoutCancel(&requestContext{Context: t.Context()})
	var calls sync.WaitGroup
	for _, scope := range []string{"a", "b", "a"} {
		calls.Go(func() { challenge.AddMissing(ctx, []string{scope, "c"}) })
	}
	calls.Wait()
	if got := slices.Sorted(slices.Values(challenge.MissingScopes(ctx))); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q", got)
	}
}

func TestChallengesOfTheCorpus(t *testing.T) {
	names := []string{"none", "one", "two"}
	for _, c := range corpus.Cases(t, "rules/challenges") {
		all := challenge.Parse([]string{c.Text(t)})
		if len(all) >= len(names) || names[len(all)] != c.Want() {
			t.Errorf("%s: %s: %q, want %s", c.Place, c.Name, all, c.Want())
		}
	}
}
