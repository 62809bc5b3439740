package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// parley up declares the extensions of its configuration and forwards their methods in every revision, and follows
// changes of the file.
func TestUpForwardsTheExtensionsOfItsConfiguration(t *testing.T) {
	const id = "com.example/jobs"
	builds := &server.Server{Name: "builds"}
	server.AddExtension(builds, server.Extension{ID: id, Requests: map[string]server.ExtensionRequest{
		"jobs/run": func(_ context.Context, params json.RawMessage) (any, error) { return map[string]any{"ran": true}, nil },
	}})
	upstream := httptest.NewServer(builds)
	defer upstream.Close()
	config := filepath.Join(t.TempDir(), "mcp.json")
	write := func(extensions string) {
		t.Helper()
		text := `{"mcpServers":{"builds":{"url":"` + upstream.URL + `"` + extensions + `}}}`
		if err := os.WriteFile(config+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(config+".new", config); err != nil {
			t.Fatal(err)
		}
	}
	const extended = `,"extensions":{"com.example/jobs":{"settings":{"queue":"a"},"requests":["jobs/run"]}}`
	write(extended)
	url := startParley(t, `http://[0-9.:]+/mcp`, "up", "--config", config, "--addr", "127.0.0.1:0")
	for _, state := range []struct {
		extensions string
		works      bool
	}{{extended, true}, {"", false}, {extended, true}} {
		write(state.extensions)
		for _, r := range mcp.Revisions() {
			deadline := time.Now().Add(waitLimit)
			for { // until the file was read
				d := client.Dialer{Revision: r, Extensions: []client.Extension{{ID: id}}}
				c, err := d.Dial(t.Context(), client.URL(url))
				if err != nil {
					t.Fatal(err)
				}
				settings, declared := c.Server().Extension(id)
				result, err := c.CallExtension(t.Context(), "jobs/run", nil)
				works := err == nil && strings.Contains(string(result), `"ran":true`)
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if works == state.works && declared == state.works && (!declared || string(settings) == `{"queue":"a"}`) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s with %q: declared %t (%s), result %s, %v", r, state.extensions, declared, settings, result, err)
				}
			}
		}
	}
}
