package client

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/parley-mcp/parley/mcp"
)

// What changes while it is being asked for is old when it comes.
func TestWhatIsInvalidatedMeanwhileIsNotKept(t *testing.T) {
	var x Cache
	key := cacheKey{server: cachedServer{address: "s"}, method: mcp.MethodListTools}
	result := json.RawMessage(`{"ttlMs":1000,"cacheScope":"public"}`)
	first, second := x.ask(key), x.ask(key)
	first.keep(result, "a")
	x.invalidate(cachedServer{address: "s"}, mcp.MethodListTools, nil)
	second.keep(result, "a")
	first.end()
	second.end()
	if n, size := x.Size(); n != 0 || size != 0 {
		t.Errorf("%d results of %d bytes are kept", n, size)
	}
	if len(x.groups) != 0 {
		t.Errorf("%d groups are left", len(x.groups))
	}
	third := x.ask(key)
	third.keep(result, "a")
	third.end()
	if raw, left := x.get(key, "b"); string(raw) != string(result) || left <= 0 {
		t.Errorf("got %s, fresh for %v", raw, left)
	}
}

// C1: only complete results say that they may be kept, and only "public" is public.
func TestHintsAreReadCarefully(t *testing.T) {
	for raw, want := range map[string]time.Duration{
		`{"ttlMs":1000,"cacheScope":"public"}`:                                time.Second,
		`{"resultType":"complete","ttlMs":1000,"cacheScope":"public"}`:        time.Second,
		`{"resultType":"com.example/odd","ttlMs":1000,"cacheScope":"public"}`: 0,
		`{"resultType":"input_required","ttlMs":1000,"cacheScope":"public"}`:  0,
		`{"ttlMs":-1000,"cacheScope":"public"}`:                               0,
		`{"ttlMs":1.5,"cacheScope":"public"}`:                                 0,
		`{"ttlMs":"1000","cacheScope":"public"}`:                              0,
		`{"ttlMs":92233720368547758070,"cacheScope":"public"}`:                0,
		`{"ttlMs":9223372036854775807,"cacheScope":"public"}`:                 maxFresh,
		`{"cacheScope":"public"}`:                                             0,
	} {
		if fresh, public := hintsOf(json.RawMessage(raw)); fresh != want || !public {
			t.Errorf("%s: %v, %v", raw, fresh, public)
		}
	}
	for _, scope := range []string{"", `,"cacheScope":"private"`, `,"cacheScope":"Public"`, `,"cacheScope":true`} {
		if _, public := hintsOf(json.RawMessage(`{"ttlMs":1000` + scope + `}`)); public {
			t.Errorf("%s is public", scope)
		}
	}
}
