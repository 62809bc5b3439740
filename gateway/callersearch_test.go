package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// startSearched starts a gateway with a list budget in front of a server with CallerAuth, which has a tool for each
// user and 20 more for Ada, and of a server for all.
func startSearched(t *testing.T, budget int, policy host.Policy) *users {
	u := newUsers(t, "ada", "bob")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	ownEntries(p.Server, "ada", "bob")
	x.up[p.url] = p
	for i := range 20 {
		server.AddTool(p.Server, mcp.Tool{Name: fmt.Sprintf("paint_%02d", i), Description: "Paint the fence with brush " + fmt.Sprint(i)}, func(context.Context, none) (string, error) { return "painted", nil },
			server.VisibleTo(func(who principal.Principal, _ string) bool { return who.Subject() == "ada" }))
	}
	h := &host.Host{Servers: []host.ServerConfig{p.config("up", x.callers()), inMemory(t, "weather", weatherServer())}, Policy: policy}
	gatewaytest.Run(t, h, u.server, func(g *gateway.Gateway) { g.ListBudget = budget })
	u.front.Start()
	t.Cleanup(u.front.Close)
	t.Cleanup(func() { u.server.Shutdown(context.Background()) })
	return u
}

func found(t *testing.T, c *client.Client, arguments string) string {
	var names []string
	for _, raw := range search(t, c, arguments).Tools {
		names = append(names, strings.Trim(string(raw), `"`))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// A caller finds the tools that it alone has, and neither those of other callers nor those that the policy denies to it.
func TestToolsOfCallersAreDiscovered(t *testing.T) {
	u := startSearched(t, -1, host.Rules{Default: host.Allow, Rules: []host.Rule{
		{When: isAda, Fixed: true, Action: host.Allow},
		{Tool: "whoami", Action: host.Deny},
	}})
	for _, r := range everyRevision {
		t.Run(string(r), func(t *testing.T) {
			ada, bob := u.dial("ada", r), u.dial("bob", r)
			for name, c := range map[string]*client.Client{"ada": ada, "bob": bob} {
				if got := namesListed(t, c); got != "call_tool describe_tool search_tools" {
					t.Errorf("%s lists %s", name, got)
				}
			}
			for arguments, want := range map[string][2]string{
				`{"query":"whoami only forecast","detail":"name"}`:        {"up__ada_only up__whoami weather__forecast", "up__bob_only weather__forecast"},
				`{"query":"fence","detail":"name","limit":2}`:             {"up__paint_00 up__paint_01", ""},
				`{"server":"up","detail":"name","limit":3}`:               {"up__ada_only up__paint_00 up__paint_01", "up__bob_only"},
				`{"server":"weather","query":"tomorrow","detail":"name"}`: {"weather__forecast", "weather__forecast"},
			} {
				if got := [2]string{found(t, ada, arguments), found(t, bob, arguments)}; got != want {
					t.Errorf("%s: %q, want %q", arguments, got, want)
				}
			}
			all := search(t, ada, `{}`)
			if got := fmt.Sprintf("%d %s", all.Total, all.Servers); got != `23 [{"name":"up","tools":22} {"name":"weather","tools":1}]` {
				t.Errorf("all tools: %s", got)
			}
			if other := search(t, bob, `{}`); other.Version == "" || other.Version == all.Version {
				t.Errorf("the versions for two callers are %q and %q", all.Version, other.Version)
			}
			if got := textOfCall(t, ada, "describe_tool", map[string]string{"name": "up__paint_07"}); !strings.Contains(got, "brush 7") {
				t.Errorf("described: %s", got)
			}
			if got := textOfCall(t, ada, "call_tool", map[string]string{"name": "up__paint_07"}); got != "painted" {
				t.Errorf("called: %s", got)
			}
			for tool, want := range map[string]string{"describe_tool": "unknown tool", "call_tool": "unknown tool"} {
				if got := textOfCall(t, bob, tool, map[string]string{"name": "up__ada_only"}); !strings.Contains(got, want) || strings.Contains(got, "mean up__ada") {
					t.Errorf("%s of Bob: %s", tool, got)
				}
			}
			if got := textOfCall(t, bob, "call_tool", map[string]string{"name": "up__whoami"}); !strings.Contains(got, "is denied") {
				t.Errorf("call of a hidden tool: %s", got)
			}
		})
	}
}

// The budget is for all tools that a caller has. If they exceed it, the tools for all are listed as for others.
func TestBudgetCountsTheToolsOfTheCaller(t *testing.T) {
	u := startSearched(t, 2000, nil)
	for _, r := range everyRevision {
		t.Run(string(r), func(t *testing.T) {
			ada, bob := u.dial("ada", r), u.dial("bob", r)
			if got := namesListed(t, ada); got != "call_tool describe_tool search_tools weather__forecast" {
				t.Errorf("Ada lists %s", got)
			}
			if got := namesListed(t, bob); got != "up__bob_only up__whoami weather__forecast" {
				t.Errorf("Bob lists %s", got)
			}
			if got := found(t, ada, `{"query":"brush fence 7 forecast","detail":"name","limit":1}`); got != "up__paint_07" && got != "weather__forecast" {
				t.Errorf("found %s", got)
			}
			if got := textOfCall(t, ada, "call_tool", map[string]string{"name": "up__paint_07"}); got != "painted" {
				t.Errorf("called: %s", got)
			}
			for _, name := range []string{"up__login", "up__whoami"} { // can be called although they are not listed
				if got := textOfCall(t, ada, name, nil); strings.HasPrefix(got, "error") {
					t.Errorf("%s: %s", name, got)
				}
			}
		})
	}
}
