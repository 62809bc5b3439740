package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// parsed returns the configuration with the given JSON.
func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("/srv", "/srv/mcp.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWebhooksOfTheConfigurationAreCalled(t *testing.T) {
	var calls atomic.Int32
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Header.Get("Authorization") != "Bearer k3y":
			w.WriteHeader(http.StatusForbidden)
		case strings.Contains(string(body), `"text":"bad"`):
			_, _ = io.WriteString(w, `{"action":"deny","reason":"not this one"}`)
		case strings.Contains(string(body), `"event":"request"`):
			_, _ = io.WriteString(w, `{"action":"allow","arguments":{"text":"changed"}}`)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer hook.Close()
	var received []string
	s := &server.Server{Name: "up"}
	err := s.RegisterTool(mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		received = append(received, string(arguments))
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("done")}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewServer(s)
	defer upstream.Close()

	cmd := &cobra.Command{}
	var printed syncbuffer.Buffer
	cmd.SetIn(strings.NewReader(""))
	cmd.SetErr(&printed)
	r := newRules(cmd)
	defer r.client.Close()
	values := &config.Values{Env: func(string) (string, bool) { return "k3y", true }}
	text := `{"mcpServers":{},"hooks":[{"url":"` + hook.URL + `","headers":{"Authorization":"Bearer ${KEY}"},"server":"up","tool":"e*","timeout":"10s"}]}`
	set, err := r.load(parsed(t, text), values)
	if err != nil {
		t.Fatal(err)
	}
	r.set(set)
	h := &host.Host{Servers: []host.ServerConfig{{Name: "up", Target: client.URL(upstream.URL)}, {Name: "other", Target: client.URL(upstream.URL)}}, Logger: slog.New(slog.DiscardHandler)}
	r.apply(h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	call := func(server, text string) error {
		_, err := h.CallTool(t.Context(), server, "echo", map[string]string{"text": text})
		return err
	}
	if err := call("up", "good"); err != nil {
		t.Error(err)
	}
	if err := call("up", "bad"); err == nil || !strings.Contains(err.Error(), "not this one") {
		t.Errorf("rejected call: %v", err)
	}
	if err := call("other", "bad"); err != nil {
		t.Error(err)
	}
	if want := []string{`{"text":"changed"}`, `{"text":"bad"}`}; !slices.Equal(received, want) || calls.Load() != 3 {
		t.Errorf("the servers have received %q, want %q; the hook was called %d times", received, want, calls.Load())
	}
	hook.Close()
	if err := call("up", "good"); err == nil || !strings.Contains(err.Error(), "a hook rejects it: cannot get the decision of a webhook") {
		t.Errorf("call without the hook: %v", err)
	}
	if text := printed.String(); !strings.Contains(text, "cannot call the hook at 127.0.0.1") {
		t.Errorf("the log has no reason: %s", text)
	}
	r.set(&ruleSet{})
	if err := call("up", "good"); err != nil {
		t.Errorf("call after the hook was removed: %v", err)
	}
}

func TestRulesThatCannotBeUsedAreErrors(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.SetIn(strings.NewReader(""))
	r := newRules(cmd)
	defer r.client.Close()
	for text, want := range map[string]string{
		`{"policy":{"default":"deny","rules":[{"when":"1","action":"deny"}]}}`: "/srv/mcp.json:1: policy.rules[0].when: ",
		`{"policy":{"default":"deny","approvalTimeout":"2h"}}`:                 "/srv/mcp.json:1: policy.approvalTimeout must not exceed 1h",
		`{"hooks":[{"url":"x"}]}`:                                              "/srv/mcp.json:1: the URL of a hook must begin with http",
		`{"hooks":[{"url":"${MISSING}"}]}`:                                     "/srv/mcp.json:1: url: environment variable MISSING is not set",
	} {
		if _, err := r.load(parsed(t, text), &config.Values{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestRootsOfAServerAreItsDirectories(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Parse("/", dir+"/mcp.json", []byte(`{"mcpServers":{"a":{"url":"http://x","roots":["."],"trusted":true},"b":{"url":"http://x","roots":[]},"c":{"url":"http://x"},"d":{"url":"http://x","roots":["missing"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got [][]mcp.Root
	for i := range c.Servers[:3] {
		roots, err := rootsOf(&c.Servers[i], &config.Values{})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, roots)
	}
	if len(got[0]) != 1 || got[0][0].URI != "file://"+dir || got[1] == nil || len(got[1]) != 0 || got[2] != nil || !c.Servers[0].Trusted || c.Servers[1].Trusted {
		t.Errorf("roots: %+v", got)
	}
	if _, err := rootsOf(&c.Servers[3], &config.Values{}); err == nil || !strings.HasPrefix(err.Error(), "roots: ") {
		t.Errorf("missing directory: %v", err)
	}
}
