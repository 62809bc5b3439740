package host_test

import (
	"context"
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
