package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// delayedBus publishes messages with a delay.
type delayedBus struct{ store.Bus }

func (b delayedBus) Publish(ctx context.Context, topic string, message []byte) error {
	time.Sleep(100 * time.Millisecond)
	return b.Bus.Publish(ctx, topic, message)
}

// The calls of a pair finish during a shutdown: with the responses that another replica receives, and also a call that
// another replica has accepted before. Later requests are rejected, so that the client opens a new pair.
func TestAShutdownFinishesTheCallsOfAPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 2, func(s *server.Server) {
			s.Bus = delayedBus{s.Bus}
			server.AddTool(s, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) (string, error) {
				roots, err := server.Roots(ctx)
				return fmt.Sprintf("%d roots", len(roots)), err
			})
		})
		x, endpoint := f.openPair(0)
		f.accept(1, endpoint, fmt.Sprintf(elicitingClient, "2024-11-05"), wiretest.Initialized,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots","arguments":{}}}`)
		got := x.messages()
		var question struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(got[len(got)-1]), &question); err != nil {
			t.Fatalf("%q %v", got, err)
		}
		accepted := make(chan int)
		go func() {
			req := httptest.NewRequest(http.MethodPost, endpoint, strings.NewReader(`{"jsonrpc":"2.0","id":3,"method":"ping"}`))
			req.Host = "localhost"
			req.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			f.servers[1].ServeHTTP(rec, req)
			accepted <- rec.Code
		}()
		synctest.Wait() // the other replica has read the lease
		down := make(chan error)
		go func() { down <- f.servers[0].Shutdown(t.Context()) }()
		synctest.Wait()
		if status, text := f.post(1, endpoint, `{"jsonrpc":"2.0","id":4,"method":"ping"}`); status != http.StatusNotFound {
			t.Errorf("a request during the shutdown: %d %s", status, text)
		}
		if status := <-accepted; status != http.StatusAccepted {
			t.Errorf("a request before the shutdown: %d", status)
		}
		time.Sleep(time.Second)
		f.accept(1, endpoint, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, question.ID))
		if err := <-down; err != nil {
			t.Error(err)
		}
		all := strings.Join(x.messages()[len(got):], "\n")
		if !strings.Contains(all, `"0 roots"`) || !strings.Contains(all, `"id":3,"result"`) {
			t.Errorf("received %s", all)
		}
	})
}
