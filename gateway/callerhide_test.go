package gateway_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// What the policy always denies to a caller is hidden from the caller's lists of a server with CallerAuth, also if callers
// for whom the server lists the same share them.
func TestDeniedEntriesAreHiddenFromTheListsOfCallers(t *testing.T) {
	const (
		hidden = "server:up/lib://both up__open"
		every  = "server:up/lib://both server:up/lib://secret server:up/secret://{id} up__open up__secret up__secret up__whoami up__whoami"
	)
	denied := make(chan string, 100)
	u := newUsers(t, "ada", "bob")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	addSecret(p)
	x.up[p.url] = p
	h := &host.Host{
		Servers: []host.ServerConfig{p.config("up", x.callers())},
		Policy: host.Rules{Default: host.Allow, Rules: []host.Rule{
			{When: isAda, Fixed: true, Action: host.Allow},
			{Method: "*/*", Tool: "secret", Prompt: "secret", Resource: "lib://secret", Action: host.Deny},
			{Resource: "secret://*", Action: host.Deny},
			{Tool: "whoami", Prompt: "whoami", Action: host.Deny},
		}},
		Audit: func(_ context.Context, r *host.AuditRecord) error {
			if r.Event == host.AuditDenied {
				denied <- r.Subject + " " + r.Name
			}
			return nil
		},
	}
	u.start(h)
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			ada, bob := u.dial("ada", r), u.dial("bob", r)
			if got := allListed(t, ada); got != every {
				t.Errorf("Ada finds %s", got)
			}
			if got := allListed(t, bob); got != hidden {
				t.Errorf("Bob finds %s", got)
			}
			if _, err := client.CallTool[string](t.Context(), ada, "up__secret", nil); err != nil {
				t.Error(err)
			}
			if _, err := client.CallTool[string](t.Context(), bob, "up__secret", nil); err == nil || !strings.Contains(err.Error(), "is denied") {
				t.Errorf("the call of the hidden tool ends with %v", err)
			}
			expectMessage(t, denied, "bob secret")
		})
	}
}

func addSecret(p *protectedServer) {
	hello := func(context.Context, none) (string, error) { return "hello", nil }
	server.AddTool(p.Server, mcp.Tool{Name: "open"}, hello)
	server.AddTool(p.Server, mcp.Tool{Name: "secret"}, hello)
	server.AddPrompt(p.Server, mcp.Prompt{Name: "secret"}, hello)
	server.AddStatic(p.Server, mcp.Resource{URI: "lib://both", Name: "both"}, "text")
	server.AddStatic(p.Server, mcp.Resource{URI: "lib://secret", Name: "secret"}, "text")
	type id struct {
		ID string `json:"id"`
	}
	server.AddTemplate(p.Server, mcp.ResourceTemplate{URITemplate: "secret://{id}", Name: "secret"}, func(context.Context, id) (string, error) { return "text", nil })
}
