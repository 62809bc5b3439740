package httpserver

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/store"
)

// Rules T12, T13: an id opens only its own stream in its own session, and has one spelling.
func FuzzEventID(f *testing.F) {
	streams := NewStreams(store.NewMemory(store.MemoryOptions{}), slog.New(slog.DiscardHandler))
	const own, foreign = "principal/session/own/streams", "principal/session/foreign/streams"
	names := make(map[string][]string) // names of streams by session
	for _, group := range []string{own, foreign} {
		for range 2 {
			s := streams.add(group, nil)
			for range 3 {
				if err := s.send(f.Context(), []byte(s.key.Stream), entryMessage); err != nil {
					f.Fatal(err)
				}
			}
			names[group] = append(names[group], s.key.Stream)
			f.Add(string(httpcodec.AppendEventID(nil, s.key.Stream, 1)))
			if err := s.send(f.Context(), []byte(s.key.Stream), entryFinal); err != nil {
				f.Fatal(err)
			}
			if len(names[group]) == 2 {
				s.end() // find replays its log
			}
		}
	}
	for _, id := range []string{"", ".", "1", names[own][0], names[own][0] + ".", names[own][0] + ".01", names[own][0] + ".18446744073709551615", "g" + names[own][0][1:] + ".0", "p../../../../etc.0", names[own][0] + "\n.1", strings.Repeat("p", 1000)} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		name, seq, ok := httpcodec.ParseEventID(id)
		if !ok {
			return
		}
		if again := string(httpcodec.AppendEventID(nil, name, seq)); again != id {
			t.Fatalf("%q is read as %q", id, again)
		}
		s, err := streams.find(t.Context(), own, name, seq)
		if err != nil {
			if !errors.Is(err, errUnknownEvent) && !errors.Is(err, store.ErrPurged) {
				t.Fatal(err)
			}
			return
		}
		defer func() {
			if s.replay {
				streams.remove(s)
			}
		}()
		if name != names[own][0] && name != names[own][1] {
			t.Fatalf("%q opens a stream", id)
		}
		entries, err := s.entriesAfter(t.Context(), seq)
		if err != nil {
			return
		}
		if len(entries) != int(4-seq) {
			t.Fatalf("%q: %d entries", id, len(entries))
		}
		for _, e := range entries {
			if m := entry(e).message(); !bytes.Equal(m, []byte(name)) {
				t.Fatalf("%q replays %q", id, e)
			}
		}
	})
}
