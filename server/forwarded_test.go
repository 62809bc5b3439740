package server_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// A result of another server that has not been decoded is complete in a task, too.
func TestForwardedResultsAreCompleteInTasks(t *testing.T) {
	const members = `"content":[{"type":"text","text":"a"}],"x":1.50`
	const withoutTasks = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	for _, parked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &server.Server{}
			options := []server.Option{server.Forwarded(nil), server.AsTask(server.TaskOptions{})}
			if parked {
				options = append(options, server.Parked())
			}
			err := s.RegisterTool(mcp.Tool{Name: "t"}, func(ctx context.Context, _ json.RawMessage) (*mcp.CallToolResult, error) {
				if err := server.Detach(ctx); err != nil && parked {
					t.Log(err) // the client does not support tasks
				}
				return &mcp.CallToolResult{ResultBase: mcp.ResultBase{
					Source: []byte(`{"resultType":"complete",` + members + `}`),
				}}, nil
			}, options...)
			must.Do(t, err)
			w := connect(t, s)
			w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t",` + withoutTasks + `}}`)
			must.CheckContains(t, w.Receive(), members)
			w.Send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t",` + withTasks + `}}`)
			id := member(t, w.Receive(), "taskId")
			synctest.Wait()
			w.Send(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"` + id + `",` + withTasks + `}}`)
			must.CheckContains(t, w.Receive(), `"result":{"resultType":"complete",`+members+`}`)
		})
	}
}
