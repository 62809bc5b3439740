//go:build integration

//lint:file-ignore SA1019 What is deprecated still has to work.

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// useCalls cancels one of their tools, has another log and a third ping us, and calls a method of no protocol.
func useCalls(t *testing.T, p *peer) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := p.CallTool(ctx, "wait", nil, client.OnProgress(func(call.Progress) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
	for text := ""; text != "1"; { // our cancellation overtakes nothing, but nobody says when it is there
		if text, err = client.Call[string](t.Context(), p.Client, "cancelled", nil); err != nil {
			t.Fatalf("cancelled: %q, %v", text, err)
		}
	}

	if err := p.SetLogLevel(t.Context(), mcp.LevelWarning); err != nil {
		t.Fatal(err)
	}
	if _, err := p.CallTool(t.Context(), "talk", nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []mcp.LoggingLevel{mcp.LevelWarning, mcp.LevelError} {
		if got := await(t, p.logged); got.Level != want || got.Logger != "interop" || !json.Valid(got.Data) {
			t.Errorf("logged %+v, want something at level %s", got, want)
		}
	}

	if p.Revision() < mcp.V20260728 { // which has no pings
		if text, err := client.Call[string](t.Context(), p.Client, "ping", nil); err != nil || text != "it is there" {
			t.Errorf("their ping: %q, %v", text, err)
		}
	}

	shouted, err := client.Request[struct{ Shouted string }](t.Context(), p.Client, shoutMethod, map[string]string{"text": "hey"})
	if err != nil || shouted.Shouted != "HEY" {
		t.Errorf("a method of an extension: %+v, %v", shouted, err)
	}
}

// Shouting is an extension, with one method.
const (
	shouting    = "com.example/shouting"
	shoutMethod = "com.example/shout"
)
