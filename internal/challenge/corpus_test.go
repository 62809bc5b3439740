package challenge_test

import (
	"testing"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/corpus"
)

func TestChallengesOfTheCorpus(t *testing.T) {
	names := []string{"none", "one", "two"}
	for _, c := range corpus.Cases(t, "rules/challenges") {
		all := challenge.Parse([]string{c.Text(t)})
		if len(all) >= len(names) || names[len(all)] != c.Want() {
			t.Errorf("%s: %s: %q, want %s", c.Place, c.Name, all, c.Want())
		}
	}
}
