package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// newSecretive returns a server with entries that are visible to ada only. Not every transport
// has authorization, so the principal is the name that the client declares.
func newSecretive() *server.Server {
	s := newServer()
	s.PageSize = 1
	s.Middleware = append(s.Middleware, func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			who, err := principal.New("https://issuer.example", c.Peer().Info.Name, "")
			if err != nil {
				return nil, err
			}
			served := rpc.From(ctx) // package call does not allow middleware to change the principal
			served.Call = *call.New(call.Description{
				Method: c.Method(), ID: c.ID(), Params: c.Params(), Revision: c.Revision(), Peer: c.Peer(), Principal: who, Source: c.Source(),
			})
			return next(ctx, c)
		}
	})
	forAda := server.VisibleTo(func(who principal.Principal, _ string) bool { return who.Subject() == "ada" })
	server.AddTool(s, mcp.Tool{Name: "hidden"}, emptyHandler, forAda)
	server.AddPrompt(s, mcp.Prompt{Name: "open"}, emptyHandler)
	server.AddPrompt(s, mcp.Prompt{Name: "hidden"}, emptyHandler, forAda)
	server.AddStatic(s, mcp.Resource{URI: "note://open", Name: "open"}, "o")
	server.AddStatic(s, mcp.Resource{URI: "note://hidden", Name: "hidden"}, "h", forAda)
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "hidden://{x}", Name: "hidden"},
		func(context.Context, map[string]string) (string, error) { return "h", nil }, forAda)
	return s
}

// namesOf returns the kinds and names of all entries that a client can list.
func namesOf(t *testing.T, c *client.Client) (all []string) {
	t.Helper()
	note := func(kind, name string, err error) bool {
		if err != nil {
			t.Errorf("listing %s: %v", kind, err)
			return false
		}
		all = append(all, kind+" "+name)
		return true
	}
	for v, err := range c.Tools(t.Context()) {
		if !note("tool", nameOf(v, func(v *mcp.Tool) string { return v.Name }), err) {
			break
		}
	}
	for v, err := range c.Prompts(t.Context()) {
		if !note("prompt", nameOf(v, func(v *mcp.Prompt) string { return v.Name }), err) {
			break
		}
	}
	for v, err := range c.Resources(t.Context()) {
		if !note("resource", nameOf(v, func(v *mcp.Resource) string { return v.Name }), err) {
			break
		}
	}
	for v, err := range c.ResourceTemplates(t.Context()) {
		if !note("template", nameOf(v, func(v *mcp.ResourceTemplate) string { return v.Name }), err) {
			break
		}
	}
	return all
}

func nameOf[T any](v *T, name func(*T) string) string {
	if v == nil {
		return ""
	}
	return name(v)
}

// Rule R7: an entry with VisibleTo does not exist for other callers.
func TestVisibleToHidesEntriesFromOtherCallers(t *testing.T) {
	hidden := []string{"tool hidden", "prompt hidden", "resource hidden", "template hidden"}
	t.Run("ada", func(t *testing.T) {
		mcptest.Everywhere(t, newSecretive, func(t *testing.T, c *client.Client) {
			all := namesOf(t, c)
			for _, name := range hidden {
				if !slices.Contains(all, name) {
					t.Errorf("%s is not in %v", name, all)
				}
			}
			if _, err := c.CallTool(t.Context(), "hidden", nil); err != nil {
				t.Error(err)
			}
			for _, uri := range []string{"note://hidden", "hidden://x"} {
				if _, err := c.ReadResource(t.Context(), uri); err != nil {
					t.Error(err)
				}
			}
		}, func(d *client.Dialer) { d.Name = "ada" })
	})
	t.Run("bob", func(t *testing.T) {
		mcptest.Everywhere(t, newSecretive, func(t *testing.T, c *client.Client) {
			if all := namesOf(t, c); slices.ContainsFunc(hidden, func(h string) bool { return slices.Contains(all, h) }) || len(all) < 3 {
				t.Errorf("bob can list %v", all)
			}
			same := func(method string, ask func(name string) error) {
				var hidden, unknown *jsonrpc.Error
				if !errors.As(ask("hidden"), &hidden) || !errors.As(ask("absent"), &unknown) {
					t.Errorf("%s: hidden %v, unknown %v", method, hidden, unknown)
					return
				}
				if hidden.Code != unknown.Code || hidden.Message != strings.ReplaceAll(unknown.Message, "absent", "hidden") ||
					string(hidden.Data) != strings.ReplaceAll(string(unknown.Data), "absent", "hidden") {
					t.Errorf("%s: hidden %v, unknown %v", method, hidden, unknown)
				}
			}
			same("tools/call", func(name string) error { _, err := c.CallTool(t.Context(), name, nil); return err })
			same("prompts/get", func(name string) error { _, err := c.GetPrompt(t.Context(), name, nil); return err })
			same("resources/read", func(name string) error { _, err := c.ReadResource(t.Context(), "note://"+name); return err })
			same("resources/read of a template", func(name string) error { _, err := c.ReadResource(t.Context(), name+"://x"); return err })
		}, func(d *client.Dialer) { d.Name = "bob" })
	})
}

// A list with entries that some callers cannot see has the same entries as one that all callers
// see, also when it is requested again and after a change.
func TestRestrictedListsEqualSharedLists(t *testing.T) {
	always := server.VisibleTo(func(principal.Principal, string) bool { return true })
	fill := func(s *server.Server, tool []server.ToolOption, prompt []server.PromptOption, resource []server.ResourceOption) {
		server.AddTool(s, mcp.Tool{
			Name: "zoom", Title: "Zoom <in>", Description: `a "quoted" text`,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}, Icons: []mcp.Icon{{Src: "https://example.com/i.png"}},
		}, emptyHandler, tool...)
		server.AddPrompt(s, mcp.Prompt{Name: "z", Title: "Z"}, emptyHandler, prompt...)
		server.AddStatic(s, mcp.Resource{URI: "note://z", Name: "z", Title: "Z"}, "o", resource...)
	}
	for _, r := range mcp.Revisions() {
		shared, restricted := newServer(), newServer()
		fill(shared, nil, nil, nil)
		fill(restricted, []server.ToolOption{always}, []server.PromptOption{always}, []server.ResourceOption{always})
		withShared, withRestricted := mcptest.Dial(t, shared, mcptest.WithRevision(r)), mcptest.Dial(t, restricted, mcptest.WithRevision(r))
		for round := range 2 {
			for range 2 {
				if got, want := entriesOf(t, withRestricted), entriesOf(t, withShared); !reflect.DeepEqual(got, want) {
					t.Errorf("%s:\n got %s\nwant %s", r, got, want)
				}
			}
			for _, s := range []*server.Server{shared, restricted} {
				server.AddTool(s, mcp.Tool{Name: fmt.Sprint("later-", round)}, emptyHandler)
			}
		}
	}
}

// entriesOf returns the tools, prompts and resources that a client can list, encoded.
func entriesOf(t *testing.T, c *client.Client) (all []string) {
	t.Helper()
	note := func(entry any, err error) {
		raw, encodeErr := json.Marshal(entry)
		if err != nil || encodeErr != nil {
			t.Fatal(err, encodeErr)
		}
		all = append(all, string(raw))
	}
	for v, err := range c.Tools(t.Context()) {
		note(v, err)
	}
	for v, err := range c.Prompts(t.Context()) {
		note(v, err)
	}
	for v, err := range c.Resources(t.Context()) {
		note(v, err)
	}
	return all
}
