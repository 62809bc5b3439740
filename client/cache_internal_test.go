package client

import (
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/mcp"
)

// What changes while it is being asked for is old when it comes.
func TestWhatIsInvalidatedMeanwhileIsNotKept(t *testing.T) {
	var x Cache
	key := cacheKey{server: "s", method: mcp.MethodListTools}
	result := json.RawMessage(`{"ttlMs":1000,"cacheScope":"public"}`)
	first, second := x.ask(key), x.ask(key)
	first.keep(result, "a")
	x.invalidate("s", mcp.MethodListTools, nil)
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
