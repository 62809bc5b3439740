//lint:file-ignore SA1019 What is deprecated still has to work.

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

// Questions of servers that nobody is asked.
var badQuestions = map[string]struct {
	method, params string
	code           int64 // that a server of 2025-11-25 is answered with
}{
	"Y6 tools for a client without":  {mcp.MethodCreateMessage, `{"maxTokens":1,"messages":[],"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`, jsonrpc.CodeInvalidParams},
	"Y6 a choice of tools":           {mcp.MethodCreateMessage, `{"maxTokens":1,"messages":[],"toolChoice":{"mode":"none"}}`, jsonrpc.CodeInvalidParams},
	"Y6 a result of nothing":         {mcp.MethodCreateMessage, `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[]}}]}`, jsonrpc.CodeInvalidParams},
	"Y6 a use without result":        {mcp.MethodCreateMessage, `{"maxTokens":1,"messages":[{"role":"assistant","content":{"type":"tool_use","id":"1","name":"a","input":{}}}]}`, jsonrpc.CodeInvalidParams},
	"messages that are none":         {mcp.MethodCreateMessage, `{"maxTokens":1,"messages":{}}`, jsonrpc.CodeInvalidParams},
	"a number for a message":         {mcp.MethodElicit, `{"message":7,"requestedSchema":{"type":"object","properties":{}}}`, jsonrpc.CodeInvalidParams},
	"V7 a form in a form":            {mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"object","properties":{}}}}}`, jsonrpc.CodeInvalidParams},
	"V7 a list of forms":             {mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}}}}`, jsonrpc.CodeInvalidParams},
	"V7 a form that is a list":       {mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"array"}}`, jsonrpc.CodeInvalidParams},
	"V7 a form of nothing":           {mcp.MethodElicit, `{"message":"?"}`, jsonrpc.CodeInvalidParams},
	"V7 a form by reference":         {mcp.MethodElicit, `{"message":"?","requestedSchema":{"$ref":"https://example.com/form"}}`, jsonrpc.CodeInvalidParams},
	"M4 a mode that is not declared": {mcp.MethodElicit, `{"mode":"url","message":"?","url":"https://example.com/","elicitationId":"1"}`, jsonrpc.CodeInvalidParams},
	"M4 a mode that there is not":    {mcp.MethodElicit, `{"mode":"voice","message":"?"}`, jsonrpc.CodeInvalidParams},
	"M4 roots that are not declared": {mcp.MethodListRoots, `{}`, jsonrpc.CodeMethodNotFound},
	"a method that is no question":   {"tools/call", `{"name":"a"}`, jsonrpc.CodeMethodNotFound},
}

// M4, V7, Y6: whatever a server asks for that it may not, nobody here is asked. It is
// told where it can be.
func TestM4V7Y6BadQuestionsAreNotAsked(t *testing.T) {
	nobody := func(d *client.Dialer, t *testing.T) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			t.Error("the user was asked")
			return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
		}
		d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			t.Error("the model was asked")
			return nil, errors.New("no")
		}
	}
	for name, q := range badQuestions {
		t.Run(name, func(t *testing.T) {
			t.Run("2025-11-25", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := legacyServer()
					s.Answers["initialize"] = []string{initialized2511}
					ask := fmt.Sprintf(`{"jsonrpc":"2.0","id":"q","method":"%s","params":%s}`, q.method, q.params)
					s.Answers["tools/call"] = []string{"!lines " + ask + "\n" + `{"jsonrpc":"2.0","id":$id,` + called + `}`}
					d := quiet()
					nobody(&d, t)
					d.Revision = mcp.V20251125
					to, heard := target(s)
					c, err := d.Dial(t.Context(), to)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil {
						t.Error(err)
					}
					synctest.Wait()
					_ = c.Close()
					if got := heard.methods(); !strings.Contains(got, fmt.Sprintf(`"id":"q","error":{"code":%d,`, q.code)) {
						t.Errorf("it heard %s", got)
					}
				})
			})
			t.Run("2026-07-28", func(t *testing.T) {
				s := modernServer()
				s.Answers["tools/call"] = []string{fmt.Sprintf(`"result":{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"%s","params":%s}}}`, q.method, q.params), called}
				d := quiet()
				nobody(&d, t)
				to, heard := target(s)
				c, err := d.Dial(t.Context(), to)
				if err != nil {
					t.Fatal(err)
				}
				_, err = client.CallTool[string](t.Context(), c, "a", nil)
				var reported *jsonrpc.Error // J10: it would be the server's
				if !errors.Is(err, client.ErrInvalidResponse) || errors.As(err, &reported) {
					t.Errorf("got %v", err)
				}
				_ = c.Close()
				if got := heard.methods(); strings.Count(got, "tools/call") != 1 || strings.Contains(got, "response") {
					t.Errorf("it heard %s", got)
				}
			})
		})
	}
}

// J17: what is reported after the response is not told to anybody.
func TestJ17ProgressAfterTheResponseIsDropped(t *testing.T) {
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
				t.Errorf("%s: %q, %v, %v", r, text, err, reported)
			}
			_ = c.Close()
		})
	}
}
