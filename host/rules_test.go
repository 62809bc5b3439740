package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// tool returns a request to call a tool, with the scopes of its caller.
func tool(server, name string, scopes ...string) *host.Request {
	return &host.Request{Method: mcp.MethodCallTool, Server: server, Kind: host.KindTool, Name: name, Caller: &auth.Info{Scopes: scopes}}
}

func TestFirstRuleThatMatchesDecides(t *testing.T) {
	rules := host.Rules{
		Version: "7",
		Rules: []host.Rule{
			{Server: "files", Tool: "write_*", Scope: "write", Action: host.Allow},
			{Server: "files", Tool: "write_*", Action: host.Ask},
			{Server: "fi*s", Tool: "*", Action: host.Allow, Reason: "reading is fine"},
			{Resource: "file:///public/*", Action: host.Allow},
			{Server: "all", Action: host.Allow},
		},
	}
	resource := func(uri string) *host.Request {
		return &host.Request{Method: mcp.MethodReadResource, Server: "files", Kind: host.KindResource, Name: uri, Caller: &auth.Info{}}
	}
	for _, test := range []struct {
		r      *host.Request
		want   host.Action
		reason string
	}{
		{tool("files", "write_file", "write"), host.Allow, "rule 1 of the policy"},
		{tool("files", "write_file"), host.Ask, "rule 2 of the policy"},
		{tool("files", "read_file"), host.Allow, "reading is fine"},
		{tool("other", "read_file"), host.Deny, "no rule of the policy matches"},
		{tool("all", "anything"), host.Allow, "rule 5 of the policy"},
		{resource("file:///public/a/b"), host.Allow, "rule 4 of the policy"},
		{resource("file:///private"), host.Deny, "no rule of the policy matches"},
	} {
		d, err := rules.Decide(t.Context(), test.r)
		if err != nil || d.Action != test.want || d.Reason != test.reason || d.Version != "7" {
			t.Errorf("%v: %+v, %v; want %v because %s", test.r, d, err, test.want, test.reason)
		}
	}
	rules.Default = host.Allow
	if d, err := rules.Decide(t.Context(), tool("other", "x")); err != nil || d.Action != host.Allow {
		t.Errorf("default: %+v, %v", d, err)
	}
	if d, err := (host.Rules{}).Decide(t.Context(), tool("other", "x")); err != nil || d.Action != host.Deny {
		t.Errorf("no rules: %+v, %v", d, err)
	}
}

// Reads, subscriptions and completions are decided alike. A pattern that allows matches no URI that may lead out of it,
// and patterns that deny or ask match every form of a URI.
func TestPatternsOfURIsCannotBeLeft(t *testing.T) {
	rules := host.Rules{Rules: []host.Rule{
		{Resource: "file:///public/secret/*", Action: host.Deny},
		{Resource: "file:///public/asked/*", Action: host.Ask},
		{Resource: "file:///public/*", Action: host.Allow},
		{Resource: "an odd uri", Action: host.Allow},
		{Resource: "odd *", Action: host.Allow},
		{Resource: "note://{id}", Action: host.Allow},
	}}
	for uri, want := range map[string]host.Action{
		"file:///public/a":                     host.Allow,
		"FILE:///public/a%20b":                 host.Allow,
		"file:///public/../etc/passwd":         host.Deny,
		"file:///public/%2e%2e/etc/passwd":     host.Deny,
		"file:///public/..%2fetc%2fpasswd":     host.Deny,
		"file:///public/%252e%252e/etc/passwd": host.Deny,
		`file:///public/..\etc\passwd`:         host.Deny,
		"file:///public/a b":                   host.Deny,
		"file:///public/%zz":                   host.Deny,
		"file:///public/%73ecret/a":            host.Deny,
		"file:/public//secret/a":               host.Deny,
		"file:///public/x/../secret/a":         host.Deny,
		"file:///public/%61sked/a":             host.Ask,
		"file:///public/x/../asked/a":          host.Ask,
		"an odd uri":                           host.Allow,
		"odd uri":                              host.Deny,
	} {
		for _, method := range []string{mcp.MethodReadResource, mcp.MethodSubscribe, mcp.MethodComplete} {
			d, err := rules.Decide(t.Context(), &host.Request{Method: method, Kind: host.KindResource, Name: uri, Arguments: json.RawMessage("{}"), Caller: new(auth.Info)})
			if err != nil || d.Action != want {
				t.Errorf("%s %s: %v %v, want %v", method, uri, d, err, want)
			}
		}
	}
	for _, c := range []struct {
		template, values string
		want             host.Action
	}{
		{"file:///public/{dir}/{name}", `{"dir":"a","name":""}`, host.Allow},
		{"file:///public/{dir}/{name}", `{"dir":"..","name":"etc"}`, host.Deny},
		{"file:///public/{+path}", `{"path":"../../etc/"}`, host.Deny},
		{"file:///public/{dir}/{name}", `{"dir":"secret","name":""}`, host.Deny},
		{"note://{id}", `{"id":"1"}`, host.Allow},
		{"note://{id}", `{"id":"../x"}`, host.Deny},
	} {
		r := &host.Request{Method: mcp.MethodComplete, Kind: host.KindResource, Name: c.template, Arguments: json.RawMessage(c.values), Caller: new(auth.Info)}
		if d, err := rules.Decide(t.Context(), r); err != nil || d.Action != c.want {
			t.Errorf("completion for %s with %s: %v %v, want %v", c.template, c.values, d, err, c.want)
		}
		if rules.Hides(r.Caller.Principal)(&host.Request{Method: mcp.MethodReadResource, Kind: host.KindResource, Name: c.template, Caller: r.Caller}) {
			t.Errorf("the template %s is hidden", c.template)
		}
	}
}

func TestStarInAPatternMatchesAnyText(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "a/b", true}, {"a*", "a", true}, {"a*", "ba", false},
		{"*a", "ba", true}, {"*a", "ab", false}, {"a*b*c", "a-b-b-c", true}, {"a*b*c", "a-c-b", false}, {"a*a", "a", false}, {"**", "x", true},
		{"a*bc", "abcbc", true}, {"[a]", "a", false}, {"?", "a", true}, {"?", "ab", false},
	} {
		rules := host.Rules{Rules: []host.Rule{{Tool: test.pattern, Action: host.Allow}}}
		d, err := rules.Decide(t.Context(), tool("s", test.text))
		if got := d.Action == host.Allow; err != nil || got != test.want {
			t.Errorf("pattern %q, text %q: %v, %v; want %v", test.pattern, test.text, got, err, test.want)
		}
	}
}

func TestConditionThatFailsIsAnErrorOfTheRules(t *testing.T) {
	fails := errors.New("no such key")
	rules := host.Rules{Default: host.Allow, Rules: []host.Rule{
		{When: func(context.Context, *host.Request) (bool, error) { return false, nil }, Action: host.Deny},
		{When: func(context.Context, *host.Request) (bool, error) { return true, fails }, Action: host.Allow},
	}}
	if d, err := rules.Decide(t.Context(), tool("s", "x")); !errors.Is(err, fails) || d.Action != host.Deny {
		t.Errorf("%+v, %v", d, err)
	}
}
