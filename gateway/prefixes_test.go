package gateway

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The index finds the same as a comparison with every template.
func TestPrefixesAreFound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		var b strings.Builder
		for range random.IntN(6) {
			b.WriteByte("ab:"[random.IntN(3)])
		}
		return b.String()
	}
	type template struct{ literal, server string }
	for range 500 {
		var index prefixes
		var all []template
		for _, server := range []string{"x", "y", "z"} {
			for range random.IntN(5) {
				all = append(all, template{word(), server})
				index.add(all[len(all)-1].literal, server)
			}
		}
		index.index()
		overlaps := func(a, b template) bool {
			return a.server != b.server && isAnyScheme(a.literal) == isAnyScheme(b.literal) &&
				(strings.HasPrefix(a.literal, b.literal) || strings.HasPrefix(b.literal, a.literal))
		}
		for _, one := range all {
			// Two templates of one server with the same beginning overlap with those of others alike.
			want := slices.ContainsFunc(all, func(other template) bool { return overlaps(one, other) })
			if got := index.overlap(one.literal); got != want {
				t.Fatalf("overlap(%q) = %v, want %v; templates %v", one.literal, got, want, all)
			}
		}
		for range 20 {
			uri := word()
			var longest *template
			for i := range all {
				if strings.HasPrefix(uri, all[i].literal) && (longest == nil || len(all[i].literal) > len(longest.literal)) {
					longest = &all[i]
				}
			}
			want := shared
			if longest != nil && !index.overlap(longest.literal) {
				want = longest.server
			}
			if got, ok := index.owner(uri); ok != (longest != nil) || got != want {
				t.Fatalf("owner(%q) = %q, %v, want %q; templates %v", uri, got, ok, want, all)
			}
		}
	}
}
