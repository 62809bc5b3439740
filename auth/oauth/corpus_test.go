package oauth_test

import (
	"net/netip"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/internal/corpus"
)

func TestO12AddressesOfTheCorpus(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/addresses") {
		a, err := netip.ParseAddr(c.Text(t))
		got := "forbidden"
		if err == nil && oauth.IsPublic(a) {
			got = "public"
		}
		if got != c.Want() {
			t.Errorf("%s: %s is %s (%v)", c.Place, c.Name, got, err)
		}
	}
}

func TestO11URLsOfTheCorpus(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/urls") {
		for _, system := range []string{"linux", "darwin", "windows"} {
			_, args, err := oauth.BrowserCommand(system, c.Text(t))
			got := "opened"
			if err != nil {
				got = "rejected"
			}
			if got != c.Want() {
				t.Errorf("%s: %s: %s on %s: %q, %v", c.Place, c.Name, got, system, args, err)
			}
		}
	}
}
