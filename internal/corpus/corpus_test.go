package corpus_test

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/corpus"
)

// sizes are the numbers of cases that the categories must have at least.
var sizes = map[string]int{
	"client/events":     55,
	"client/messages":   160,
	"http/headers":      65,
	"http/origins":      70,
	"http/requests":     110,
	"http/sessions":     65,
	"http/versions":     60,
	"rules/addresses":   80,
	"rules/callbacks":   80,
	"rules/challenges":  45,
	"rules/resources":   115,
	"rules/schemas":     75,
	"rules/sealed":      50,
	"rules/servers":     120,
	"rules/templates":   60,
	"rules/text":        40,
	"rules/tokens":      300,
	"rules/urls":        150,
	"server/batches":    30,
	"server/bombs":      50,
	"server/duplicates": 70,
	"server/envelope":   130,
	"server/ids":        70,
	"server/json":       160,
	"server/names":      80,
	"server/utf8":       60,
	"server/values":     40,
}

func TestTheCorpusIsComplete(t *testing.T) {
	found := make(map[string]bool)
	total := 0
	for _, name := range corpus.Files(t) {
		n := len(corpus.Cases(t, name))
		found[name] = true
		total += n
		want, ok := sizes[name]
		if !ok || n < want {
			t.Errorf("%s has %d cases, want at least %d (in the table: %v)", name, n, want, ok)
		}
	}
	for name := range sizes {
		if !found[name] {
			t.Errorf("%s has no file", name)
		}
	}
	t.Logf("%d cases", total)
}

func TestCasesOfAFile(t *testing.T) {
	for _, c := range corpus.Cases(t, "server/utf8") {
		if c.Name == "invalid UTF-8 in a value: <<hex C0 AF>>" {
			if text := c.Bytes(t, map[string]string{"echo": "e", "meta": `"m":1`}); !strings.Contains(string(text), "\"e\",\"m\":1,\"arguments\":{\"text\":\"a\xc0\xafb\"}") {
				t.Errorf("the input is %q", text)
			}
			if want := c.Want("legacy", "stream"); want != "-32700" {
				t.Errorf("the outcome is %q", want)
			}
			return
		}
	}
	t.Error("the case is missing")
}
