package gateway

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// The index finds the same as a comparison with every prefix.
func TestPrefixesAreFound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		var b strings.Builder
		for range random.IntN(5) {
			b.WriteByte("ab/"[random.IntN(3)])
		}
		return b.String()
	}
	for range 500 {
		var index prefixes
		all := make(map[string]int)
		for rank := range 3 {
			var literals []string
			for range random.IntN(6) {
				literal := word()
				literals = append(literals, literal)
				if _, ok := all[literal]; !ok {
					all[literal] = rank
				}
			}
			index.add(literals, rank)
		}
		for range 20 {
			uri := word()
			want, found, overlap := 3, false, false
			for literal, rank := range all {
				if strings.HasPrefix(uri, literal) {
					want, found = min(want, rank), true
				}
				overlap = overlap || strings.HasPrefix(uri, literal) || strings.HasPrefix(literal, uri)
			}
			if got, ok := index.rankOf(uri); ok != found || found && got != want {
				t.Fatalf("rankOf(%q) = %d, %v, want %d, %v; prefixes %v", uri, got, ok, want, found, all)
			}
			if got := index.overlap(uri); got != overlap {
				t.Fatalf("overlap(%q) = %v, want %v; prefixes %v", uri, got, overlap, all)
			}
		}
	}
}
