package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
)

// However many callers and sessions there are, none that has a catalog is left out when it changes. Until some are
// forgotten, no other is notified.
func TestHoldersOfACatalogAreKnown(t *testing.T) {
	catalogs := []*Catalog{new(Catalog), new(Catalog), new(Catalog)}
	for seed, of := range []struct{ callers, sources, records int }{{20, 5, 2000}, {20, maxSources + 20, 20_000},
		{maxHolders + 2000, 1, 60_000}} {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		callers := make([]principal.Principal, of.callers)
		for i := range callers {
			var err error
			if callers[i], err = principal.New("https://issuer.example", fmt.Sprint(i), ""); err != nil {
				t.Fatal(err)
			}
		}
		var h holders
		type session struct {
			who    principal.Principal
			source string
		}
		has := make(map[session][]*Catalog)
		for range of.records {
			at := session{callers[random.IntN(len(callers))], fmt.Sprint(random.IntN(of.sources))}
			has[at] = slices.Clone(catalogs[:random.IntN(3)])
			if random.IntN(2) == 0 {
				has[at] = slices.Clone(catalogs[random.IntN(3):])
			}
			h.record(at.who, at.source, has[at])
		}
		must.CheckThat(t, len(h.by) <= maxHolders, "%d callers are kept", len(h.by))
		owned := make(map[principal.Principal]map[*Catalog]bool)
		for at, all := range has {
			for _, c := range all {
				must.That(t, h.mayHave(at.who, c, false), "%d callers: %v is left out", of.callers, at)
				if owned[at.who] == nil {
					owned[at.who] = make(map[*Catalog]bool)
				}
				owned[at.who][c] = true
			}
		}
		for _, who := range callers {
			for _, c := range catalogs {
				must.CheckThat(t, of.callers >= maxHolders || of.sources >= maxSources ||
					h.mayHave(who, c, false) == owned[who][c], "%v is notified of a catalog that it does not have", who)
			}
		}
	}
}
