package httpwire

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// Whoever has come and gone costs nothing: there are as many addresses as a client likes.
func TestATallyRemembersNobodyWhoHasNothingButTheLast(t *testing.T) {
	var count limiter
	var usages []*usage
	has := make(map[string]int)
	for range 10_000 {
		if len(usages) > 0 && rand.IntN(2) == 0 {
			i := rand.IntN(len(usages))
			has[usages[i].by.address]--
			usages[i].release()
			usages[i] = usages[len(usages)-1]
			usages = usages[:len(usages)-1]
		} else {
			address := strconv.Itoa(rand.IntN(20))
			h, ok := count.acquire(owner{address: address}, 3)
			if ok != (has[address] < 3) {
				t.Fatalf("%s has %d, and one more was allowed: %v", address, has[address], ok)
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
		if n := len(count.usages); n < busy || n > busy+1 {
			t.Fatalf("%d owners are remembered when %d have something", n, busy)
		}
	}
}
