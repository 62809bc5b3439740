package call

import (
	"strconv"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

// LimitRate tracks a limited number of callers and forgets idle ones first.
// Rule Y1.
func TestLimitRateTracksALimitedNumberOfCallers(t *testing.T) {
	now := time.Unix(1e9, 0)
	b := &buckets{limit: RateLimit{PerSecond: 1, Burst: 2, now: func() time.Time {
		return now
	}}, callers: make(map[caller]*bucket)}
	for i := range maxCallers {
		b.take(t.Context(), caller{source: strconv.Itoa(i)})
	}
	now = now.Add(time.Minute)
	greedy := caller{source: "0"}
	b.take(t.Context(), greedy)
	b.take(t.Context(), greedy)
	b.take(t.Context(), caller{source: "one more"})
	must.CheckEqual(t, len(b.callers), 2)
	must.CheckThat(t, b.take(t.Context(), greedy) != 0, "a caller with an empty bucket was forgotten")
	for i := range 5 * maxCallers {
		b.take(t.Context(), caller{source: strconv.Itoa(i)})
		must.That(t, len(b.callers) <= maxCallers, "%d callers are tracked", len(b.callers))
	}
}

// WithClock replaces the clock of a limit.
func WithClock(limit RateLimit, now func() time.Time) RateLimit {
	limit.now = now
	return limit
}
