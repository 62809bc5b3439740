package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// answerForms calls the tool and answers its forms, one after the other. It returns the response and the messages of the
// forms.
func answerForms(t *testing.T, p *wiretest.Peer, r mcp.Revision, tool string, answers ...string) (response string,
	messages []string) {
	const capabilities, none = `"capabilities":{"elicitation":{}}`, `"capabilities":{}`
	if !r.Modern() {
		p.Ask(strings.Replace(fmt.Sprintf(wiretest.Initialize, r), none, capabilities, 1))
		p.Send(wiretest.Initialized, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q}}`, tool))
	}
	more := ""
	for range 10 {
		if r.Modern() {
			call, _ := wiretest.Modern("2", mcp.MethodCallTool, fmt.Sprintf(`"name":%q%s`, tool, more))
			p.Send(strings.Replace(call, `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{"form":{}}}`, 1))
		}
		m := must.Get(jsonrpc.Parse([]byte(p.Receive()), jsonrpc.Limits{}))(t)
		var asked struct { // the result, or the params of a request
			InputRequests map[string]struct{ Params mcp.ElicitParams }
			RequestState  json.RawMessage
			Message       string
		}
		must.Check(t, json.Unmarshal(m.Raw, &asked))
		if m.Kind == jsonrpc.Response && len(asked.InputRequests) == 0 {
			return string(m.Raw), messages
		}
		must.That(t, len(answers) != 0, "one question too many: %s", m.Raw)
		answer := `{"action":"accept","content":` + answers[0] + `}`
		answers = answers[1:]
		if m.Kind == jsonrpc.Request {
			messages = append(messages, asked.Message)
			p.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer))
			continue
		}
		for key, q := range asked.InputRequests {
			messages = append(messages, q.Params.Message)
			more = fmt.Sprintf(`,"requestState":%s,"inputResponses":{%q:%s}`, asked.RequestState, key, answer)
		}
	}
	t.Fatal("the call does not end")
	return "", nil
}

// If an answer does not match its form, the user is asked again and told why, at most twice, between clients and
// servers of each revision that has forms.
func TestInvalidAnswerIsAskedAgain(t *testing.T) {
	revisions := []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728}
	for _, theirs := range revisions {
		up := &server.Server{Name: "up"}
		server.AddTool(up, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ none) (string, error) {
			content, err := server.ElicitForm(ctx, "How old?", json.RawMessage(
				`{"type":"object","properties":{"age":{"type":"integer","minimum":18}},"required":["age"]}`))
			return string(content), err
		})
		s := &server.Server{Name: "gateway"}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{httpConfig(t, "up", up)},
			Dialer: client.Dialer{Revision: theirs}}, s)
		for _, ours := range revisions {
			t.Run(fmt.Sprintf("client %s, server %s", ours, theirs), func(t *testing.T) {
				ask := func(answers ...string) (response string, messages []string) {
					return answerForms(t, wiretest.Connect(t, s.ServeConn), ours, "up__ask", answers...)
				}
				question := asksOf("up") + "How old?"
				again := func(attempt int, reason string) string {
					return fmt.Sprintf("%s\n\nPlease answer again (attempt %d of 3): the answer does not match the form: %s",
						question, attempt, reason)
				}
				response, messages := ask(`{"age":7}`, `{}`, `{"age":36}`)
				want := []string{question, again(2, ""), again(3, "")} // prefixes of the messages
				if !slices.EqualFunc(messages, want, strings.HasPrefix) || !strings.Contains(response, `{\"age\":36}`) {
					t.Errorf("asked %q, want %q; response %s", messages, want, response)
				}
				response, messages = ask(`{"age":7}`, `{}`, `[]`)
				must.CheckEqual(t, len(messages), 3, messages)
				must.CheckContains(t, response, "it must be an object", messages)
			})
		}
	}
}
