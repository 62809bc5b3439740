package httpserver

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// An owner without requests uses no memory, since a client can have any number of
// addresses. The owner that became idle last is the exception.
func TestLimiterForgetsIdleOwnersExceptTheLast(t *testing.T) {
	var requests limiter
	var usages []*usage
	has := make(map[string]int)
	for range 10_000 {
		if len(usages) > 0 && rand.IntN(2) == 0 {
			i := rand.IntN(len(usages))
			has[usages[i].owner.address]--
			usages[i].release()
			usages[i] = usages[len(usages)-1]
			usages = usages[:len(usages)-1]
		} else {
			address := strconv.Itoa(rand.IntN(20))
			h, ok := requests.acquire(owner{address: address}, 3)
			if ok != (has[address] < 3) {
				t.Fatalf("acquire for %s, which has %d, returned %v", address, has[address], ok)
			}
			if ok {
				has[address]++
				usages = append(usages, h)
			}
		}
		busy := 0
		for _, n := range has {
			if n > 0 {
				busy++
			}
		}
		if n := len(requests.usages); n < busy || n > busy+1 {
			t.Fatalf("%d owners are in memory, %d have requests", n, busy)
		}
	}
}
