package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// askingReplicas returns two replicas with the tool "ask", which asks for a name and returns its
// length, and the tool "roots", which asks for the roots and returns their number. Both send the cause of the
// end of their context.
func askingReplicas(t *testing.T, keys [][]byte) (first, second *endpoint, ended chan error) {
	bus := &unreliableBus{Store: store.NewMemory()}
	ended = make(chan error, 1)
	share := func(s *server.Server) {
		s.Store, s.Keys = bus, keys
		server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
			answer, err := server.Elicit[struct{ Name string }](ctx, "name?")
			ended <- context.Cause(ctx)
			return fmt.Sprintf("%d characters", len(answer.Name)), err
		})
		server.AddTool(s, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) (string, error) {
			roots, err := server.Roots(ctx)
			ended <- context.Cause(ctx)
			return fmt.Sprintf("%d roots", len(roots)), err
		})
	}
	return newEndpoint(t, share), newEndpoint(t, share), ended
}

const elicitingClient = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s",` +
	`"clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{},"roots":{}}}}`

// beginAsk calls a tool that asks the client. It returns the event stream of the call and the id of the question.
func beginAsk(t *testing.T, e *endpoint, session []string, tool string, id int,
	method string) (*wiretest.Events, json.RawMessage) {
	t.Helper()
	stream := wiretest.Stream(t, e.open(t.Context(), http.MethodPost, "/",
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, tool),
		session...))
	data := stream.Data()
	var question struct {
		ID     json.RawMessage
		Method string
	}
	err := json.Unmarshal([]byte(data), &question)
	must.That(t, err == nil && question.Method == method, "%s %v", data, err)
	return stream, question.ID
}

// 2025-11-25, basic/transports, Sending Messages to the Server: each message is a POST of its own, so a
// load balancer can send it to another replica than the call.
func TestAnswersAndCancellationsReachTheReplicaOfTheirCall(t *testing.T) {
	for _, keys := range [][][]byte{nil, {make([]byte, 32)}} {
		for _, length := range []int{3, 200_000} {
			first, second, ended := askingReplicas(t, keys)
			a := first.do(http.MethodPost, "/", fmt.Sprintf(elicitingClient, "2025-06-18"))
			session := []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-06-18"}
			second.do(http.MethodPost, "/", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
			stream, id := beginAsk(t, first, session, "ask", 1, mcp.MethodElicit)
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"Name":"%s"}}}`, id,
				strings.Repeat("x", length))
			if a := second.do(http.MethodPost, "/", answer, session...); a.status != http.StatusAccepted {
				t.Errorf("the answer: %s", a)
			}
			must.CheckContains(t, stream.Data(), fmt.Sprintf(`"text":"%d characters"`, length))
			<-ended

			stream, _ = beginAsk(t, first, session, "ask", 2, mcp.MethodElicit)
			if a := second.do(http.MethodPost, "/",
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
				session...); a.status != http.StatusAccepted {
				t.Errorf("the cancellation: %s", a)
			}
			err := <-ended
			must.CheckThat(t, err != nil, "the call was not cancelled")
			stream.Close()
		}
	}
}

// A client that does not wait for the status of its answer has sent it all the same.
func TestAnswersOfClientsThatDisconnectReachTheReplicaOfTheirCall(t *testing.T) {
	first, second, ended := askingReplicas(t, nil)
	a := first.do(http.MethodPost, "/", fmt.Sprintf(elicitingClient, "2025-03-26"))
	session := []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id")}
	first.do(http.MethodPost, "/", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
	for _, form := range []string{"%s", "[%s]"} {
		stream, id := beginAsk(t, first, session, "roots", 1, mcp.MethodListRoots)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		body := fmt.Sprintf(form, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///a"}]}}`, id))
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, second.http.URL, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(session[0], session[1])
		w := httptest.NewRecorder()
		second.server.ServeHTTP(w, r)
		must.Equal(t, w.Code, http.StatusAccepted, w.Body)
		must.CheckContains(t, stream.Data(), `"text":"1 roots"`)
		<-ended
		stream.Close()
	}
}

// 2025-03-26, basic, Batching: responses and cancellations may be in a batch, also together with requests.
func TestAnswersAndCancellationsInABatchReachTheReplicaOfTheirCall(t *testing.T) {
	const ping = `,{"jsonrpc":"2.0","id":9,"method":"ping"}`
	first, second, ended := askingReplicas(t, nil)
	a := first.do(http.MethodPost, "/", fmt.Sprintf(elicitingClient, "2025-03-26"))
	session := []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id")}
	second.do(http.MethodPost, "/", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
	for request, want := range map[string]answer{
		"":   {status: http.StatusAccepted},
		ping: {status: http.StatusOK, body: `[{"jsonrpc":"2.0","id":9,"result":{}}]`},
	} {
		stream, id := beginAsk(t, first, session, "roots", 1, mcp.MethodListRoots)
		answer := fmt.Sprintf(`[{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///a"}]}}%s]`, id, request)
		if a := second.do(http.MethodPost, "/", answer, session...); a.status != want.status || a.body != want.body {
			t.Errorf("the answer with %q: %s", request, a)
		}
		must.CheckContains(t, stream.Data(), `"text":"1 roots"`)
		<-ended

		stream, _ = beginAsk(t, first, session, "roots", 2, mcp.MethodListRoots)
		cancellation := `[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}` + request + `]`
		a := second.do(http.MethodPost, "/", cancellation, session...)
		must.CheckThat(t, a.status == want.status && a.body == want.body, "the cancellation with %q: %s", request, a)
		err := <-ended
		must.CheckThat(t, err != nil, "the call was not cancelled")
		stream.Close()
	}
}

// A client learns that its answer was not delivered, and can send it again.
func TestAnswersThatCannotBeForwardedAreRejected(t *testing.T) {
	bus := &unreliableBus{Store: store.NewMemory()}
	e := newEndpoint(t, func(s *server.Server) { s.Store = bus })
	session := e.session("2025-03-26")
	bus.down.Store(true)
	for _, body := range []string{`{"jsonrpc":"2.0","id":7,"result":{}}`, `[{"jsonrpc":"2.0","id":7,"result":{}}]`} {
		a := e.do(http.MethodPost, "/", body, session...)
		must.CheckThat(t, a.status == http.StatusServiceUnavailable && strings.Contains(a.body, "send it again"),
			"%v", a)
	}
	a := e.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session...)
	must.CheckEqual(t, a.status, http.StatusOK, a)
}
