package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/policy"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// compile compiles the policy with the given JSON.
func compile(t *testing.T, text string) (host.Rules, error) {
	t.Helper()
	c, err := config.Parse("/", "mcp.json", []byte(text))
	if err != nil {
		return host.Rules{}, err
	}
	return policy.Compile(c.Policies[0])
}

// request returns a call of a tool by ada.
func request(t *testing.T, arguments string) *host.Request {
	ada := must.Get(principal.New("https://as.example", "ada", "editor"))(t)
	return &host.Request{
		Method: mcp.MethodCallTool, Server: "files", Kind: "tool", Name: "write_file",
		Arguments: json.RawMessage(arguments),
		Tool:      &mcp.Tool{Name: "write_file", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		Caller:    &auth.Info{Principal: ada, Scopes: []string{"read", "write"}},
	}
}

func TestConditionsUseTheRequest(t *testing.T) {
	const arguments = `{"path":"/tmp/a/../b","n":9007199254740993,"list":["a",{"b":1.5}],"on":true,"none":null,` +
		`"huge":18446744073709551615,"float":5.0,"dots":"/tmp/../etc"}`
	for when, want := range map[string]bool{
		`args.path.startsWith('/tmp')`:                         true,
		`args.dots.within('/tmp')`:                             false,
		`args.path.within('/tmp/')`:                            true,
		`args.path.within('/tm')`:                              false,
		`'tmp/a'.within('tmp')`:                                false,
		`'file:///tmp/a'.within('file:///tmp')`:                true,
		`'FILE://localhost/%74mp/a'.within('file:///tmp')`:     true,
		`'file:///tmpa'.within('file:///tmp')`:                 false,
		`name.within('file:///tmp')`:                           false,
		`'C:/a'.within('C:/')`:                                 false,
		`'/tmp'.within('/tmp') && '/x'.within('/')`:            true,
		`args.n == 9007199254740993`:                           true,
		`args.n == 9007199254740992`:                           false,
		`args.huge > 18446744073709551614u`:                    true,
		`args.float == 5 && args.n > 1.5`:                      true,
		`args.list[0] == 'a' && args.list[1].b > 1`:            true,
		`args.on && args.none == null && !has(args.other)`:     true,
		`server == 'files' && kind == 'tool'`:                  true,
		`method == 'tools/call' && name.endsWith('_file')`:     true,
		`annotations.readOnlyHint`:                             true,
		`principal.issuer == 'https://as.example'`:             true,
		`principal.subject == 'ada' && principal.client != ''`: true,
		`'write' in scopes && !('admin' in scopes)`:            true,
		`scopes.exists(s, s == 'admin')`:                       false,
		`name.matches('^(read|write)_')`:                       true,
		`size(args.list) == 2 && args.list.all(x, x != 'c')`:   true,
		`has(annotations.openWorldHint)`:                       false,
		`type(args.n) == int && string(args.on) == "true"`:     true,
	} {
		quoted, _ := json.Marshal(when)
		rules, err := compile(t, `{"policy":{"default":"deny","rules":[{"when":`+string(quoted)+`,"action":"allow"}]}}`)
		if err != nil {
			t.Errorf("%s: %v", when, err)
			continue
		}
		d := must.Get(rules.Decide(t.Context(), request(t, arguments)))(t)
		must.CheckEqual(t, d.Action == host.Allow, want, when, d.Action)
	}
}

func TestConditionWithoutAResultIsAnError(t *testing.T) {
	for when, want := range map[string]string{
		`args.missing == 1`: "no such key: missing",
		`args.path`:         "must be true or false",
		`'file:///tmp/../etc'.within('file:///tmp')`: "must not have dot segments",
		`'/tmp/a'.within('file:///tmp')`:             "cannot compare the URI",
		`[1,2,3,4,5,6,7,8,9,10].all(a,[1,2,3,4,5,6,7,8,9,10].all(b,[1,2,3,4,5,6,7,8,9,10].all(c,[1,2,3,4,5,6,7,8,9,` +
			`10].all(d,[1,2,3,4,5,6,7,8,9,10].all(e,a+b+c+d+e<99)))))`: "cost",
	} {
		rules, err := compile(t, `{"policy":{"default":"allow","rules":[{"when":"`+when+`","action":"allow"}]}}`)
		must.Do(t, err)
		if d, err := rules.Decide(t.Context(), request(t, `{"path":"x"}`)); err == nil || d.Action != host.Deny ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %+v, %v", when, d, err)
		}
	}
	rules, err := compile(t,
		`{"policy":{"default":"allow","rules":[{"when":"[1,2,3,4,5,6,7,8,9,10].all(a,[1,2,3,4,5,6,7,8,9,10].all(b,[1,`+
			`2,3,4,5,6,7,8,9,10].all(c,a+b+c<99)))","action":"allow"}]}}`)
	must.Do(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rules.Decide(ended, request(t, `{}`)); err == nil {
		t.Error("a condition is evaluated after the end of its context")
	}
}

func TestErrorsOfAPolicyNameLineAndRule(t *testing.T) {
	for text, want := range map[string]string{
		`{"policy":{"default":"deny","rules":[
			{"tool":"a","action":"allow"},
			{"tool":"b","action":"allow","when":"args.x ="}
		]}}`: `mcp.json:3: policy.rules[1].when: cannot compile the condition: column `,
		"{\"policy\":{\"default\":\"deny\",\"rules\":[\n{\"when\":\"nothing == 1\"," +
			"\"action\":\"deny\"}]}}": "mcp.json:2: policy.rules[0].when: cannot compile the condition: column 1: " +
			"undeclared reference to 'nothing'",
		"{\"policy\":{\"default\":\"deny\",\"rules\":[\n{\"when\":\"1 + 1\"," +
			"\"action\":\"deny\"}]}}": "mcp.json:2: policy.rules[0].when: the condition must be true or false, not " +
			"of type int",
		`{"policy":{"rules":[]}}`: `mcp.json:1: policy: "default" is ` +
			`missing`,
		`{"policy":{"default":"maybe"}}`: `policy.default must be "allow", ` +
			`"ask" or "deny", not "maybe"`,
		`{"policy":{"default":"deny","rules":[{"tool":"a"}]}}`:                `policy.rules[0]: "action" is missing`,
		`{"policy":{"default":"deny","rules":[{"tol":"a","action":"deny"}]}}`: `policy.rules[0].tol is unknown`,
		`{"policy":{"default":"deny","rule":[]}}`:                             `policy.rule is unknown`,
		`{"policy":{"default":"deny","rules":[{"tool":"","action":"deny"}]}}`: `policy.rules[0].tool must not be empty`,
		`{"policy":{"default":"deny","rules":{}}}`:                            `policy.rules must be an array`,
		`{"policy":{"default":"deny","approvalTimeout":"soon"}}`: `policy.approvalTimeout must be a ` +
			`positive duration`,
		`{"policy":[]}`: `policy must be an object`,
	} {
		must.CheckFails(t, must.Err(compile(t, text)), want, text)
	}
}

func TestVersionOfAPolicyWithoutOneIsADigest(t *testing.T) {
	version := func(text string) string {
		rules := must.Get(compile(t, text))(t)
		return rules.Version
	}
	must.CheckEqual(t, version(`{"policy":{"version":"7","default":"deny"}}`), "7")
	must.CheckEqual(t, version(`{"policy":{"version":7,"default":"deny"}}`), "7")
	a, b := version(`{"policy":{"default":"deny"}}`), version(`{"policy":{"default":"ask"}}`)
	must.CheckThat(t, a != b && len(a) == 12 && a == version(`{"mcpServers":{},"policy":{"default":"deny"}}`),
		"versions %q and %q", a, b)
}

// A condition that uses neither arguments nor scopes can hide entries from lists.
func TestConditionsWithoutArgumentsDecideLists(t *testing.T) {
	for when, want := range map[string]bool{
		`principal.subject == 'ada'`:                              true,
		`server == 'files' && annotations.readOnlyHint`:           true,
		`name.matches('^a') || method == 'x' || kind == 'prompt'`: true,
		`args.path == '/tmp'`:                                     false,
		`name == 'a' && size(args) > 0`:                           false,
		`'read' in scopes`:                                        false,
		`[1].exists(x, has(args.a))`:                              false,
	} {
		quoted, _ := json.Marshal(when)
		rules, err := compile(t, `{"policy":{"default":"deny","rules":[{"when":`+string(quoted)+`,"action":"allow"}]}}`)
		must.CheckThat(t, err == nil && rules.Rules[0].WhenForLists == want, "%s: %v, %v", when, rules.Rules, err)
	}
}

// Rule O18: conditions see the claims of the caller, whatever their names and depth are, and the audit log learns which.
func TestConditionsUseTheClaimsOfTheCaller(t *testing.T) {
	const claims = `{"department":"finance","level":7,"realm_access":{"roles":["admin","user"]},` +
		`"https://example.com/team":"blue","active":true,"nested":{"a":{"b":["c"]}},"cnf":{"jkt":"x"}}`
	for _, tc := range []struct {
		when  string
		want  bool
		fails bool
		names string
	}{
		{`caller.claims.department == 'finance'`, true, false, "department"},
		{`'admin' in caller.claims.realm_access.roles`, true, false, "realm_access.roles"},
		{`caller.claims.realm_access.roles.exists(r, r.startsWith('adm'))`, true, false, "realm_access.roles"},
		{`caller.claims["realm_access"]["roles"][0] == 'admin'`, true, false, "realm_access.roles"},
		{`caller.claims['https://example.com/team'] == 'blue'`, true, false, "https://example.com/team"},
		{`has(caller.claims.missing) || caller.claims.level > 6`, true, false, "missing level"},
		{`caller.claims.level == 8`, false, false, "level"},
		{`caller.claims.nested.a.b[0] == 'c' && caller.claims.active`, true, false, "nested.a.b active"},
		{`size(caller.claims) > 3`, true, false, "*"},
		{`caller.claims[args.name] == 'finance'`, true, false, "*"},
		{`has(caller.claims.department)`, true, false, "department"},
		{`caller.claims.missing == 'x'`, false, true, "missing"},
		{`caller.claims.department.x == 'x'`, false, true, "department.x"},
		{`caller.name == 'x'`, false, true, "*"},
		{`principal.subject == 'ada'`, true, false, ""},
	} {
		quoted, _ := json.Marshal(tc.when)
		rules, err := compile(t, `{"policy":{"default":"deny","rules":[{"when":`+string(quoted)+`,"action":"allow"}]}}`)
		if err != nil {
			t.Errorf("%s: %v", tc.when, err)
			continue
		}
		if rule := rules.Rules[0]; strings.Join(rule.Claims, " ") != tc.names || rule.WhenForLists != (tc.names == "") {
			t.Errorf("%s: claims %q, for lists %t", tc.when, rule.Claims, rule.WhenForLists)
		}
		r := request(t, `{"name":"department"}`)
		r.Caller.Claims = json.RawMessage(claims)
		d, err := rules.Decide(t.Context(), r)
		must.CheckThat(t, (err != nil) == tc.fails && (d.Action == host.Allow) == tc.want &&
			(!tc.want || strings.Join(d.Claims, " ") == tc.names), "%s: %+v, %v", tc.when, d, err)
	}
	unless, err := compile(t, `{"policy":{"default":"allow","rules":[`+
		`{"when":"has(caller.claims.contractor)","action":"deny"}]}}`)
	must.Do(t, err)
	for name, tc := range map[string]struct {
		caller *auth.Info
		fails  bool
	}{
		"anonymous":                        {new(auth.Info), false},
		"authenticated, claims not known":  {&auth.Info{Principal: request(t, "{}").Caller.Principal}, true},
		"authenticated, without the claim": {&auth.Info{Claims: json.RawMessage(`{"sub":"ada"}`)}, false},
	} {
		r := request(t, "{}")
		r.Caller = tc.caller
		d, err := unless.Decide(t.Context(), r)
		must.CheckThat(t, (err != nil) == tc.fails && (d.Action == host.Allow) != tc.fails, "%s: %+v, %v", name, d, err)
	}
}

// A rule names groups without a condition.
func TestRulesOfAFileNameGroups(t *testing.T) {
	rules, err := compile(t, `{"policy":{"default":"deny","groupsFrom":["team","groups"],"rules":[
		{"group":"finance-*","tool":"write_*","action":"allow"},
		{"group":["audit","ops"],"tool":"*","action":"ask"}]}}`)
	must.Do(t, err)
	for claims, want := range map[string]string{
		`{"groups":["finance-eu"]}`: "allow finance-eu [groups]", `{"team":"ops"}`: "ask ops [team]",
		`{"groups":["x"]}`: "deny  []", `{"team":["x"],"groups":["audit"]}`: "deny  []",
	} {
		r := request(t, `{}`)
		r.Caller.Claims = json.RawMessage(claims)
		d, err := rules.Decide(t.Context(), r)
		got := fmt.Sprint(d.Action, " ", d.Group, " ", d.Claims)
		must.CheckThat(t, err == nil && got == want, "%s: %s, %v, want %s", claims, got, err, want)
	}
	for text, want := range map[string]string{
		`"rules":[{"group":"","action":"deny"}]`:       "policy.rules[0].group must not be empty",
		`"rules":[{"group":[],"action":"deny"}]`:       "policy.rules[0].group must not be empty",
		`"rules":[{"group":["a",""],"action":"deny"}]`: "policy.rules[0].group[1] must not be empty",
		`"rules":[{"group":7,"action":"deny"}]`:        "policy.rules[0].group must be a string",
		`"rules":[{"group":null,"action":"deny"}]`:     "policy.rules[0].group must be a string",
		`"rules":[{"groups":["a"],"action":"deny"}]`:   "policy.rules[0].groups is unknown",
		`"groupsFrom":[]`:                              "policy.groupsFrom must not be empty",
	} {
		must.CheckFails(t, must.Err(compile(t, `{"policy":{"default":"deny",`+text+`}}`)), want, text)
	}
}

// Rules decide about the requests of servers by method, server and parameters.
func TestRulesMatchRequestsOfServers(t *testing.T) {
	rules, err := compile(t, `{"policy":{"default":"deny","rules":[
		{"tool":"*","action":"allow"},
		{"method":"sampling/createMessage","server":"fi*","when":"args.maxTokens <= 1000 && !has(args.tools)","action":"ask"},
		{"method":"elicitation/*","when":"args.mode == 'form' || args.url.startsWith('https://example.com/')","action":"allow"},
		{"when":"kind == 'roots'","action":"allow"}]}}`)
	must.Do(t, err)
	for _, c := range []struct {
		method    string
		kind      host.Kind
		arguments string
		want      host.Action
	}{
		{mcp.MethodCreateMessage, "sampling", `{"maxTokens":1000}`, host.Ask},
		{mcp.MethodCreateMessage, "sampling", `{"maxTokens":1001}`, host.Deny},
		{mcp.MethodCreateMessage, "sampling", `{"maxTokens":1,"tools":[]}`, host.Deny},
		{mcp.MethodElicit, "elicitation", `{"mode":"form","message":"m"}`, host.Allow},
		{mcp.MethodElicit, "elicitation", `{"mode":"url","url":"https://example.com/a"}`, host.Allow},
		{mcp.MethodElicit, "elicitation", `{"mode":"url","url":"https://example.org/a"}`, host.Deny},
		{mcp.MethodListRoots, "roots", `{}`, host.Allow},
		{mcp.MethodCallTool, "tool", `{}`, host.Allow},
		{mcp.MethodGetPrompt, "prompt", `{}`, host.Deny},
	} {
		r := request(t, c.arguments)
		r.Method, r.Kind, r.Name, r.Tool, r.Arguments = c.method, c.kind, "", nil, json.RawMessage(c.arguments)
		must.CheckEqual(t, must.Get(rules.Decide(t.Context(), r))(t).Action, c.want, c.method, c.arguments)
	}
}
