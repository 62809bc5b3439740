//go:build integration

package interop

import (
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// useCache makes requests twice whose results are fresh for a minute (2026-07-28, server/utilities/caching).
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
	again := 0 // how many second requests are sent
	if p.Revision() < mcp.V20260728 {
		again = 1
	}
	for method, request := range map[string]func(...client.CallOption){"tools/list": list, "resources/read": read} {
		request(client.WithRefresh())
		before := p.sent(method)
		request()
		if sent := p.sent(method) - before; sent != again {
			t.Errorf("%s: %d second requests, want %d", method, sent, again)
		}
		request(client.WithRefresh())
		if sent := p.sent(method) - before; sent != again+1 {
			t.Errorf("%s: %d requests with a refresh, want %d", method, sent, again+1)
		}
	}
}

// cacheObservation is the number of second requests of a client peer.
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
