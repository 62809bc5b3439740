package server

import (
	"testing"

	"github.com/parley-mcp/parley/internal/corpus"
)

func TestTemplatesOfTheCorpus(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/templates") {
		u, err := parseTemplate(c.Text(t))
		if err == nil {
			err = u.compile(func(string) bool { return false })
		}
		got := "valid"
		if err != nil {
			got = "invalid"
		}
		if got != c.Want() {
			t.Errorf("%s: %s: %s (%v)", c.Place, c.Name, got, err)
		}
	}
}
