package gateway_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestEntriesOfServersThatAreRemovedDisappear(t *testing.T) {
	library := func(name string) host.ServerConfig {
		s := &server.Server{Name: name, Version: "1", Instructions: "Text of " + name + "."}
		server.AddTool(s, mcp.Tool{Name: "t"}, func(context.Context, struct{}) (string, error) { return name, nil })
		server.AddStatic(s, mcp.Resource{URI: "lib://shared", Name: name}, name)
		return inMemory(t, name, s)
	}
	a, b := library("a"), library("b")
	h := &host.Host{Servers: []host.ServerConfig{a, b}}
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, h, s)
	if err := h.SetServers([]host.ServerConfig{b, library("c")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := mcptest.Dial(t, s)
	want := []string{"b__t", "c__t"}
	var names []string
	for _, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		if err != nil {
			t.Fatalf("tools %q, want %q: %v", names, want, err)
		}
		names = nil
		for _, tool := range listed(t, c) {
			names = append(names, tool.Name)
		}
		if slices.Sort(names); slices.Equal(names, want) {
			break
		}
	}
	result, err := c.ReadResource(t.Context(), "server:b/lib://shared")
	if err != nil || result.Contents[0].Text != "b" {
		t.Errorf("%+v %v", result, err)
	}
	if text := mcptest.Dial(t, s).Server().Instructions; !strings.Contains(text, "Text of b.") || strings.Contains(text, "Text of a.") {
		t.Errorf("instructions %q", text)
	}
}
