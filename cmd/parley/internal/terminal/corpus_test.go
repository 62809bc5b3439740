package terminal_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/internal/corpus"
)

func TestTextsOfTheCorpus(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/text") {
		text := c.Text(t)
		for name, shown := range map[string]string{"Line": terminal.Line(text), "Block": terminal.Block(text)} {
			if (shown == text) != (c.Want() == "unchanged") {
				t.Errorf("%s: %s: %s is %.100q", c.Place, c.Name, name, shown)
			}
			if strings.ContainsFunc(shown, func(r rune) bool { return unicode.Is(unicode.C, r) && r != 0x200D }) {
				t.Errorf("%s: %s: %s has control characters: %.100q", c.Place, c.Name, name, shown)
			}
		}
	}
}
