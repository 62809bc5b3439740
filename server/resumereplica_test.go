package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// replicas returns endpoints of servers that share one store. The first has the tool of newStepping.
func replicas(t *testing.T, n int) (first *stepping, others []*endpoint) {
	memory := store.NewMemory(store.MemoryOptions{})
	share := func(s *server.Server) {
		s.KV, s.Log, s.Bus, s.Keys = memory, memory, memory, [][]byte{make([]byte, 32)}
	}
	first = newStepping(t, share)
	for range n - 1 {
		others = append(others, newEndpoint(t, share))
	}
	return first, others
}

// 2025-11-25, basic/transports, Resumability and Redelivery: a client that loses its connection while the
// call runs can resume the stream at any replica. It receives each event once, in order.
func TestAStreamIsResumedAtAnotherReplicaWhileItsCallRuns(t *testing.T) {
	for _, r := range resumableRevisions {
		t.Run(r, func(t *testing.T) {
			first, others := replicas(t, 3)
			session := first.session(r)
			got := first.begin(session, 3)
			last := got[len(got)-1]
			received := got[len(got)-3:]
			for i := range 4 { // cut the connection after each part
				first.steps <- 5 // part is logged before, part after the client resumes
				other := others[i%len(others)]
				resp := other.open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", last.id)...)
				first.steps <- 2
				part := frames(t, resp, 7)
				resp.Body.Close()
				received = append(received, part...)
				last = received[len(received)-1]
			}
			close(first.steps)
			resp := others[0].open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", last.id)...)
			defer resp.Body.Close()
			received = append(received, frames(t, resp, everything)...)
			wantNumbered(t, received, 1, 3+4*7)
			wantAnswer(t, received, 3+4*7+1)
			if n := len(received); n != 3+4*7+1 {
				t.Errorf("%d events", n)
			}
			final := fmt.Sprintf("%s.%d", strings.TrimSuffix(last.id, "."+last.seq()), 3+4*7+1)
			again := others[1].open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", final)...)
			defer again.Body.Close()
			if rest := frames(t, again, everything); len(rest) != 0 {
				t.Errorf("after the last event came %v", rest)
			}
		})
	}
}
