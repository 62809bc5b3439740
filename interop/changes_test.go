//go:build integration

//lint:file-ignore SA1019 What is deprecated still has to work.

package interop

import (
	"context"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// useChanges watches what they offer, in sessions and by subscriptions/listen, and tells them that our roots are others.
func useChanges(t *testing.T, p *peer) {
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan client.Change, 16)
	watched := make(chan error, 1)
	go func() {
		for change, err := range p.Watch(ctx, client.WatchOptions{Tools: true, Prompts: true, Resources: true, URIs: []string{"test://watched"}}) {
			if err != nil {
				watched <- err
				return
			}
			changes <- change
		}
		watched <- nil
	}()
	for range 4 { // one of each kind, when they listen
		if change := await(t, changes); !change.Unsure {
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

	if err := p.RootsChanged(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Revision() < mcp.V20260728 { // which tells nobody
		for text := ""; text != "1"; {
			var err error
			if text, err = client.Call[string](t.Context(), p.Client, "roots_changed", nil); err != nil {
				t.Fatalf("roots_changed: %q, %v", text, err)
			}
		}
	}
}
