package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/streamtest"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
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
				resp := other.open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", last.ID)...)
				first.steps <- 2
				part := frames(t, resp, 7)
				resp.Body.Close()
				received = append(received, part...)
				last = received[len(received)-1]
			}
			close(first.steps)
			resp := others[0].open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", last.ID)...)
			defer resp.Body.Close()
			received = append(received, frames(t, resp, everything)...)
			wantNumbered(t, received, 1, 3+4*7)
			wantAnswer(t, received, 3+4*7+1)
			if n := len(received); n != 3+4*7+1 {
				t.Errorf("%d events", n)
			}
			final := fmt.Sprintf("%s.%d", strings.TrimSuffix(last.ID, "."+last.Seq()), 3+4*7+1)
			again := others[1].open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", final)...)
			defer again.Body.Close()
			if rest := frames(t, again, everything); len(rest) != 0 {
				t.Errorf("after the last event came %v", rest)
			}
		})
	}
}

// A connection can end at any byte, and the client can resume the stream anywhere.
func TestEachEventOfAStreamThatIsCutFiftyTimesArrivesOnce(t *testing.T) {
	memory := store.NewMemory(store.MemoryOptions{})
	streamtest.Cut(t, func() streamtest.Store { return memory })
}

// A stream that cannot be logged cannot be resumed, so its connection stays open for the response.
func TestAStreamThatCannotBeLoggedIsNotClosed(t *testing.T) {
	shared, closed := &cutStore{Memory: store.NewMemory(store.MemoryOptions{})}, make(chan error, 1)
	e := newEndpoint(t, func(s *server.Server) {
		s.KV, s.Log, s.Bus = shared, shared, shared
		server.AddTool(s, mcp.Tool{Name: "step"}, func(ctx context.Context, _ struct{}) (string, error) {
			shared.cut.Store(true)
			closed <- server.CloseStream(ctx, time.Hour)
			return "done", nil
		})
	})
	a := e.do("POST", "/", stepCall, e.session("2025-11-25")...)
	if err := <-closed; !errors.Is(err, server.ErrUnsupported) {
		t.Errorf("CloseStream: %v", err)
	}
	if !strings.Contains(a.body, `"id":1,"result"`) {
		t.Errorf("the response is lost: %s", a)
	}
}

// 2025-11-25, basic/transports, Sending Messages to the Server: a server may close the connection of a call.
// The client polls, and any replica can serve it.
func TestAClosedStreamIsResumedAtAnotherReplicaWhileItsCallRuns(t *testing.T) {
	memory, goOn := store.NewMemory(store.MemoryOptions{}), make(chan struct{})
	share := func(s *server.Server) {
		s.KV, s.Log, s.Bus = memory, memory, memory
		server.AddTool(s, mcp.Tool{Name: "step"}, func(ctx context.Context, _ struct{}) (string, error) {
			for i := range 3 {
				if err := server.CloseStream(ctx, 10*time.Millisecond); err != nil {
					return "", err
				}
				<-goOn
				if err := server.Progress(ctx, float64(i+1), 3, ""); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
	}
	first, second, third := newEndpoint(t, share), newEndpoint(t, share), newEndpoint(t, share)
	session := first.session("2025-11-25")
	got := frames(t, first.open(t.Context(), "POST", "/", stepCall, session...), everything)
	if len(got) == 0 || got[len(got)-1].Retry != "10" || got[len(got)-1].Data != "" {
		t.Fatalf("%v", got)
	}
	var received []wiretest.Event
	last := got[len(got)-1].ID
	for _, e := range []*endpoint{second, third} {
		resp := e.open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", last)...)
		goOn <- struct{}{}
		part := frames(t, resp, 1)
		resp.Body.Close()
		received, last = append(received, part...), part[0].ID
	}
	resp := second.open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", last)...)
	goOn <- struct{}{}
	received = append(received, frames(t, resp, everything)...)
	if len(received) != 4 || !strings.Contains(received[3].Data, `"text":"done"`) {
		t.Fatalf("%v", received)
	}
	for i, f := range received[:3] {
		if !strings.Contains(f.Data, fmt.Sprintf(`"progress":%d,`, i+1)) {
			t.Errorf("event %d: %v", i, f)
		}
	}
}
