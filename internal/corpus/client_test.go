package corpus_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/mcp"
)

// call calls the tool of the hostile server and returns the text of the result.
type call func(ctx context.Context) (string, error)

// Each message of a hostile server has its outcome, and the client's next call succeeds.
func TestClientsSurviveBadMessages(t *testing.T) {
	for _, r := range mcp.Revisions() {
		surfaces := []string{"memory", "stream", "http", "json", "gateway"}
		if r == mcp.V20241105 {
			surfaces = []string{"memory", "stream", "pair", "gateway"}
		}
		for _, surface := range surfaces {
			t.Run(surface+"/"+string(r), func(t *testing.T) {
				t.Parallel()
				h := &hostile{revision: r}
				connect := func() call { return connectTo(t, h, surface) }
				f, failures := connect(), 0
				for _, name := range corpus.Files(t) {
					if !strings.HasPrefix(name, "client/") {
						continue
					}
					for _, c := range corpus.Cases(t, name) {
						if err := h.try(t, surface, c, f, name == "client/events"); err != nil {
							t.Errorf("%s: %s: %v", c.Place, c.Name, err)
							f = reconnect(t, &failures, connect)
						}
					}
				}
			})
		}
	}
}

// connectTo connects a client to h, or a gateway and a client of that.
func connectTo(t *testing.T, h *hostile, surface string) call {
	t.Helper()
	d := &client.Dialer{Revision: h.revision, Logger: quiet}
	target := h.target(t, surface)
	if surface == "gateway" {
		s := newGateway(t, target)
		tool := "up__a"
		c, err := d.Dial(t.Context(), inMemory(t, s))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return func(ctx context.Context) (string, error) { return client.CallTool[string](ctx, c, tool, nil) }
	}
	c, err := d.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return func(ctx context.Context) (string, error) { return client.CallTool[string](ctx, c, "a", nil) }
}

// try has h attack the next call, compares its outcome, and calls again.
func (h *hostile) try(t *testing.T, surface string, c corpus.Case, f call, raw bool) error {
	era := "legacy"
	if h.revision.Modern() {
		era = "modern"
	}
	want := c.Want(surface, era, string(h.revision))
	if want == "" {
		return nil
	}
	const id = "\x00id\x00" // a mark for the id of the call
	input := c.Bytes(t, map[string]string{"id": id, "result": h.result(caseText)})
	h.next.Store(&attack{raw: raw, bytes: func(of string) []byte { return bytes.ReplaceAll(input, []byte(id), []byte(of)) }})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text, err := f(ctx)
	got := "error"
	switch {
	case ctx.Err() != nil:
		got = "no response"
	case err != nil:
	case text == "":
		got = "empty"
	case text == caseText:
		got = "result"
	case text == goodText:
		got = "ignored"
	default:
		got = fmt.Sprintf("text %.100q", text)
	}
	if got != want {
		return fmt.Errorf("%s (%v), want %s", got, err, want)
	}
	if text, err := f(ctx); err != nil || text != goodText {
		return fmt.Errorf("the next call returns %q, %v", text, err)
	}
	return nil
}
