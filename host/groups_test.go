package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

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
