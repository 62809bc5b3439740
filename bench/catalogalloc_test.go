//go:build !race

package bench

import (
	"runtime"
	"testing"
)

const maxRegistrationRatio = 1.6 // allocated bytes for each tool with 40 servers, compared with 10 servers

// A page of 1,000 of 2,000 tools was encoded before.
func TestAllocationsOfACatalogList(t *testing.T) {
	for name, c := range catalogLists {
		s, _ := register(t, newCatalogOf(t, 40, c.policy), c.budget)
		allocs, size := handlerCost(t, s, listMessage())
		t.Logf("%s: %v allocations, %v bytes", name, allocs, size)
		if allocs > c.allocs {
			t.Errorf("%s: %v allocations, the limit is %v", name, allocs, c.allocs)
		}
	}
}

// The work for a tool does not depend on the number of servers.
func TestRegistrationIsLinear(t *testing.T) {
	bytesPerTool := func(servers int) float64 {
		h := newCatalogOf(t, servers, nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		register(t, h, 0)
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(50*servers)
	}
	few, many := bytesPerTool(10), bytesPerTool(40)
	t.Logf("%.0f bytes for each tool of 10 servers, %.0f of 40 servers", few, many)
	if many > maxRegistrationRatio*few {
		t.Errorf("%.0f bytes for each tool of 10 servers, %.0f of 40 servers", few, many)
	}
}
