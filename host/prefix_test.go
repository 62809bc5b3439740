package host_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// prefixed returns the config of a server whose merged names have another prefix.
func prefixed(t *testing.T, name, prefix string, tools ...string) host.ServerConfig {
	config := configOf(t, toolbox(name, tools...), name)
	config.Prefix = &prefix
	return config
}

func TestPrefixReplacesNameOfServer(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{prefixed(t, "long-name", "gh", "read"), prefixed(t, "bare", "", "write", "__")}})
	for name, want := range map[string]string{"gh__read": "read of long-name", "write": "write of bare", "__": "__ of bare"} {
		result, err := h.Call(t.Context(), name, nil) // waits for the servers that may have the name
		if err != nil || result.Content[0].(*mcp.TextContent).Text != want {
			t.Errorf("Call(%s): %+v, %v", name, result, err)
		}
	}
	if _, err := h.Call(t.Context(), "long-name__read", nil); !errors.Is(err, host.ErrUnknownTool) {
		t.Errorf("the name with the name of the server: %v", err)
	}
	if got, want := mergedNames(h), []string{"gh__read", "__", "write"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if s := h.Status(); s[0].Prefix != "gh__" || s[1].Prefix != "" {
		t.Errorf("prefixes %q, %q", s[0].Prefix, s[1].Prefix)
	}
}

func TestNamesThatSeveralServersHaveAreWithheld(t *testing.T) {
	a, b, c := prefixed(t, "a", "", "shared", "x", "c__y"), prefixed(t, "b", "", "shared", "z"), configOf(t, toolbox("c", "y", "own"), "c")
	h := start(t, &host.Host{Servers: []host.ServerConfig{a, b, c}})
	if err := h.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"c__own", "x", "z"}
	for _, got := range [][]string{mergedNames(h), promptsOf(h)} {
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for i, conflict := range []string{`the servers ["a" "c"]`, `tool shared is withheld: the servers ["a" "b"] have it`, "prompt c__y is withheld"} {
		status := h.Status()[i]
		if status.State != host.Degraded || status.Incomplete == nil || !strings.Contains(status.Incomplete.Error(), conflict) {
			t.Errorf("server %s is %v: %v, want %s", status.Name, status.State, status.Incomplete, conflict)
		}
	}
	if _, err := h.Call(t.Context(), "shared", nil); !errors.Is(err, host.ErrUnknownTool) || !strings.Contains(err.Error(), "withheld") {
		t.Errorf("a call of a withheld tool: %v", err)
	}
	if _, err := h.CallTool(t.Context(), "b", "shared", nil); err != nil {
		t.Errorf("a call by the server's own name: %v", err)
	}

	// The name is free when one server is left that claims it.
	if err := h.SetServers([]host.ServerConfig{a, c}); err != nil {
		t.Fatal(err)
	}
	await(t, h, "a", func(s host.ServerStatus) bool { return len(s.Tools) == 2 })
	if result, err := h.Call(t.Context(), "shared", nil); err != nil || result.Content[0].(*mcp.TextContent).Text != "shared of a" {
		t.Errorf("%+v, %v", result, err)
	}
	a.Tools.Rename = map[string]string{"c__y": "other"}
	a.Prompts.Hide = []string{"c__y"}
	if err := h.SetServers([]host.ServerConfig{a, c}); err != nil {
		t.Fatal(err)
	}
	if got, want := mergedNames(h), []string{"other", "shared", "x", "c__own", "c__y"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if s := h.Status(); s[0].State != host.Ready || s[1].State != host.Ready {
		t.Errorf("%v %v, %v %v", s[0].State, s[0].Incomplete, s[1].State, s[1].Incomplete)
	}
}

func TestSelectionChangesWithoutReconnect(t *testing.T) {
	config := inProcess("one")
	h := start(t, &host.Host{Servers: []host.ServerConfig{config}})
	before, err := who(t, h, "one")
	if err != nil {
		t.Fatal(err)
	}
	config.Tools = host.Selection{Hide: []string{"die"}, Rename: map[string]string{"who": "id"}}
	if err := h.SetServers([]host.ServerConfig{config}); err != nil {
		t.Fatal(err)
	}
	if got := mergedNames(h); !slices.Equal(got, []string{"one__id"}) {
		t.Errorf("%q", got)
	}
	if after, err := who(t, h, "one"); err != nil || after != before {
		t.Errorf("%+v, %v; before %+v", after, err, before)
	}
}
