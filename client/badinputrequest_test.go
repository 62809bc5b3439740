//lint:file-ignore SA1019 Deprecated features must keep working.

package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// badInputRequests are input requests that the client must reject.
var badInputRequests = map[string]struct {
	method, params string
	code           int64 // of the error that a server of 2025-11-25 receives
}{
	"Y6 tools not declared":      {mcp.MethodCreateMessage, `{"maxTokens":1,"messages":[],"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`, jsonrpc.CodeInvalidParams},
	"Y6 toolChoice not declared": {mcp.MethodCreateMessage, `{"maxTokens":1,"messages":[],"toolChoice":{"mode":"none"}}`, jsonrpc.CodeInvalidParams},
	"Y6 tool result without use": {mcp.MethodCreateMessage, `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[]}}]}`, jsonrpc.CodeInvalidParams},
	"Y6 tool use without result": {mcp.MethodCreateMessage, `{"maxTokens":1,"messages":[{"role":"assistant","content":{"type":"tool_use","id":"1","name":"a","input":{}}}]}`, jsonrpc.CodeInvalidParams},
	"messages not an array":      {mcp.MethodCreateMessage, `{"maxTokens":1,"messages":{}}`, jsonrpc.CodeInvalidParams},
	"message not a string":       {mcp.MethodElicit, `{"message":7,"requestedSchema":{"type":"object","properties":{}}}`, jsonrpc.CodeInvalidParams},
	"V7 nested object":           {mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"object","properties":{}}}}}`, jsonrpc.CodeInvalidParams},
	"V7 array of objects":        {mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}}}}`, jsonrpc.CodeInvalidParams},
	"V7 schema of an array":      {mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"array"}}`, jsonrpc.CodeInvalidParams},
	"V7 no schema":               {mcp.MethodElicit, `{"message":"?"}`, jsonrpc.CodeInvalidParams},
	"V7 schema with $ref":        {mcp.MethodElicit, `{"message":"?","requestedSchema":{"$ref":"https://example.com/form"}}`, jsonrpc.CodeInvalidParams},
	"M4 mode not declared":       {mcp.MethodElicit, `{"mode":"url","message":"?","url":"https://example.com/","elicitationId":"1"}`, jsonrpc.CodeInvalidParams},
	"M4 unknown mode":            {mcp.MethodElicit, `{"mode":"video","message":"?"}`, jsonrpc.CodeInvalidParams},
	"M4 roots not declared":      {mcp.MethodListRoots, `{}`, jsonrpc.CodeMethodNotFound},
	"not an input request":       {"tools/call", `{"name":"a"}`, jsonrpc.CodeMethodNotFound},
}

// Rules M4, V7, Y6: the client rejects invalid input requests without asking the user or the model.
// In a session the server receives an error.
func TestInvalidInputRequestsAreRejected(t *testing.T) {
	failing := func(d *client.Dialer, t *testing.T) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			t.Error("the user was asked")
			return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
		}
		d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			t.Error("the model was asked")
			return nil, errors.New("no")
		}
	}
	for name, q := range badInputRequests {
		t.Run(name, func(t *testing.T) {
			t.Run("2025-11-25", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := legacyServer()
					s.Answers["initialize"] = []string{initialized2511}
					ask := fmt.Sprintf(`{"jsonrpc":"2.0","id":"q","method":"%s","params":%s}`, q.method, q.params)
					s.Answers["tools/call"] = []string{"!lines " + ask + "\n" + `{"jsonrpc":"2.0","id":$id,` + called + `}`}
					d := quiet()
					failing(&d, t)
					d.Revision = mcp.V20251125
					to, rec := target(s)
					c, err := d.Dial(t.Context(), to)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil {
						t.Error(err)
					}
					synctest.Wait()
					_ = c.Close()
					if got := rec.methods(); !strings.Contains(got, fmt.Sprintf(`"id":"q","error":{"code":%d,`, q.code)) {
						t.Errorf("the server received %s", got)
					}
				})
			})
			t.Run("2026-07-28", func(t *testing.T) {
				s := modernServer()
				s.Answers["tools/call"] = []string{fmt.Sprintf(`"result":{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"%s","params":%s}}}`, q.method, q.params), called}
				d := quiet()
				failing(&d, t)
				to, rec := target(s)
				c, err := d.Dial(t.Context(), to)
				if err != nil {
					t.Fatal(err)
				}
				_, err = client.CallTool[string](t.Context(), c, "a", nil)
				var reported *jsonrpc.Error // Rule J10: such an error would come from the server
				if !errors.Is(err, client.ErrInvalidResponse) || errors.As(err, &reported) {
					t.Errorf("got %v", err)
				}
				_ = c.Close()
				if got := rec.methods(); strings.Count(got, "tools/call") != 1 || strings.Contains(got, "response") {
					t.Errorf("the server received %s", got)
				}
			})
		})
	}
}

// Rule J17: the client ignores progress after the response.
func TestProgressAfterTheResponseIsDropped(t *testing.T) {
	report := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$id,"progress":%d}}`
	for r, s := range map[mcp.Revision]*script{mcp.V20260728: modernServer(), mcp.V20250618: legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			s.Answers["tools/call"] = []string{"!lines " + fmt.Sprintf(report, 1) + "\n" + `{"jsonrpc":"2.0","id":$id,` + called + `}` + "\n" + fmt.Sprintf(report, 2) + "\n" + `{"jsonrpc":"2.0","id":$id,"result":{"content":[]}}`}
			d := quiet()
			d.Revision = r
			to, _ := target(s)
			c, err := d.Dial(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			var reported []float64
			text, err := client.CallTool[string](t.Context(), c, "a", nil, client.WithProgress(func(done, _ float64, _ string) { reported = append(reported, done) }))
			synctest.Wait()
			if err != nil || text != "called" || len(reported) != 1 {
				t.Errorf("%s: %q, %v, progress %v", r, text, err, reported)
			}
			_ = c.Close()
		})
	}
}
