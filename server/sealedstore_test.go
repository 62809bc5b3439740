package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// storedWith returns an endpoint whose server has these keys.
func storedWith(t *testing.T, memory *store.Memory, keys ...string) *endpoint {
	return newEndpoint(t, func(s *server.Server) {
		s.KV, s.Log = memory, memory
		for _, key := range keys {
			s.Keys = append(s.Keys, bytes.Repeat([]byte(key), 32))
		}
	})
}

func (e *endpoint) pings(session []string) int {
	return e.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session...).status
}

// Server.Keys: a session that is used while the server has both keys needs only the new one afterwards.
func TestKeysRotateWithoutEndingSessions(t *testing.T) {
	memory := store.NewMemory(store.MemoryOptions{})
	session := storedWith(t, memory, "a").session("2025-11-25")
	unused := storedWith(t, memory, "a").session("2025-11-25")
	for _, rotation := range [][]string{{"a", "b"}, {"b", "a"}, {"b"}, {"c", "b"}, {"c"}} {
		e := storedWith(t, memory, rotation...)
		for range 3 { // the first request reads the session, the others find it in memory
			if status := e.pings(session); status != http.StatusOK {
				t.Errorf("with the keys %q: status %d", rotation, status)
			}
		}
	}
	if status := storedWith(t, memory, "c", "a").pings(unused); status != http.StatusOK {
		t.Errorf("with the old key: status %d", status)
	}
}

// A session that the server cannot decrypt does not exist, so that the client starts another one
// (2025-11-25, basic/transports, Session Management).
func TestSessionsOfUnknownKeysDoNotExist(t *testing.T) {
	for name, before := range map[string][]string{"another key": {"a"}, "no key": nil} {
		t.Run(name, func(t *testing.T) {
			memory := store.NewMemory(store.MemoryOptions{})
			session := storedWith(t, memory, before...).session("2025-11-25")
			e := storedWith(t, memory, "b")
			var logged syncbuffer.Buffer
			e.server.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			unknown := append([]string{}, session...)
			unknown[1] = strings.Repeat("A", len(unknown[1]))
			got := e.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session...)
			want := e.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, unknown...)
			if got.status != http.StatusNotFound || got.body != want.body {
				t.Errorf("%s, want %s", got, want)
			}
			if !strings.Contains(logged.String(), "replicas need the same Keys") {
				t.Errorf("logged: %s", logged.String())
			}
			if status := e.pings(e.session("2025-11-25")); status != http.StatusOK {
				t.Errorf("a new session: status %d", status)
			}
		})
	}
}

// An entry is bound to its key: a writer of the store cannot give a session the state of another one.
func TestStoredSessionsCannotBeExchanged(t *testing.T) {
	shared := &recordingStore{Memory: store.NewMemory(store.MemoryOptions{})}
	e := newEndpoint(t, func(s *server.Server) { s.KV, s.Keys = shared, [][]byte{make([]byte, 32)} })
	one, other := e.session("2025-06-18"), e.session("2025-11-25")
	var keys []string
	for line := range strings.Lines(shared.text()) {
		if key := strings.TrimSpace(line); strings.Contains(key, "session/") && (len(keys) == 0 || keys[0] != key) {
			keys = append(keys, key)
		}
	}
	item, err := shared.Memory.Get(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Memory.Put(t.Context(), keys[len(keys)-1], item.Value, store.PutOptions{TTL: wiretest.Patience}); err != nil {
		t.Fatal(err)
	}
	if first, second := e.pings(one), e.pings(other); first != http.StatusOK || second != http.StatusNotFound {
		t.Errorf("status %d and %d", first, second)
	}
}

// The events of a stream are bound to their stream and number.
func TestStoredEventsCannotBeExchanged(t *testing.T) {
	for name, spoil := range map[string]func(entries [][]byte){
		"none":      func([][]byte) {},
		"exchanged": func(e [][]byte) { e[1], e[2] = e[2], e[1] },
		"modified":  func(e [][]byte) { e[1] = append(bytes.Clone(e[1][:len(e[1])-1]), e[1][len(e[1])-1]^1) },
	} {
		t.Run(name, func(t *testing.T) {
			memory := &spoiledLog{Memory: store.NewMemory(store.MemoryOptions{}), spoil: spoil}
			s := newStepping(t, func(s *server.Server) { s.KV, s.Log, s.Keys = memory, memory, [][]byte{make([]byte, 32)} })
			session := s.session(string(mcp.V20251125))
			got := s.begin(session, 3)
			close(s.steps)
			resp := s.resume(session, got[0].ID)
			defer resp.Body.Close()
			if replayed := resp.StatusCode == http.StatusOK; replayed != (name == "none") {
				t.Errorf("status %d", resp.StatusCode)
			}
		})
	}
}

// spoiledLog changes the entries that are read.
type spoiledLog struct {
	*store.Memory
	spoil func(entries [][]byte)
}

func (l *spoiledLog) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	entries, err := l.Memory.ReadAfter(ctx, key, seq)
	if len(entries) > 2 {
		l.spoil(entries)
	}
	return entries, err
}
