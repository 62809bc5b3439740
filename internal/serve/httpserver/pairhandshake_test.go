package httpserver

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/store"
)

// openedPair opens a pair whose stream w takes. Post sends a message, and reports in the
// returned channel when it is answered. Ended is closed when the pair has ended.
func openedPair(t *testing.T, w http.ResponseWriter, middleware ...call.Middleware) (post func(body string) (status <-chan int), ended <-chan struct{}) {
	t.Helper()
	s, _ := sessionServer(t, store.NewMemory(store.MemoryOptions{}))
	s.Legacy.Engine = rpc.NewEngine(nil, slog.New(slog.DiscardHandler), middleware...)
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.openPair(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/mcp", nil), &response{stream: eventStream{w: w}})
	}()
	t.Cleanup(func() {
		leave()
		<-done
	})
	synctest.Wait()
	s.pairs.mu.Lock()
	defer s.pairs.mu.Unlock()
	for id := range s.pairs.byID {
		return func(body string) <-chan int {
			status := make(chan int, 1)
			m, err := jsonrpc.Parse([]byte(body), jsonrpc.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				answer := httptest.NewRecorder()
				s.postToPair(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil), id, &m)
				status <- answer.Code
			}()
			synctest.Wait()
			return status
		}, done
	}
	t.Fatal("no pair is open")
	return nil, nil
}

const initializePair = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`

func TestAPairEndsWhileItsHandshakeIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		post, ended := openedPair(t, newReader(), func(call.Handler) call.Handler {
			return func(ctx context.Context, _ *call.Call) (any, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
		})
		first, second := post(initializePair), post(initializePair)
		<-ended // the time-out of the handshake; keep-alives are due before it
		if a, b := <-first, <-second; a != http.StatusAccepted || b != http.StatusNotFound {
			t.Errorf("status %d for the request that was served and %d for the one that waited", a, b)
		}
	})
}
