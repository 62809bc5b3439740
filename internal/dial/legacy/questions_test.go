package legacy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// silent is an input requester whose client does not answer.
type silent struct{ rpc.InputRequester }

func (silent) RequestInput(ctx context.Context, _ *rpc.Call, _ []rpc.InputRequest) ([]json.RawMessage, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// forward forwards a question to the client of the call.
func forward(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	answers, err := rpc.From(ctx).RequestInput(ctx, rpc.InputRequest{Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

func TestAFullPlaceTakesThatOfTheOldestAbandonedQuestion(t *testing.T) {
	for _, c := range []struct {
		params string
		limit  int
		leave  bool
		want   string
	}{
		{formParams, outbound.MaxInputRequests, true, rpc.DisplacedResponse.Message},
		{formParams, outbound.MaxInputRequests, false, "too many requests in flight"},
		{formParams + `,"task":{}`, maxClientTasks, true, rpc.DisplacedResponse.Message},
		{formParams + `,"task":{}`, maxClientTasks, false, "too many tasks of the client"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, w := newClient(t, forward, nil)
			w.sent = make(chan string, 5000)
			client.tasks.declare(declaredTasks)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// ask begins a call and a question of the server for it.
			ask := func(i int, connected bool) <-chan error {
				served := &rpc.Call{Call: *call.New(call.Description{Method: mcp.MethodCallTool}),
					InputRequester: silent{}}
				if connected {
					served.Stream = struct{ rpc.Stream }{}
				}
				served.Bind(ctx)
				ended, req := make(chan error, 1), &outbound.Request{Method: mcp.MethodCallTool, Name: "ask"}
				go func() {
					_, err := client.Requests.Do(served.Context(), req)
					ended <- err
				}()
				synctest.Wait()
				client.ReceiveFor(req.Token, parseMessage(t, fmt.Sprintf(
					`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{%s}}`, i, c.params)))
				synctest.Wait()
				return ended
			}
			var ended []<-chan error
			for i := range c.limit {
				ended = append(ended, ask(i, i == 0 || !c.leave)) // the oldest is not abandoned
			}
			for len(w.sent) > 0 {
				<-w.sent
			}
			ask(c.limit, true)
			var sent []string
			for len(w.sent) > 0 {
				sent = append(sent, <-w.sent)
			}
			must.CheckContains(t, strings.Join(sent, "\n"), c.want)
			for i, ended := range ended {
				select {
				case err := <-ended:
					must.CheckThat(t, i == 1 && c.leave, "call %d has ended: %v", i, err)
					must.CheckIs(t, err, rpc.ErrDisplaced)
					must.CheckIs(t, err, call.ErrCancelled)
				default:
					must.CheckThat(t, i != 1 || !c.leave, "the oldest abandoned call goes on")
				}
			}
		})
	}
}
