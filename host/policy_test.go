package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// tool returns a request to call a tool from a caller with the given scopes.
func tool(server, name string, scopes ...string) *host.Request {
	return &host.Request{Method: mcp.MethodCallTool, Server: server, Kind: "tool", Name: name,
		Caller: &auth.Info{Scopes: scopes}}
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
		return &host.Request{Method: mcp.MethodReadResource, Server: "files", Kind: "resource", Name: uri,
			Caller: &auth.Info{}}
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
		must.CheckThat(t, err == nil && d.Action == test.want && d.Reason == test.reason && d.Version == "7",
			"%v: %+v, %v; want %v because %s", test.r, d, err, test.want, test.reason)
	}
	rules.Default = host.Allow
	d := must.Get(rules.Decide(t.Context(), tool("other", "x")))(t)
	must.CheckEqual(t, d.Action, host.Allow, d)
	if d, err := (host.Rules{}).Decide(t.Context(), tool("other", "x")); err != nil || d.Action != host.Deny {
		t.Errorf("no rules: %+v, %v", d, err)
	}
}

// Reads, subscriptions and completions follow the same rules. A pattern that allows does not match a URI that may lead
// elsewhere, and a pattern that denies or asks matches every spelling of a URI.
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
			d, err := rules.Decide(t.Context(), &host.Request{Method: method, Kind: "resource", Name: uri,
				Arguments: json.RawMessage("{}"), Caller: new(auth.Info)})
			must.Do(t, err)
			must.CheckEqual(t, d.Action, want, method, uri, d)
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
		r := &host.Request{Method: mcp.MethodComplete, Kind: "resource", Name: c.template,
			Arguments: json.RawMessage(c.values), Caller: new(auth.Info)}
		d := must.Get(rules.Decide(t.Context(), r))(t)
		must.CheckEqual(t, d.Action, c.want, c.template, c.values, d)
		must.CheckThat(t, !rules.Hides(r.Caller.Principal)(&host.Request{Method: mcp.MethodReadResource,
			Kind: "resource", Name: c.template, Caller: r.Caller}), "the template %s is hidden", c.template)
	}
}

func TestStarInAPatternMatchesAnyText(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "a/b", true}, {"a*", "a", true},
		{"a*", "ba", false},
		{"*a", "ba", true}, {"*a", "ab", false}, {"a*b*c", "a-b-b-c", true}, {"a*b*c", "a-c-b", false},
		{"a*a", "a", false}, {"**", "x", true},
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
	d, err := rules.Decide(t.Context(), tool("s", "x"))
	must.CheckThat(t, errors.Is(err, fails) && d.Action == host.Deny, "%+v, %v", d, err)
}

func TestQuestionShowsAllMembersOfArgumentsWithMuchWhiteSpace(t *testing.T) {
	space := strings.Repeat(" ", 8<<10)
	for arguments, want := range map[string]string{
		`{"text":"x",` + space + `"path":"/etc"}`: `{"path":"/etc","text":"x"}`,
		`{"b":1,"a":9007199254740993}`:            `{"a":9007199254740993,"b":1}`,
		`{"a":"x\u202ey"}`:                        `{"a":"x<U+202E>y"}`,
	} {
		a := host.Approval{Request: &host.Request{Kind: "tool", Name: "write", Server: "up",
			Arguments: json.RawMessage(arguments)}}
		must.CheckEqual(t, a.Question(), "Allow the tool \"write\" of the server \"up\"?\n\nArguments: "+want,
			arguments)
	}
}

// A question shortens values, but leaves out no key and no element.
func TestQuestionShowsAllMembersOfLongArguments(t *testing.T) {
	var many []string
	for i := range 500 {
		many = append(many, fmt.Sprintf(`"m%03d":1`, i))
	}
	long := strings.Repeat("x", 8<<10)
	for arguments, want := range map[string]string{
		`{"a":"` + long + `","b":{"c":[1,"` + long + `é",true,null,{}],"d":[]},"z":"rm -rf /"}`: `{"a":"` + long[:512] +
			`" … 8192 bytes … "` + long[:512] +
			`","b":{"c":[1,"` + long[:512] + `" … 8194 bytes … "` + long[:510] +
			`é",true,null,{}],"d":[]},"z":"rm -rf /"}`,
		`{"` + long + `":1,"n":` + strings.Repeat("1", 5000) + `,"z":"\u202e"}`: `{"n":` + strings.Repeat("1", 512) +
			` … 5000 bytes … ` + strings.Repeat("1", 512) +
			`,"` + long[:512] + `" … 8192 bytes … "` + long[:512] + `":1,"z":"<U+202E>"}`,
		`{` + strings.Join(many, ",") + `,"n":"` + long + `"}`: `{` + strings.Join(many, ",") +
			`,"n":"xxxxxxxx" … 8192 bytes … "xxxxxxxx"}`,
	} {
		a := host.Approval{Request: &host.Request{Kind: "tool", Arguments: json.RawMessage(arguments)}}
		_, got, _ := strings.Cut(a.Question(), "Arguments: ")
		must.CheckThat(t, got == want, "the question has %d bytes: %s", len(got), got)
	}
}

func TestAuditRecordHasCallerAndShapeWithoutValues(t *testing.T) {
	up, written := newCounted(), new(bytes.Buffer)
	audit := slog.NewJSONHandler(written, &slog.HandlerOptions{Level: slog.LevelError})
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, up.Server, "up")}, Policy: always(host.Allow),
		Audit: audit})
	ada := must.Get(principal.New("https://as.example", "ada", "editor"))(t)
	ctx := auth.NewContext(t.Context(), &auth.Info{Principal: ada,
		Claims: json.RawMessage(`{"sub":"ada","act":{"sub":"agent","act":{"sub":"desk"}},"jti":"c0ffee"}`)})
	arguments := `{"text":"s3cret","list":[{"a":1}],"deep":{"a":{"b":{"c":true}}},"none":null,"n":1.5,"yes":true}`
	must.Get(h.Client("up").CallTool(ctx, "write", json.RawMessage(arguments)))(t)
	if text := written.String(); strings.Contains(text, "s3cret") || strings.Contains(text, "c0ffee") {
		t.Errorf("the records have values: %s", text)
	}
	var lines [2]map[string]any
	for i, line := range slices.Collect(strings.Lines(written.String())) {
		must.Do(t, json.Unmarshal([]byte(line), &lines[i]))
		delete(lines[i], "time")
	}
	want := map[string]any{
		"msg": "allowed", "level": "INFO", "call": 1.0, "issuer": "https://as.example", "subject": "ada",
		"client": "editor", "actors": []any{"agent", "desk"},
		"server": "up", "method": "tools/call", "kind": "tool", "name": "write", "decision": "allow",
		"reason": "no rule of the policy matches", "policyVersion": "1",
		"arguments": map[string]any{"text": "string", "list": "array",
			"deep": map[string]any{"a": map[string]any{"b": "object"}}, "none": "null", "n": "number",
			"yes": "boolean"},
	}
	must.CheckEqual(t, cmp.Diff(want, lines[0]), "")
	// the schema of the tool has no such properties
	if lines[1]["msg"] != "done" || lines[1]["outcome"] != "tool error" ||
		lines[1]["call"] != 1.0 || lines[1]["seconds"].(float64) <= 0 || lines[1]["bytes"].(float64) < 20 {
		t.Errorf("second record: %v", lines[1])
	}
}

func TestAuditRecordsHowRequestsEnd(t *testing.T) {
	up, audit := newCounted(), &log{}
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, up.Server, "up"),
		{Name: "down", Target: inProcess("down").Target}}, Audit: audit.handler()})
	must.Get(h.Client("up").CallTool(t.Context(), "fail", nil))(t)
	audit.want(t, "allowed fail", "done fail, tool error")
	_, err := h.Client("up").CallTool(t.Context(), "missing", nil)
	must.CheckThat(t, err != nil, "a missing tool can be called")
	audit.want(t, "allowed missing", "done missing, error, code -32602")
	_, err = h.Client("down").CallTool(t.Context(), "die", nil)
	must.CheckThat(t, err != nil, "a tool that ends its server has a result")
	audit.want(t, "allowed die", "done die, error, connection lost")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.Client("up").CallTool(ctx, "write", nil)
	must.CheckThat(t, err != nil, "a cancelled call has a result")
	audit.want(t, "allowed write", "done write, error, cancelled")
}

func TestRequestThatCannotBeRecordedIsNotSent(t *testing.T) {
	for name, write := range map[string]gatewaytest.Audit{
		"error": func(context.Context, map[string]any) error { return errors.New("disk full") },
		"panic": func(context.Context, map[string]any) error { panic("disk full") },
	} {
		up := newCounted()
		h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, up.Server, "up")}, Audit: write})
		_, err := h.Client("up").CallTool(t.Context(), "write", nil)
		wantDenied(t, err, "cannot be recorded")
		must.CheckEqual(t, up.calls.Load(), 0, name)
	}
}

func TestShapeOfArgumentsIsBounded(t *testing.T) {
	up := newCounted()
	var shape json.RawMessage
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, up.Server, "up")},
		Audit: gatewaytest.Audit(func(_ context.Context, r map[string]any) error {
			shape = r["arguments"].(json.RawMessage)
			return nil
		})})
	large := make(map[string]any)
	for i := range 100 {
		inner := make(map[string]any)
		for j := range 100 {
			inner[fmt.Sprint(strings.Repeat("long", 20), j)] = j
		}
		large[fmt.Sprint("name", i)] = inner
	}
	must.Get(h.Client("up").CallTool(t.Context(), "write", large))(t)
	if !json.Valid(shape) || len(shape) > 256*80 || strings.Count(string(shape), ":") != 256 {
		t.Errorf("the shape has %d bytes and %d members", len(shape), strings.Count(string(shape), ":"))
	}
}

func TestMessagesOfAServerAreQuoted(t *testing.T) {
	for message, want := range map[string]string{
		"Who are you?":                "> Who are you?",
		"":                            ">",
		"\n \r\n\t":                   ">",
		"Choose:\n\n\n\n\n  a\r\n  b": "> Choose:\n> a\n> b",
		"ok\n\nAllow the tool \"pay\" of the server \"bank\"?": "> ok\n> Allow the tool " +
			"\"pay\" of the server \"bank\"?",
		"ok\u2028\u2029\v\f\u0085The server \"b\" asks:": "> ok\n> The server \"b\" asks:",
		"a\x1b[2Jb\x00c\u202ed\u200be\u00adf\U000e0041g": "> a<U+001B>[2Jb<U+0000>c<U+202E>d<U+200B>e<U+00AD>f<U+E0041>g",
		"\U0001f468\u200d\U0001f469 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645": "> \U0001f468\u200d\U0001f469 " +
			"\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
	} {
		must.CheckEqual(t, new(host.Host).Attribute("a", message), "The server \"a\" asks:\n\n"+want, message, want)
	}
}

// Clients see a server as if there were no host only if a user cannot mistake its questions for the questions
// of others.
func TestMessagesOfTheOnlyServerWithoutAPrefixAreUnchanged(t *testing.T) {
	bare := func(name string) host.ServerConfig {
		config := inMemory(t, name)
		config.NoPrefix = true
		return config
	}
	approve := func(context.Context, *host.Approval) (bool, error) { return true, nil }
	for _, c := range []struct {
		name      string
		host      *host.Host
		unchanged bool
	}{
		{"without a prefix", &host.Host{Servers: []host.ServerConfig{bare("a")}}, true},
		{"with a prefix", &host.Host{Servers: []host.ServerConfig{inMemory(t, "a")}}, false},
		{"two servers", &host.Host{Servers: []host.ServerConfig{bare("a"), bare("b")}}, false},
		{"with approvals", &host.Host{Servers: []host.ServerConfig{bare("a")}, Approve: approve}, false},
	} {
		got := start(t, c.host).Attribute("a", "hello")
		must.CheckEqual(t, got == "hello", c.unchanged, c.name, got)
	}
	config := bare("a")
	h := start(t, &host.Host{Servers: []host.ServerConfig{config}})
	must.Do(t, h.SetServers([]host.ServerConfig{config, bare("b")}))
	got := h.Attribute("a", "hello")
	must.CheckThat(t, got != "hello", "the message is unchanged although there is another server")
}

// denying is a policy that denies everything once it is set. It panics when it is asked what to hide.
type denying struct{ atomic.Bool }

func (d *denying) Decide(context.Context, *host.Request) (host.Decision, error) {
	if d.Load() {
		return host.Decision{Reason: "changed"}, nil
	}
	return host.Decision{Action: host.Allow}, nil
}

func (d *denying) Hides(principal.Principal) func(*host.Request) bool { panic("unexpected") }

func TestSubscribeEndsWhenThePolicyDeniesIt(t *testing.T) {
	policy := new(denying)
	h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "s")}, Policy: policy})
	must.Do(t, h.WaitReady(t.Context()))
	ended := make(chan error, 1)
	subscribed := make(chan struct{}, 10)
	go func() {
		subscribed <- struct{}{}
		ended <- h.Client("s").Subscribe(t.Context(), "lib://a", func() {})
	}()
	<-subscribed
	h.PolicyChanged() // the policy is asked again, or before the subscription
	policy.Store(true)
	h.PolicyChanged()
	err := must.Receive(t, ended, "Subscribe")
	must.CheckThat(t, errors.As(err, new(*host.DeniedError)), "Subscribe ends with %v", err)
}

// A policy that cannot tell what it hides hides everything, since it would deny the requests.
func TestPolicyThatPanicsHidesEverything(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "s")}, Policy: new(denying)})
	hides := h.Hides(principal.Anonymous)
	must.CheckThat(t, hides != nil && hides(&host.Request{Server: "s", Kind: "tool", Name: "t"}),
		"the tool is not hidden")
	open := &host.Host{Policy: host.Rules{Default: host.Ask, Rules: []host.Rule{{Tool: "*", Action: host.Allow}}}}
	must.CheckThat(t, open.Hides(principal.Anonymous) == nil, "a policy that denies nothing hides something")
}

func TestAdaptedDialerIsForOneServer(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	record := func(name string) call.Middleware {
		return func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				if c.Method() == mcp.MethodCallTool {
					mu.Lock()
					seen = append(seen, name)
					mu.Unlock()
				}
				return next(ctx, c)
			}
		}
	}
	h := &host.Host{
		Servers: []host.ServerConfig{inMemory(t, "a"), inMemory(t, "b")},
		Dialer:  client.Dialer{Middleware: append(make([]call.Middleware, 0, 8), record("all"))},
		AdaptDialer: func(server string, d *client.Dialer) {
			d.Middleware = append(d.Middleware, record("of "+server))
		},
	}
	must.Do(t, h.Start())
	defer h.Close()
	for _, name := range []string{"b__who", "a__who"} {
		must.Get(h.Call(t.Context(), name, nil))(t)
	}
	want := []string{"all", "of b", "all", "of a"}
	must.CheckThat(t, slices.Equal(seen, want), "%q, want %q", seen, want)
}

// userContext returns the context of a request of a user.
func userContext(t *testing.T, name string) context.Context {
	t.Helper()
	who := must.Get(principal.New("https://as.example", name, ""))(t)
	return auth.NewContext(t.Context(), &auth.Info{Principal: who})
}

func TestPolicyDecidesAboutReadsOfLargeResultsAsAboutTheirCalls(t *testing.T) {
	up, audit := newCounted(), &log{}
	var now atomic.Int32
	now.Store(int32(host.Ask))
	var asked atomic.Int32
	config := configOf(t, up.Server, "up")
	config.MaxResult = 10
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{config}, Audit: audit.handler(),
		Policy: policyFunc(func(_ context.Context, r *host.Request) (host.Decision, error) {
			must.CheckThat(t, r.Method == mcp.MethodCallTool && r.Name == "write" && r.Tool != nil &&
				strings.Contains(string(r.Arguments), "begin"),
				"the policy is asked about %s with %s", r.Name, r.Arguments)
			return host.Decision{Action: host.Action(now.Load()), Version: "1"}, nil
		}),
		Approve: func(context.Context, *host.Approval) (bool, error) { asked.Add(1); return true, nil },
	})
	ada, bob := userContext(t, "ada"), userContext(t, "bob")
	text := "begin " + strings.Repeat("x", 100)
	result := must.Get(h.Client("up").CallTool(ada, "write", note{text}))(t)
	link, ok := result.Content[len(result.Content)-1].(*mcp.ResourceLink)
	if !ok {
		t.Fatalf("%+v", result.Content)
	}
	audit.want(t, "allowed write, approved", "done write, approved, ok")
	for _, action := range []host.Action{host.Ask, host.Allow} {
		now.Store(int32(action))
		read := must.Get(h.Client("up").ReadResource(ada, link.URI))(t)
		must.CheckEqual(t, read.Contents[0].Text, "wrote "+text, action, read)
		audit.want(t, "allowed "+link.URI, "done "+link.URI+", ok")
	}
	must.CheckEqual(t, asked.Load(), 1)
	must.CheckIs(t, must.Err(h.Client("up").ReadResource(bob, link.URI)), call.ErrResourceNotFound, "another principal")
	audit.want(t, "done "+link.URI+", error, other")
	now.Store(int32(host.Deny))
	_, err := h.Client("up").ReadResource(ada, link.URI)
	wantDenied(t, err, "the policy does not allow it")
	audit.want(t, "denied "+link.URI+", error, the policy does not allow it")
	must.CheckEqual(t, up.calls.Load(), 1)
}

func TestLargeResultsOfToolsThatAreWithheldAreNotRead(t *testing.T) {
	up := newCounted()
	var rejects atomic.Bool
	config := configOf(t, up.Server, "up")
	config.MaxResult = 10
	h := start(t, &host.Host{Servers: []host.ServerConfig{config}, Review: func(d host.Definition) error {
		if rejects.Load() && d.Name == "write" {
			return errors.New("not accepted")
		}
		return nil
	}})
	ada := userContext(t, "ada")
	result := must.Get(h.Client("up").CallTool(ada, "write", json.RawMessage(`{"text":"0123456789"}`)))(t)
	uri := result.Content[len(result.Content)-1].(*mcp.ResourceLink).URI
	must.Check(t, must.Err(h.Client("up").ReadResource(ada, uri)))
	rejects.Store(true)
	h.ReviewAgain()
	_, err := h.Client("up").ReadResource(ada, uri)
	wantDenied(t, err, "its definition is not accepted")
}

// member returns a request to call a tool from a caller with claims.
func member(t testing.TB, claims string) *host.Request {
	who := must.Get(principal.New("https://as.example", "ada", ""))(t)
	return &host.Request{Method: mcp.MethodCallTool, Server: "files", Kind: "tool", Name: "read",
		Caller: &auth.Info{Principal: who, Claims: json.RawMessage(claims)}}
}

// Rule O18: a rule with groups matches the groups that the claims of the caller name, and the decision says which. If
// the groups are not known, a rule with groups decides nothing: the request is denied, whatever the action of the rule.
func TestRulesMatchTheGroupsOfTheCaller(t *testing.T) {
	for _, tc := range []struct {
		from, patterns []string
		claims         string
		group, claim   string // both empty: the rule does not match
		err            string
	}{
		{nil, []string{"finance-*"}, `{"groups":["staff","finance-eu"]}`, "finance-eu", "groups", ""},
		{nil, []string{"audit", "finance-*"}, `{"groups":["finance-eu","audit"]}`, "finance-eu", "groups", ""},
		{nil, []string{"finance-*"}, `{"groups":"finance-eu"}`, "finance-eu", "groups", ""},
		{nil, []string{"*"}, `{"groups":["",""]}`, "", "", ""},
		{nil, []string{"*"}, `{"groups":[]}`, "", "", ""},
		{nil, []string{"finance"}, `{"groups":["Finance","finance-eu"," finance"]}`, "", "", ""},
		{nil, []string{"Domain Admins"}, `{"groups":["Domain Admins"]}`, "Domain Admins", "groups", ""},
		{nil, []string{"admin"}, `{"roles":["admin"]}`, "admin", "roles", ""},
		{nil, []string{"admin"}, `{"groups":null,"roles":["admin"]}`, "admin", "roles", ""},
		{nil, []string{"admin"}, `{"groups":["staff"],"roles":["admin"]}`, "", "", ""},
		{nil, []string{"admin"}, `{"realm_access":{"roles":["admin"]}}`, "", "", ""},
		{nil, []string{"admin"}, `{"scope":"admin","sub":"admin","GROUPS":["admin"]}`, "", "", ""},
		{[]string{"realm_access.roles"}, []string{"adm?n"}, `{"realm_access":{"roles":["admin"]},"groups":["x"]}`,
			"admin", "realm_access.roles", ""},
		{[]string{"cognito:groups", "groups"}, []string{"a"}, `{"groups":["a"]}`, "a", "groups", ""},
		{[]string{"urn:zitadel:roles"}, []string{"admin"}, `{"urn:zitadel:roles":{"admin":{"1":"a.example"}}}`, "admin",
			"urn:zitadel:roles", ""},
		{[]string{"https://example.com/roles"}, []string{"e*"}, `{"https://example.com/roles":["editor"]}`, "editor",
			"https://example.com/roles", ""},
		{nil, []string{"*"}, `{"_claim_names":{"groups":"src1"},"roles":["admin"]}`, "", "", "too many groups"},
		{[]string{"roles"}, []string{"*"}, `{"_claim_names":{"groups":"src1"},"roles":["admin"]}`, "admin", "roles", ""},
		{nil, []string{"*"}, `{"groups":["a",7]}`, "", "", "must be a text"},
		{nil, []string{"*"}, `{"groups":true,"roles":["admin"]}`, "", "", "must be a text"},
		{nil, []string{"*"}, "", "", "", "are not known"},
	} {
		for _, action := range []host.Action{host.Allow, host.Ask, host.Deny} {
			rules := host.Rules{GroupsFrom: tc.from, Default: host.Allow, Rules: []host.Rule{
				{Groups: tc.patterns, Action: action, Claims: []string{"used"}}}}
			r := member(t, tc.claims)
			if tc.claims == "" { // for example, in another process
				r.Caller.Claims = nil
			}
			want := host.Decision{Action: host.Allow, Reason: "no rule of the policy matches"}
			switch {
			case tc.err != "":
				want = host.Decision{Action: host.Deny}
			case tc.group != "":
				want = host.Decision{Action: action, Reason: "rule 1 of the policy", Rule: "1", Group: tc.group,
					Claims: []string{tc.claim, "used"}}
			}
			d, err := rules.Decide(t.Context(), r)
			if diff := cmp.Diff(want, d); diff != "" || (err != nil) != (tc.err != "") ||
				err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q %q of %s: %v, %s", tc.from, tc.patterns, tc.claims, err, diff)
			}
			hides := rules.Hides(r.Caller.Principal)
			must.CheckThat(t, hides == nil || !hides(r), "%v: hidden by a rule with groups", tc)
		}
	}
	rules := host.Rules{Default: host.Allow, Rules: []host.Rule{{Groups: []string{"*"}}}}
	d := must.Get(rules.Decide(t.Context(), tool("files", "read")))(t)
	must.CheckEqual(t, d.Action, host.Allow, "a caller without authentication", d)
}

// The audit log names the claims that decided and the group that matched, and contains no other value of a
// claim.
func TestAuditRecordNamesTheClaimsThatDecided(t *testing.T) {
	up, written := newCounted(), new(bytes.Buffer)
	isStaff := func(_ context.Context, r *host.Request) (bool, error) {
		staff, _ := r.Caller.Claim("staff")
		return string(staff) == "true", nil
	}
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, up.Server, "up")},
		Audit: slog.NewJSONHandler(written, nil),
		Policy: host.Rules{Default: host.Deny, Rules: []host.Rule{
			{Groups: []string{"interns"}, Action: host.Deny},
			{Groups: []string{"finance-*"}, When: isStaff, Claims: []string{"staff"}, Action: host.Allow},
		}}})
	for claims, want := range map[string]string{
		`{"groups":["all","finance-eu"],"staff":true,"salary":"4711"}`: "allow [groups staff] finance-eu",
		`{"groups":["finance-eu","interns"],"staff":true}`:             "deny [groups] interns",
		`{"groups":["finance-eu"],"staff":false}`:                      "deny <nil> <nil>",
	} {
		written.Reset()
		ctx := auth.NewContext(t.Context(), member(t, claims).Caller)
		_, _ = h.Client("up").CallTool(ctx, "write", nil)
		for line := range strings.Lines(written.String()) {
			var record map[string]any
			must.Do(t, json.Unmarshal([]byte(line), &record))
			must.CheckEqual(t, fmt.Sprint(record["decision"], " ", record["claims"], " ", record["group"]), want, line)
		}
		if text := written.String(); text == "" || strings.Contains(text, "4711") || strings.Contains(text, `"all"`) {
			t.Errorf("records of %s: %s", claims, text)
		}
	}
}
