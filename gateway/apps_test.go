package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/apps"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// Two servers have a page with the same URI. The tools of each server refer to that server's page, whether it is
// listed or not, and the URIs are valid for pages.
func TestUserInterfacesOfToolsFollowTheirResources(t *testing.T) {
	app := func(text, resources string) upstream {
		return upstream{
			mcp.MethodListTools: `{"tools":[{"name":"show","inputSchema":{"type":"object"},` +
				`"_meta":{"ui":{"resourceUri":"ui://app","visibility":["model"]},"ui/resourceUri":"ui://app",` +
				`"openai/outputTemplate":"ui:\/\/app","com.example/pages":{"ui://app":["UI://app",7,"see ui://app"]}}},` +
				`{"name":"other","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["app"]},` +
				`"ui/resourceUri":7}}]}`,
			mcp.MethodListResources: `{"resources":[` + resources + `]}`,
			mcp.MethodReadResource:  `{"contents":[{"uri":"ui://app","text":"` + text + `"}]}`,
			mcp.MethodCallTool: `{"content":[{"type":"text","text":"shown"}],` +
				`"_meta":{"ui":{"resourceUri":"ui://app"}}}`,
		}
	}
	const resource = `{"uri":"ui://app","name":"app","mimeType":"text/html;profile=mcp-app"}`
	s := gatewayTo(t, app("one", resource).start(t, "first"), app("two", resource).start(t, "second"),
		app("three", "").start(t, "third"))
	for _, r := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} { // tools have _meta
		c := mcptest.Dial(t, s, mcptest.WithRevision(r))
		want := map[string][2]string{"first__show": {"ui://server/first/ui://app", "one"},
			"second__show": {"ui://server/second/ui://app", "two"},
			"third__show":  {"ui://server/third/ui://app", "three"}}
		for _, tool := range listed(t, c) {
			expected, ok := want[tool.Name]
			if !ok {
				continue
			}
			delete(want, tool.Name)
			var ui struct {
				ResourceURI string   `json:"resourceUri"`
				Visibility  []string `json:"visibility"`
			}
			var flat string
			must.Do(t, json.Unmarshal(tool.Meta["ui"], &ui))
			must.Do(t, json.Unmarshal(tool.Meta["ui/resourceUri"], &flat))
			must.CheckEqual(t, string(tool.Meta["openai/outputTemplate"]), `"`+expected[0]+`"`, r, tool.Name)
			wantPages := `{"ui://app":["` + strings.Replace(expected[0], "/ui:", "/UI:", 1) + `",7,"see ui://app"]}`
			must.CheckEqual(t, string(tool.Meta["com.example/pages"]), wantPages, r, tool.Name, "has the pages")
			if ui.ResourceURI != expected[0] || flat != expected[0] || len(ui.Visibility) != 1 {
				t.Errorf("%s: %s has %s and %s", r, tool.Name, tool.Meta["ui"], flat)
			}
			read := must.Get(c.ReadResource(t.Context(), ui.ResourceURI))(t)
			must.CheckEqual(t, read.Contents[0].Text, expected[1], r, "the user interface", tool.Name, read)
			result := must.Get(c.CallTool(t.Context(), tool.Name, nil))(t)
			must.CheckEqual(t, string(result.Meta["ui"]), `{"resourceUri":"`+expected[0]+`"}`, r, "the result",
				tool.Name, result.Meta)
		}
		must.CheckThat(t, len(want) == 0, "%s: not listed: %v", r, want)
	}
}

// recorded is a slog.Handler that keeps the subject of each record.
type recorded struct{ all chan string }

func (r recorded) Enabled(context.Context, slog.Level) bool { return true }
func (r recorded) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r recorded) WithGroup(string) slog.Handler            { return r }

func (r recorded) Handle(_ context.Context, record slog.Record) error {
	of := make(map[string]string)
	record.Attrs(func(a slog.Attr) bool {
		of[a.Key] = a.Value.String()
		return true
	})
	r.all <- cmp.Or(of["decision"], record.Message) + " " + of["name"]
	return nil
}

// If the policy denies a page, or a tool for pages, it is neither listed nor served, and Review withholds a tool
// whose page has changed. The audit log contains what was tried.
func TestPolicyAndReviewApplyToPages(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} { // tools have _meta
		up := &server.Server{Name: "up", Version: "1"}
		text := func(context.Context, struct{}) (string, error) { return "done", nil }
		for _, name := range []string{"open", "secret", "changed"} {
			page := "ui://" + name
			apps.AddPage(up, apps.Page{URI: page, Name: name}, "<p>"+name)
			server.AddTool(up, apps.Show(mcp.Tool{Name: name}, page), text)
			server.AddTool(up, apps.Show(mcp.Tool{Name: "set_" + name}, page, apps.App), text)
		}
		config := inMemory(t, "up", up)
		config.Revision, config.NoPrefix = r, true
		audit := recorded{make(chan string, 100)}
		h := &host.Host{Servers: []host.ServerConfig{config}, Audit: audit}
		h.Policy = host.Rules{Default: host.Allow, Rules: []host.Rule{
			{Resource: "ui://secret", Action: host.Deny}, {Tool: "set_secret", Action: host.Deny},
		}}
		h.Review = func(d host.Definition) error {
			var tool mcp.Tool
			if d.Kind == "tool" && json.Unmarshal(d.JSON, &tool) == nil && apps.PageOf(&tool) == "ui://changed" {
				return errors.New("not accepted")
			}
			return nil
		}
		s := &server.Server{Name: "gateway", Version: "1"}
		gatewaytest.Run(t, h, s)
		c := mcptest.Dial(t, s, mcptest.WithRevision(r))
		var names []string
		for _, tool := range listed(t, c) {
			names = append(names, tool.Name)
		}
		for resource, err := range c.Resources(t.Context()) {
			must.Do(t, err)
			names = append(names, resource.URI)
		}
		slices.Sort(names)
		want := []string{"open", "secret", "set_open", "ui://changed", "ui://open"}
		must.CheckThat(t, slices.Equal(names, want), "%s: listed %q", r, names)
		_, html, err := apps.Read(t.Context(), c, mcp.Resource{URI: "ui://open"})
		must.CheckThat(t, err == nil && html == "<p>open", "%s: %q, %v", r, html, err)
		must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "set_open", nil))(t), "done")
		if _, html, err := apps.Read(t.Context(), c, mcp.Resource{URI: "ui://secret"}); err == nil {
			t.Errorf("%s: a denied page is read: %q", r, html)
		}
		for _, tool := range []string{"set_secret", "changed", "set_changed"} {
			result, err := c.CallTool(t.Context(), tool, nil)
			must.CheckThat(t, err != nil || result.IsError, "%s: %s is called: %+v", r, tool, result)
		}
		close(audit.all)
		var tried []string
		for record := range audit.all {
			tried = append(tried, record)
		}
		slices.Sort(tried)
		tried = slices.Compact(tried) // the decision and the outcome each cause a record
		if want := []string{"allow set_open", "allow ui://open", "deny set_secret", "deny ui://secret",
			"withheld changed", "withheld set_changed"}; !slices.Equal(tried, want) {
			t.Errorf("%s: the audit log has %q", r, tried)
		}
	}
}
