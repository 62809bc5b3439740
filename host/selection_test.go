package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// toolbox returns a server with tools and prompts of the given names. Each tool returns its name.
func toolbox(name string, tools ...string) *server.Server {
	s := &server.Server{Name: name, Version: "1"}
	for _, tool := range tools {
		server.AddTool(s, mcp.Tool{Name: tool}, func(context.Context, none) (string, error) {
			return tool + " of " + name, nil
		})
		server.AddPrompt(s, mcp.Prompt{Name: tool}, func(context.Context, none) (string, error) { return tool, nil })
	}
	return s
}

// selected returns the config of a server with a selection of its tools and prompts.
func selected(t *testing.T, s *server.Server, name string, tools host.Selection) host.ServerConfig {
	config := configOf(t, s, name)
	config.Tools, config.Prompts = tools, tools
	return config
}

func mergedNames(h *host.Host) (names []string) {
	for _, tool := range h.Tools() {
		names = append(names, tool.Name)
	}
	return names
}

func promptsOf(h *host.Host) (names []string) {
	for _, status := range h.Status() {
		for _, prompt := range status.Prompts {
			names = append(names, prompt.Name)
		}
	}
	return names
}

// A misspelt name would hide nothing, so the status reports it. A pattern may match nothing.
func TestSelectionOfUnknownNamesIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		selection host.Selection
		want      string
	}{
		"hide": {host.Selection{Hide: []string{"delet", "read"}},
			`the configuration names the tools ["delet"], which the server does not list`},
		"only": {host.Selection{Only: []string{"read", "raed", "x*"}},
			`the configuration names the tools ["raed"]`},
		"rename": {host.Selection{Rename: map[string]string{"wread": "a"}},
			`the configuration names the prompts ["wread"]`},
		"patterns": {host.Selection{Hide: []string{"x*"}, Only: []string{"*", "????x"}}, ""},
		"known":    {host.Selection{Hide: []string{"delete"}, Rename: map[string]string{"read": "a"}}, ""},
	} {
		h := start(t, &host.Host{Servers: []host.ServerConfig{selected(t, toolbox("a", "read", "delete"), "a",
			c.selection)}})
		s := await(t, h, "a", func(s host.ServerStatus) bool { return s.State == host.Ready })
		if got := fmt.Sprint(s.Incomplete); c.want == "" && s.Incomplete != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestSelectionHidesAndRenames(t *testing.T) {
	for name, c := range map[string]struct {
		selection host.Selection
		want      []string
	}{
		"everything": {host.Selection{}, []string{"a__delete", "a__read_all", "a__read_one"}},
		"only":       {host.Selection{Only: []string{"read_*"}}, []string{"a__read_all", "a__read_one"}},
		"hide":       {host.Selection{Hide: []string{"*_all", "delete"}}, []string{"a__read_one"}},
		"both":       {host.Selection{Only: []string{"read_???"}, Hide: []string{"*_all"}}, []string{"a__read_one"}},
		"rename": {host.Selection{Rename: map[string]string{"read_one": "read"}, Hide: []string{"delete"}},
			[]string{"a__read", "a__read_all"}},
		"nothing": {host.Selection{Only: []string{"other"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, &host.Host{Servers: []host.ServerConfig{selected(t,
				toolbox("a", "read_one", "read_all", "delete"), "a", c.selection)}})
			must.Do(t, h.WaitReady(t.Context()))
			for _, got := range [][]string{mergedNames(h), promptsOf(h)} {
				if slices.Sort(got); !slices.Equal(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
			}
		})
	}
}

func TestToolsThatAreNotSelectedCannotBeCalled(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{
		selected(t, toolbox("a", "read", "delete"), "a",
			host.Selection{Hide: []string{"del*"}, Rename: map[string]string{"read": "get"}}),
	}})
	result := must.Get(h.Call(t.Context(), "a__get", nil))(t)
	must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, "read of a", result)
	for _, name := range []string{"a__delete", "a__read"} {
		must.CheckIs(t, must.Err(h.Call(t.Context(), name, nil)), host.ErrUnknown, name)
	}
	must.CheckIs(t, must.Err(h.Client("a").CallTool(t.Context(), "delete", nil)), host.ErrUnknown)
	must.Check(t, must.Err(h.Client("a").CallTool(t.Context(), "read", nil)))
	must.CheckIs(t, must.Err(h.Client("a").GetPrompt(t.Context(), "delete", nil)), host.ErrUnknown)
	must.Check(t, must.Err(h.Client("a").GetPrompt(t.Context(), "read", nil)))
	_, err := h.Client("a").Complete(t.Context(), mcp.CompleteParams{Ref: mcp.CompleteReference{Type: mcp.RefPrompt,
		Name: "delete"}})
	must.CheckThat(t, errors.Is(err, host.ErrUnknown), "Complete: %v", err)
}

func TestToolsAreSelectedByAnnotations(t *testing.T) {
	no, yes := false, true
	annotated := map[string]*mcp.ToolAnnotations{
		"none": nil, "empty": {}, "reads": {ReadOnlyHint: true}, "adds": {DestructiveHint: &no},
		"deletes": {DestructiveHint: &yes},
		"sets":    {IdempotentHint: true}, "local": {OpenWorldHint: &no}, "web": {OpenWorldHint: &yes},
	}
	for name, c := range map[string]struct {
		selection host.Selection
		want      []string
	}{
		"read-only":       {host.Selection{Annotations: mcp.ToolAnnotations{ReadOnlyHint: true}}, []string{"reads"}},
		"non-destructive": {host.Selection{Annotations: mcp.ToolAnnotations{DestructiveHint: &no}}, []string{"adds", "reads"}},
		"idempotent":      {host.Selection{Annotations: mcp.ToolAnnotations{IdempotentHint: true}}, []string{"reads", "sets"}},
		"closed world":    {host.Selection{Annotations: mcp.ToolAnnotations{OpenWorldHint: &no}}, []string{"local"}},
		"two":             {host.Selection{Annotations: mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}}, nil},
		"and a pattern": {host.Selection{Annotations: mcp.ToolAnnotations{DestructiveHint: &no},
			Hide: []string{"a*"}}, []string{"reads"}},
		"destructive": {host.Selection{Annotations: mcp.ToolAnnotations{DestructiveHint: &yes}}, []string{"deletes"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server.Server{Name: "a", Version: "1"}
			for tool, annotations := range annotated {
				server.AddTool(s, mcp.Tool{Name: tool, Annotations: annotations},
					func(context.Context, none) (string, error) { return tool, nil })
			}
			config := configOf(t, s, "a")
			config.Tools = c.selection
			h := start(t, &host.Host{Servers: []host.ServerConfig{config}})
			must.Do(t, h.WaitReady(t.Context()))
			var got []string
			for _, tool := range h.Tools() {
				got = append(got, tool.Definition.Name)
			}
			must.CheckThat(t, slices.Equal(got, c.want), "%q, want %q", got, c.want)
			for tool := range annotated {
				_, err := h.Client("a").CallTool(t.Context(), tool, nil)
				must.CheckThat(t, slices.Contains(c.want, tool) == (err == nil) &&
					(err == nil || errors.Is(err, host.ErrUnknown)), "CallTool(%s): %v", tool, err)
			}
		})
	}
}

func TestInvalidSelectionsAndPrefixesAreRejected(t *testing.T) {
	valid := host.ServerConfig{Name: "a", Target: client.URL("http://127.0.0.1:1")}
	for want, change := range map[string]func(*host.ServerConfig){
		`new name "" of "x" must have 1 to 128`: func(c *host.ServerConfig) {
			c.Tools.Rename = map[string]string{"x": ""}
		},
		`prompts of server "a": new name "a b" of`: func(c *host.ServerConfig) {
			c.Prompts.Rename = map[string]string{"x": "a b"}
		},
		"prompts must not be selected by annotations": func(c *host.ServerConfig) {
			c.Prompts.Annotations.ReadOnlyHint = true
		},
		`server "a": server name "a__b" must not`: func(c *host.ServerConfig) { c.Prefix = "a__b" },
		"must have at most 21 characters":         func(c *host.ServerConfig) { c.Prefix = strings.Repeat("p", 22) },
	} {
		config := valid
		change(&config)
		h := &host.Host{Servers: []host.ServerConfig{config}, MaxName: 32}
		must.CheckFails(t, h.Start(), want)
		h.Close()
	}
}

// prefixed returns the config of a server whose merged names begin with another prefix.
func prefixed(t *testing.T, name, prefix string, tools ...string) host.ServerConfig {
	config := configOf(t, toolbox(name, tools...), name)
	config.Prefix, config.NoPrefix = prefix, prefix == ""
	return config
}

func TestPrefixReplacesNameOfServer(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{prefixed(t, "long-name", "gh", "read"),
		prefixed(t, "bare", "", "write", "__")}})
	for name, want := range map[string]string{"gh__read": "read of long-name", "write": "write of bare",
		"__": "__ of bare"} {
		result, err := h.Call(t.Context(), name, nil) // waits for the servers that may offer the name
		must.Do(t, err)
		must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, want, name, result)
	}
	must.CheckIs(t, must.Err(h.Call(t.Context(), "long-name__read", nil)), host.ErrUnknown)
	if got, want := mergedNames(h), []string{"gh__read", "__", "write"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if s := h.Status(); s[0].Config.NamePrefix() != "gh__" || s[1].Config.NamePrefix() != "" {
		t.Errorf("prefixes %q, %q", s[0].Config.NamePrefix(), s[1].Config.NamePrefix())
	}
}

func TestNamesThatSeveralServersHaveAreWithheld(t *testing.T) {
	a, b, c := prefixed(t, "a", "", "shared", "x", "c__y"), prefixed(t, "b", "", "shared", "z"),
		configOf(t, toolbox("c", "y", "own"), "c")
	h := start(t, &host.Host{Servers: []host.ServerConfig{a, b, c}})
	must.Do(t, h.WaitReady(t.Context()))
	want := []string{"c__own", "c__y", "x", "z"}
	for _, got := range [][]string{mergedNames(h), promptsOf(h)} {
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for i, conflict := range []string{"tool c__y is withheld", `tool shared is withheld: several servers offer it, ["a" "b"]`} {
		status := h.Status()[i]
		must.CheckThat(t, status.State == host.Ready && status.Incomplete != nil &&
			strings.Contains(status.Incomplete.Error(), conflict),
			"server %s is %v: %v, want %s", status.Name, status.State, status.Incomplete, conflict)
	}
	_, err := h.Call(t.Context(), "shared", nil)
	must.CheckThat(t, errors.Is(err, host.ErrUnknown) && strings.Contains(err.Error(), "withheld"),
		"a call of a withheld tool: %v", err)
	must.Check(t, must.Err(h.Client("b").CallTool(t.Context(), "shared", nil)), "a call by the server's own name")

	// The name is free when only one server claims it.
	must.Do(t, h.SetServers([]host.ServerConfig{a, c}))
	await(t, h, "a", func(s host.ServerStatus) bool { return len(s.Tools) == 2 })
	result := must.Get(h.Call(t.Context(), "shared", nil))(t)
	must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, "shared of a", result)
	a.Tools.Rename = map[string]string{"c__y": "other"}
	a.Prompts.Hide = []string{"c__y"}
	must.Do(t, h.SetServers([]host.ServerConfig{a, c}))
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
	before := must.Get(who(t, h, "one"))(t)
	config.Tools = host.Selection{Hide: []string{"die"}, Rename: map[string]string{"who": "id"}}
	must.Do(t, h.SetServers([]host.ServerConfig{config}))
	got := mergedNames(h)
	must.CheckThat(t, slices.Equal(got, []string{"one__id"}), "%q", got)
	must.CheckEqual(t, must.Get(who(t, h, "one"))(t), before)
}

// A server without a prefix could otherwise receive the calls of another one that has not started.
func TestNamesThatBeginWithAnotherServerAreReserved(t *testing.T) {
	bare := configOf(t, toolbox("bare", "files__read", "Files__list", "fs__read", "bare__own", "a__b", "open"), "bare")
	bare.NoPrefix = true
	files, renamed := configOf(t, toolbox("files", "read"), "files"), configOf(t, toolbox("disk", "read"), "disk")
	files.Lazy, renamed.Lazy, renamed.Prefix = true, true, "fs"
	h := start(t, &host.Host{Servers: []host.ServerConfig{bare, files, renamed}})
	must.Do(t, h.WaitReady(t.Context()))
	must.CheckEqual(t, fmt.Sprint(slices.Sorted(slices.Values(mergedNames(h)))), "[a__b bare__own open]")
	must.CheckEqual(t, fmt.Sprint(slices.Sorted(slices.Values(promptsOf(h)))), "[a__b bare__own open]")
	must.CheckFails(t, h.Status()[0].Incomplete, "tool files__read is withheld")
	result := must.Get(h.Call(t.Context(), "files__read", nil))(t)
	must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, "read of files")
	must.Do(t, h.SetServers([]host.ServerConfig{bare}))
	got := mergedNames(h)
	must.CheckEqual(t, len(got), 6, "tools without the other servers", got)
	must.Do(t, h.SetServers([]host.ServerConfig{renamed, bare}))
	if got := mergedNames(h); slices.Contains(got, "fs__read") || !slices.Contains(got, "files__read") {
		t.Errorf("tools with a new server: %s", got)
	}
}
