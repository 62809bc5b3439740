package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// Rules decide about the requests of servers by method, server and parameters.
func TestRulesMatchRequestsOfServers(t *testing.T) {
	rules, err := compile(t, `{"policy":{"default":"deny","rules":[
		{"tool":"*","action":"allow"},
		{"method":"sampling/createMessage","server":"fi*","when":"args.maxTokens <= 1000 && !has(args.tools)","action":"ask"},
		{"method":"elicitation/*","when":"args.mode == 'form' || args.url.startsWith('https://example.com/')","action":"allow"},
		{"when":"kind == 'roots'","action":"allow"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, kind, arguments string
		want                    host.Action
	}{
		{mcp.MethodCreateMessage, host.KindSampling, `{"maxTokens":1000}`, host.Ask},
		{mcp.MethodCreateMessage, host.KindSampling, `{"maxTokens":1001}`, host.Deny},
		{mcp.MethodCreateMessage, host.KindSampling, `{"maxTokens":1,"tools":[]}`, host.Deny},
		{mcp.MethodElicit, host.KindElicitation, `{"mode":"form","message":"m"}`, host.Allow},
		{mcp.MethodElicit, host.KindElicitation, `{"mode":"url","url":"https://example.com/a"}`, host.Allow},
		{mcp.MethodElicit, host.KindElicitation, `{"mode":"url","url":"https://example.org/a"}`, host.Deny},
		{mcp.MethodListRoots, host.KindRoots, `{}`, host.Allow},
		{mcp.MethodCallTool, host.KindTool, `{}`, host.Allow},
		{mcp.MethodGetPrompt, host.KindPrompt, `{}`, host.Deny},
	} {
		r := request(t, c.arguments)
		r.Method, r.Kind, r.Name, r.Tool, r.Arguments = c.method, c.kind, "", nil, json.RawMessage(c.arguments)
		if got, err := rules.Decide(t.Context(), r); err != nil || got.Action != c.want {
			t.Errorf("%s %s: %v, %v, want %v", c.method, c.arguments, got.Action, err, c.want)
		}
	}
}
