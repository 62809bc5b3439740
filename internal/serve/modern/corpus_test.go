package modern

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Rules M1, M2: a changed state and a state for something else are rejected, and do not begin a new call.
func TestStatesOfTheCorpusAreJudgedAsRecorded(t *testing.T) {
	s, foreign := askingServer(t, ask("one")), askingServer(t, ask("one"))
	var err error
	if foreign.Seals, err = seal.New([]byte(strings.Repeat("f", seal.KeySize))); err != nil {
		t.Fatal(err)
	}
	other := must.Get(principal.New("https://issuer.example", "other", ""))(t)
	now := time.Now()
	s.Now = func() time.Time { return now.Add(-stateLifetime - 2*time.Second) }
	expired := *round(t, s, principal.Local, "x").State
	s.Now = func() time.Time { return now }
	value := *round(t, s, principal.Local, "x").State
	fragments := map[string]string{
		"value": value, "expired": expired,
		"other server":    *round(t, foreign, principal.Local, "x").State,
		"other purpose":   s.Seals.Seal("cursor of tools/list", []byte("ax")),
		"other request":   *round(t, s, principal.Local, "y").State,
		"other principal": *round(t, s, other, "x").State,
	}
	for _, c := range corpus.Sealed(t, value) {
		out := round(t, s, principal.Local, "x", `"requestState":`+string(c.Bytes(t, fragments))+`,`,
			answering("one", yes))
		got := "rejected"
		if out.err == nil && out.Kind == mcp.ResultTypeComplete {
			got = "accepted"
		}
		if got != c.Want("modern") || out.err != nil && out.err.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %s: %s, want %s (%+v)", c.Place, c.Name, got, c.Want("modern"), out)
		}
	}
}
