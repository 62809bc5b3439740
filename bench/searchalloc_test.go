//go:build !race

package bench

import "testing"

// maxSearchAllocs is the limit for a search in 2,000 tools.
const maxSearchAllocs = 70

func TestAllocationsOfASearch(t *testing.T) {
	h := newCatalog(t)
	for name, query := range queries {
		allocs := testing.AllocsPerRun(20, func() { h.Search(t.Context(), query, 10) })
		t.Logf("%s: %v allocations", name, allocs)
		if allocs > maxSearchAllocs {
			t.Errorf("%s: %v allocations, the limit is %d", name, allocs, maxSearchAllocs)
		}
	}
}
