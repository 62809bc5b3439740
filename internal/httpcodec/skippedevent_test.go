package httpcodec

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// An event that is too large is skipped, whatever its lines look like, and the ID of its message is
// found.
func TestEventThatIsTooLargeIsSkipped(t *testing.T) {
	const limit = 1000
	x := strings.Repeat("x", limit)
	for name, tc := range map[string]struct{ event, id, resume string }{
		"one line":        {"id: e\ndata: {\"id\":7,\"result\":\"" + x + "\"}\n\n", "7", "e"},
		"CRLF":            {"id: e\r\ndata: {\"result\":\"" + x + "\",\"id\":7}\r\n\r\n", "7", "e"},
		"several lines":   {"data: {\"result\":\n" + strings.Repeat("data: \"x\"\n", 200) + "data:,\"id\":7}\n\n", "7", ""},
		"id at the end":   {"event: message\ndata: {\"result\":\"" + x + "\",\"id\":7}\nid: e\nretry: 1\n\n", "7", "e"},
		"comments":        {"data: {\"result\":\"" + x + "\"\n: " + x + x + "\ndata: ,\"id\":7}\n\n", "7", ""},
		"similar fields":  {"data: {\"result\":\"" + x + "\"\ndatas: {\ndata\nda\ndata: ,\"id\":7}\n\n", "7", ""},
		"a name too long": {"event: " + x + "\ndata: {\"id\":7,\"result\":1}\n\n", "7", ""},
		"no message":      {"data: " + x + "\n\n", "", ""},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			stream := io.Reader(strings.NewReader("data: a\n\n" + tc.event + "data: b\n\n"))
			e := NewEventReader(&bounded{stream, size}, limit)
			first, err := e.Next()
			must.Do(t, err)
			_, err = e.Next()
			skipped, ok := errors.AsType[*EventTooLargeError](err)
			must.That(t, ok && errors.Is(err, ErrEventTooLarge), "%s: %v", name, err)
			id, _, _ := skipped.Envelope.ID()
			must.CheckEqual(t, string(id), tc.id, name)
			must.CheckEqual(t, e.ID, tc.resume, name)
			last, err := e.Next()
			must.CheckThat(t, err == nil && string(first.Data) == "a" && string(last.Data) == "b",
				"%s: %q, %q, %v", name, first.Data, last.Data, err)
		}
	}
}

// bounded returns at most size bytes from each Read.
type bounded struct {
	r    io.Reader
	size int
}

func (p *bounded) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.size)]) }
