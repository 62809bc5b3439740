package schema_test

import (
	"testing"

	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/schema"
)

func TestSchemasOfTheCorpus(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/schemas") {
		s, err := schema.Compile([]byte(c.Text(t)))
		got := "compiles"
		if err != nil {
			got = "error"
		} else {
			_ = s.Validate([]byte(`{"a":[1]}`)) // bounded; the result does not matter
		}
		must.CheckEqual(t, got, c.Want(), c.Place, c.Name, err)
	}
}
