//go:build integration

package interop

import (
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// useCache asks twice for what they say is fresh for a minute (2026-07-28, server/utilities/caching).
func useCache(t *testing.T, p *peer) {
	list := func(options ...client.CallOption) {
		for _, err := range p.Tools(t.Context(), options...) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(options ...client.CallOption) {
		if _, err := p.ReadResource(t.Context(), "test://watched", options...); err != nil {
			t.Fatal(err)
		}
	}
	again := 0 // how often a second request is sent
	if p.Revision() < mcp.V20260728 {
		again = 1
	}
	for method, ask := range map[string]func(...client.CallOption){"tools/list": list, "resources/read": read} {
		ask(client.WithRefresh())
		before := p.sent(method)
		ask()
		if sent := p.sent(method) - before; sent != again {
			t.Errorf("%s was asked for %d times, want %d", method, sent, again)
		}
		ask(client.WithRefresh())
		if sent := p.sent(method) - before; sent != again+1 {
			t.Errorf("%s was not asked for anew: %d times, want %d", method, sent, again+1)
		}
	}
}

// A cacheObservation is how often a client peer has sent a second request for what it had already.
type cacheObservation struct {
	Error         *observedError
	Prompts, Read int
}

func (o cacheObservation) check(t *testing.T, revision string) {
	t.Helper()
	want := cacheObservation{Prompts: 1, Read: 1}
	if revision >= "2026-07-28" {
		want = cacheObservation{}
	}
	if o != want {
		t.Errorf("second requests: %+v, want %+v", o, want)
	}
}
