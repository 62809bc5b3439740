package server_test

import (
	"testing"

	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Rule J18: a changed cursor and a cursor for something else are rejected.
func TestCursorsOfTheCorpusAreJudgedAsRecorded(t *testing.T) {
	s := withTools(t, 1, "a", "b")
	foreign := withTools(t, 1, "a", "b")
	l := connectLine(t, s)
	other, err := principal.New("https://issuer.example", "other", "")
	if err != nil {
		t.Fatal(err)
	}
	value := s.CursorFor(mcp.MethodListTools, "a", principal.Local)
	fragments := map[string]string{
		"value":           value,
		"other server":    foreign.CursorFor(mcp.MethodListTools, "a", principal.Local),
		"other purpose":   s.SealState("aa"),
		"other request":   s.CursorFor(mcp.MethodListPrompts, "a", principal.Local),
		"other principal": s.CursorFor(mcp.MethodListTools, "a", other),
	}
	for _, c := range corpus.Sealed(t, value) {
		if c.Want() == "" { // for requestState only
			continue
		}
		result, rejected := l.ask(mcp.MethodListTools, `"cursor":`+string(c.Bytes(t, fragments)))
		got := "accepted"
		if rejected != nil {
			got = "rejected"
		}
		if got != c.Want() || rejected != nil && rejected.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %s: %s, want %s (%s, %v)", c.Place, c.Name, got, c.Want(), result, rejected)
		}
	}
}
