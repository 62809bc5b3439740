package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

func TestResultInvalidatedInFlightIsNotCached(t *testing.T) {
	var x resultCache
	key := cacheKey{method: mcp.MethodListTools}
	result := json.RawMessage(`{"ttlMs":1000,"cacheScope":"public"}`)
	first, second := x.begin(key), x.begin(key)
	first.keep(result, "a")
	x.invalidate(mcp.MethodListTools, nil)
	second.keep(result, "a")
	first.end()
	second.end()
	n, size := x.size()
	must.CheckThat(t, n == 0 && size == 0, "the cache has %d results of %d bytes, want none", n, size)
	must.CheckEqual(t, len(x.groups), 0)
	third := x.begin(key)
	third.keep(result, "a")
	third.end()
	raw, left := x.get(key, "b")
	must.CheckThat(t, string(raw) == string(result) && left > 0, "got %s, fresh for %v", raw, left)
}

// Rule C1: only complete results are cached, and only the scope "public" is public.
func TestCacheHintsAreReadStrictly(t *testing.T) {
	for raw, want := range map[string]time.Duration{
		`{"ttlMs":1000,"cacheScope":"public"}`:                                time.Second,
		`{"resultType":"complete","ttlMs":1000,"cacheScope":"public"}`:        time.Second,
		`{"resultType":"com.example/odd","ttlMs":1000,"cacheScope":"public"}`: 0,
		`{"resultType":"input_required","ttlMs":1000,"cacheScope":"public"}`:  0,
		`{"ttlMs":1000.0,"cacheScope":"public"}`:                              time.Second,
		`{"ttlMs":1e3,"cacheScope":"public"}`:                                 time.Second,
		`{"ttlMs":1e400,"cacheScope":"public"}`:                               0,
		`{"ttlMs":-1000,"cacheScope":"public"}`:                               0,
		`{"ttlMs":1.5,"cacheScope":"public"}`:                                 0,
		`{"ttlMs":"1000","cacheScope":"public"}`:                              0,
		`{"ttlMs":92233720368547758070,"cacheScope":"public"}`:                0,
		`{"ttlMs":9223372036854775807,"cacheScope":"public"}`:                 24 * time.Hour,
		`{"ttlMs":-9223372036854775808,"cacheScope":"public"}`:                0,
		`{"cacheScope":"public"}`:                                             0,
	} {
		ttl, public := cacheHints(json.RawMessage(raw))
		must.CheckThat(t, ttl == want && public, "%s: got %v and public %v, want %v and true", raw, ttl, public, want)
	}
	for _, scope := range []string{"", `,"cacheScope":"private"`, `,"cacheScope":"Public"`, `,"cacheScope":true`} {
		_, public := cacheHints(json.RawMessage(`{"ttlMs":1000` + scope + `}`))
		must.CheckThat(t, !public, "scope %s is public", scope)
	}
}

// Many reads do not grow the cache above its limit.
func TestCacheIsBounded(t *testing.T) {
	var x resultCache
	result := json.RawMessage(`{"ttlMs":1000,"cacheScope":"public","contents":[{"uri":"note://a","text":"` +
		strings.Repeat("x", 64<<10) + `"}]}`)
	for i := range 1000 {
		pending := x.begin(cacheKey{method: mcp.MethodReadResource, params: fmt.Sprint(i)})
		pending.keep(result, "a")
		pending.end()
		n, size := x.size()
		must.That(t, size <= maxCacheBytes && n == len(x.kept) && n == x.recent.Len() &&
			n == len(x.groups[mcp.MethodReadResource].kept),
			"the cache has %d results of %d bytes after %d reads", n, size, i+1)
	}
	if n, size := x.size(); size < maxCacheBytes-2*len(result) || n > 128 {
		t.Errorf("the cache has %d results of %d bytes", n, size)
	}
	x.forget()
	if n, size := x.size(); n != 0 || size != 0 || len(x.groups) != 0 {
		t.Errorf("the cache has %d results of %d bytes after forget", n, size)
	}
}

// Rule V4.
func TestOutputSchemasTakeBoundedMemory(t *testing.T) {
	large := func(n int) []byte {
		raw := []byte(`{"type":"object","patternProperties":{`)
		for i := range 40 {
			raw = fmt.Appendf(raw, `"^%d\\pL{900}$":{},`, n*100+i)
		}
		return append(raw, `"x":{}}}`...)
	}
	var o outputs
	use := func(tool string) error {
		known := o.of(tool)
		var err error
		known.once.Do(func() { known.compiled, err = known.memory.Compile(known.raw) })
		return err
	}
	n := 0
	var err error
	for ; err == nil; n++ {
		o.learn(fmt.Sprint("t", n), large(n))
		err = use(fmt.Sprint("t", n))
		must.That(t, n <= 60, "memory is not bounded")
	}
	must.CheckIs(t, err, schema.ErrLimit)
	// When a server changes its schemas, the old ones make room for the new
	// ones.
	for i := range 2 * n {
		o.learn("t0", large(n+i))
		must.Do(t, use("t0"), i)
	}
	o.learn("t0", nil)
	o.learn("t", []byte(`{"type":"object"}`))
	if err := use("t"); errors.Is(err, schema.ErrLimit) {
		t.Error(err)
	}
}
