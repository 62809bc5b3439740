package main

import (
	"slices"
	"sync"
	"testing"

	"example.com/ownextension/search"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcptest"
)

// TestFind searches in every revision of the protocol, on every transport.
func TestFind(t *testing.T) {
	var mu sync.Mutex
	var matches []string
	onMatch := func(uri string) {
		mu.Lock()
		defer mu.Unlock()
		matches = append(matches, uri)
	}
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		if !search.Supported(c) {
			t.Fatal("the server does not have the extension")
		}
		mu.Lock()
		matches = nil
		mu.Unlock()
		found, err := search.Find(t.Context(), c, " mil ")
		if err != nil || !slices.Equal(found, notes) {
			t.Errorf("found %q, %v", found, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := notes[:2]; !slices.Equal(matches, want) {
			t.Errorf("notified of %q, want %q", matches, want)
		}
	}, func(d *client.Dialer) { d.Extensions = []client.Extension{search.Extension(onMatch)} })
}
