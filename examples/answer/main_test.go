package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// newHotel returns a server that asks what the test needs.
func newHotel() *server.Server {
	s := &server.Server{Name: "hotel"}
	server.AddTool(s, mcp.Tool{Name: "book"}, func(ctx context.Context, _ struct{}) (string, error) {
		answer, err := server.Elicit[struct {
			Nights int      `json:"nights" default:"1"`
			Name   string   `json:"name"`
			Extras []string `json:"extras" enum:"breakfast,sauna"`
		}](ctx, "For how long?")
		if err != nil {
			return "", err
		}
		return strings.Repeat("night ", answer.Nights) + answer.Name + " " + strings.Join(answer.Extras, "+"), nil
	})
	return s
}

func TestUserAnswersForms(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} { // the question is a request or a result
		for lines, want := range map[string]string{
			"y\n2\nAda\nsauna breakfast\n": "night night Ada sauna+breakfast",
			"y\n\nAda\nsauna\n":            "night Ada sauna",
			"n\n":                          "tool book failed: the user declined",
		} {
			u := &user{server: "hotel", in: bufio.NewScanner(strings.NewReader(lines)), out: io.Discard}
			c := mcptest.Dial(t, newHotel(), mcptest.WithRevision(r), u.configure)
			text, err := client.CallTool[string](t.Context(), c, "book", nil)
			if err != nil {
				text = err.Error()
			}
			if !strings.HasPrefix(text, want) {
				t.Errorf("%s, %q: %q, want %q", r, lines, text, want)
			}
		}
	}
}
