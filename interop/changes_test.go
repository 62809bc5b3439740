//go:build integration

//lint:file-ignore SA1019 These tests use deprecated features.

package interop

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// offerChanges adds a tool that changes the server, and a tool that returns the number of notifications about roots.
func offerChanges(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "change", Description: "Change the server"}, func(_ context.Context, in struct {
		What string  `json:"what" enum:"tools,prompts,resources,resource"`
		URI  *string `json:"uri"`
	}) (string, error) {
		empty := func(context.Context, struct{}) (string, error) { return "", nil }
		switch in.What {
		case "tools":
			server.AddTool(s, mcp.Tool{Name: "temporary"}, empty)
			s.RemoveTool("temporary")
		case "prompts":
			server.AddPrompt(s, mcp.Prompt{Name: "temporary"}, empty)
			s.RemovePrompt("temporary")
		case "resources":
			server.AddStatic(s, mcp.Resource{URI: "test://temporary", Name: "temporary"}, "")
			s.RemoveResource("test://temporary")
		case "resource":
			s.ResourceUpdated(*in.URI)
		}
		return "changed", nil
	})
	var rootsChanged atomic.Int64
	s.RootsChanged = func(context.Context) { rootsChanged.Add(1) }
	server.AddTool(s, mcp.Tool{Name: "roots_changed", Description: "The number of changes of roots"},
		func(context.Context, struct{}) (string, error) { return fmt.Sprint(rootsChanged.Load()), nil })
}

// useChanges watches a server, in sessions and by subscriptions/listen, and notifies it that the roots have changed.
func useChanges(t *testing.T, p *peer) {
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan client.Change, 16)
	watched := make(chan error, 1)
	go func() {
		for change, err := range p.Watch(ctx, client.WatchFilter{Tools: true, Prompts: true, Resources: true, URIs: []string{"test://watched"}}) {
			if err != nil {
				watched <- err
				return
			}
			changes <- change
		}
		watched <- nil
	}()
	for range 4 { // one of each kind at the start
		if change := await(t, changes); !change.Resync {
			t.Errorf("first change: %+v, want Resync", change)
		}
	}
	for what, want := range map[string]client.Change{
		"tools":     {Kind: client.ToolsChanged},
		"prompts":   {Kind: client.PromptsChanged},
		"resources": {Kind: client.ResourcesChanged},
		"resource":  {Kind: client.ResourceUpdated, URI: "test://watched"},
	} {
		arguments := map[string]string{"what": what}
		if want.URI != "" {
			arguments["uri"] = want.URI
		}
		if _, err := p.CallTool(t.Context(), "change", arguments); err != nil {
			t.Fatal(err)
		}
		if got := await(t, changes); got != want {
			t.Errorf("change of %s: %+v, want %+v", what, got, want)
		}
	}
	cancel()
	if err := await(t, watched); err != nil {
		t.Errorf("Watch ended with %v", err)
	}

	if err := p.NotifyRootsChanged(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Revision() < mcp.V20260728 { // 2026-07-28 has no such notification
		for text := ""; text != "1"; {
			var err error
			if text, err = client.CallTool[string](t.Context(), p.Client, "roots_changed", nil); err != nil {
				t.Fatalf("roots_changed: %q, %v", text, err)
			}
		}
	}
}

// changesObservation is the change notifications that a client peer received.
type changesObservation struct {
	Error   *observedError
	Changes []struct{ Method, URI string }
	Honored *struct {
		ToolsListChanged, PromptsListChanged, ResourcesListChanged bool
		ResourceSubscriptions                                      []string
	}
	Closed       string
	RootsChanged callObservation
}

func (o changesObservation) check(t *testing.T, revision string) {
	t.Helper()
	if o.Error != nil {
		t.Fatalf("changes: %+v", o.Error)
	}
	// A temporary tool causes one or two notifications.
	var methods []string
	for _, change := range o.Changes {
		methods = append(methods, change.Method)
	}
	if methods = slices.Compact(methods); !slices.Equal(methods, []string{
		"notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated",
	}) || o.Changes[len(o.Changes)-1].URI != "test://watched" {
		t.Errorf("changes: %+v", o.Changes)
	}
	if revision >= "2026-07-28" {
		if h := o.Honored; h == nil || !h.ToolsListChanged || !h.PromptsListChanged || !h.ResourcesListChanged || len(h.ResourceSubscriptions) != 1 {
			t.Errorf("subscriptions: %+v", h)
		}
	} else if o.RootsChanged.text() != "1" {
		t.Errorf("the server received %q changes of roots, want 1", o.RootsChanged.text())
	}
}
