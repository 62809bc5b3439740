package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// askingReplicas returns two replicas with the tool "ask", which asks for a name and returns its
// length, or the cause of the end of its context.
func askingReplicas(t *testing.T, keys [][]byte) (first, second *endpoint, ended chan error) {
	bus := &unreliableBus{Memory: store.NewMemory(store.MemoryOptions{})}
	ended = make(chan error, 1)
	share := func(s *server.Server) {
		s.KV, s.Log, s.Bus, s.Keys = bus, bus, bus, keys
		server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
			answer, err := server.Elicit[struct{ Name string }](ctx, "name?")
			ended <- context.Cause(ctx)
			return fmt.Sprintf("%d characters", len(answer.Name)), err
		})
	}
	return newEndpoint(t, share), newEndpoint(t, share), ended
}

const elicitingClient = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s","clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{}}}}`

// 2025-11-25, basic/transports, Sending Messages to the Server: each message is a POST of its own, so a
// load balancer can send it to another replica than the call.
func TestAnswersAndCancellationsReachTheReplicaOfTheirCall(t *testing.T) {
	for _, keys := range [][][]byte{nil, {make([]byte, 32)}} {
		for _, length := range []int{3, 200_000} {
			first, second, ended := askingReplicas(t, keys)
			a := first.do(http.MethodPost, "/", fmt.Sprintf(elicitingClient, "2025-06-18"))
			session := []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-06-18"}
			second.do(http.MethodPost, "/", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
			ask := func(id int) (*events, json.RawMessage) {
				t.Helper()
				stream := newEvents(t, first.open(t.Context(), http.MethodPost, "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ask","arguments":{}}}`, id), session...))
				_, data, _ := stream.next()
				var question struct {
					ID     json.RawMessage
					Method string
				}
				if err := json.Unmarshal([]byte(data), &question); err != nil || question.Method != mcp.MethodElicit {
					t.Fatalf("%s %v", data, err)
				}
				return stream, question.ID
			}
			stream, id := ask(1)
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"Name":"%s"}}}`, id, strings.Repeat("x", length))
			if a := second.do(http.MethodPost, "/", answer, session...); a.status != http.StatusAccepted {
				t.Errorf("the answer: %s", a)
			}
			if _, data, _ := stream.next(); !strings.Contains(data, fmt.Sprintf(`"text":"%d characters"`, length)) {
				t.Errorf("the response: %.200s", data)
			}
			<-ended

			stream, _ = ask(2)
			if a := second.do(http.MethodPost, "/", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, session...); a.status != http.StatusAccepted {
				t.Errorf("the cancellation: %s", a)
			}
			if err := <-ended; err == nil {
				t.Error("the call was not cancelled")
			}
			stream.body.Close()
		}
	}
}

// A client learns that its answer was not delivered, and can send it again.
func TestAnswersThatCannotBeForwardedAreRejected(t *testing.T) {
	bus := &unreliableBus{Memory: store.NewMemory(store.MemoryOptions{})}
	e := newEndpoint(t, func(s *server.Server) { s.KV, s.Log, s.Bus = bus, bus, bus })
	session := e.session("2025-11-25")
	bus.down.Store(true)
	if a := e.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":7,"result":{}}`, session...); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "send it again") {
		t.Error(a)
	}
	if a := e.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session...); a.status != http.StatusOK {
		t.Error(a)
	}
}
