package httpserver

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// A response that is the only event of its stream is logged, so that a client that loses it
// can fetch it. The log ends with the session, also if that ends before the response.
func TestOnlyEventOfAStreamIsLogged(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		log := store.NewMemory(store.MemoryOptions{})
		s, live := sessionServer(t, log)
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", nil)
		r.Header.Set("Accept", "text/event-stream")
		x := &exchange{response: response{stream: eventStream{w: w, ctx: t.Context()}}, context: detachedContext{t.Context(), r}}
		conn, a := &x.stream, &x.answer
		a.begin(s, live, x, nil)
		if deleted {
			if err := s.Sessions.Delete(t.Context(), principal.Anonymous, live.ID); err != nil {
				t.Fatal(err)
			}
			s.Streams.endSession(live.Key())
		}
		a.respond([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), nil)
		a.end()
		conn.end()

		events := httpcodec.NewEventReader(w.Body, 1<<20)
		ev, err := events.Next()
		if err != nil || string(ev.Data) != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Fatalf("%q, %v", ev.Data, err)
		}
		stream, seq, ok := httpcodec.ParseEventID(events.ID)
		if !ok || seq != 1 || !strings.HasPrefix(stream, "p") {
			t.Errorf("event id %q", events.ID)
		}
		entries, err := log.ReadAfter(t.Context(), store.StreamKey{Group: live.Key(), Stream: stream}, 0)
		switch {
		case deleted && !errors.Is(err, store.ErrNotFound):
			t.Errorf("%q, %v: logged after the end of the session", entries, err)
		case !deleted && (err != nil || len(entries) != 1 || entries[0][0] != entryFinal):
			t.Errorf("%q, %v: not logged", entries, err)
		}
		if n := len(s.Streams.sessions); n != 0 {
			t.Errorf("%d sessions have registered streams", n)
		}
		live.Release()
	}
}
