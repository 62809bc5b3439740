//go:build integration

//lint:file-ignore SA1019 What is deprecated still has to work.

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

// offerChanges adds a tool that changes the server, and counts how often clients say that their roots are others.
func offerChanges(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "change", Description: "Change something"}, func(_ context.Context, in struct {
		What string  `json:"what" enum:"tools,prompts,resources,resource"`
		URI  *string `json:"uri"`
	}) (string, error) {
		nothing := func(context.Context, struct{}) (string, error) { return "", nil }
		switch in.What {
		case "tools":
			server.AddTool(s, mcp.Tool{Name: "passing"}, nothing)
			s.RemoveTool("passing")
		case "prompts":
			server.AddPrompt(s, mcp.Prompt{Name: "passing"}, nothing)
			s.RemovePrompt("passing")
		case "resources":
			server.AddStatic(s, mcp.Resource{URI: "test://passing", Name: "passing"}, "")
			s.RemoveResource("test://passing")
		case "resource":
			s.ResourceUpdated(*in.URI)
		}
		return "changed", nil
	})
	var rootsChanged atomic.Int64
	s.RootsChanged = func(context.Context) { rootsChanged.Add(1) }
	server.AddTool(s, mcp.Tool{Name: "roots_changed", Description: "How often the roots have changed"},
		func(context.Context, struct{}) (string, error) { return fmt.Sprint(rootsChanged.Load()), nil })
}

// useChanges watches what they offer, in sessions and by subscriptions/listen, and tells them that our roots are others.
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
	for range 4 { // one of each kind, when they listen
		if change := await(t, changes); !change.Resync {
			t.Errorf("at first there is %+v", change)
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
			t.Errorf("a change of %s: %+v", what, got)
		}
	}
	cancel()
	if err := await(t, watched); err != nil {
		t.Errorf("watching ends with %v", err)
	}

	if err := p.NotifyRootsChanged(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Revision() < mcp.V20260728 { // which tells nobody
		for text := ""; text != "1"; {
			var err error
			if text, err = client.CallTool[string](t.Context(), p.Client, "roots_changed", nil); err != nil {
				t.Fatalf("roots_changed: %q, %v", text, err)
			}
		}
	}
}

// A changesObservation is what a client peer was told of changes.
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
	// One change may be told once or twice: something has come, and something has gone.
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
			t.Errorf("listening to %+v", h)
		}
	} else if o.RootsChanged.text() != "1" {
		t.Errorf("the server has heard of %q changes of roots", o.RootsChanged.text())
	}
}
