package rpc_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// echo answers each input request with its params.
type echo struct{}

func (echo) RequestInput(_ context.Context, _ *rpc.Call, requests []rpc.InputRequest) (answers []json.RawMessage, _ error) {
	for _, q := range requests {
		answers = append(answers, json.RawMessage(q.Params))
	}
	return answers, nil
}

func (echo) Finish(_ context.Context, result any, err error) (any, error) { return result, err }

func TestEachInputRequestOfAHandlerOfABatchHasItsOwnAnswer(t *testing.T) {
	c := &rpc.Call{Call: *call.New(call.Description{Revision: mcp.V20260728, Method: mcp.MethodCallTool}), InputRequester: echo{}}
	c.Bind(t.Context())
	ctx, end := rpc.NewInputBatch(1).Handler(t.Context(), "key")
	defer end()
	for _, params := range []string{`{"n":1}`, `{"n":2}`} {
		got, err := c.ForwardInput(ctx, rpc.InputRequest{Method: mcp.MethodElicit, Params: []byte(params)})
		if err != nil || string(got) != params {
			t.Errorf("the answer to %s is %s, %v", params, got, err)
		}
	}
}
