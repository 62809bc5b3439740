package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// answerable returns a server whose tool, prompt and resource can ask questions.
func answerable() *server.Server {
	s := httpServer()
	server.AddPrompt(s, mcp.Prompt{Name: "p"}, func(context.Context, struct{}) (string, error) { return "x", nil })
	server.AddResource(s, mcp.Resource{URI: "test:r", Name: "r"}, func(context.Context) (string, error) { return "x", nil })
	return s
}

// The answers to input requests are an object (2026-07-28, basic/patterns/mrtr, Error Handling).
func TestInputResponsesMustBeAnObject(t *testing.T) {
	onEverySurface(t, answerable, func(t *testing.T, s surface) {
		if !s.revision.Modern() { // earlier revisions do not have the member
			return
		}
		id := 0
		for method, target := range map[string]string{
			mcp.MethodCallTool: `"name":"echo","arguments":{"text":"x"}`, mcp.MethodGetPrompt: `"name":"p"`, mcp.MethodReadResource: `"uri":"test:r"`,
		} {
			for _, state := range []string{"", `,"requestState":"x"`} {
				for _, value := range []string{`null`, `7`, `true`, `"x"`, `[]`, `[{"action":"accept"}]`} {
					id++
					response := s.ask(id, method, target+state+`,"inputResponses":`+value)
					if !strings.Contains(response, `"code":-32602`) || !strings.Contains(response, "inputResponses must be an object") {
						t.Errorf("%s with %s: %s", method, value, response)
					}
				}
			}
			id++
			if response := s.ask(id, method, target+`,"inputResponses":{}`); !strings.Contains(response, `"result":`) {
				t.Errorf("%s with an object: %s", method, response)
			}
		}
	})
}
