package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// newAskingPayments returns payments whose prompt pay asks for an account before it counts its call.
func newAskingPayments(t *testing.T) *payments {
	p := newPayments()
	p.RemovePrompt("pay")
	err := p.RegisterPrompt(mcp.Prompt{Name: "pay"}, func(ctx context.Context, _ map[string]string) (*mcp.GetPromptResult, error) {
		if _, err := server.ElicitForm(ctx, "Which account?", json.RawMessage(`{"type":"object","properties":{"approve":{"type":"string"}}}`)); err != nil {
			return nil, err
		}
		p.paid.Add(1)
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("paid")}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestApprovedPromptCanAskTheUser(t *testing.T) {
	for _, r := range formRevisions {
		t.Run(string(r), func(t *testing.T) {
			p, u := newAskingPayments(t), &user{}
			c := mcptest.Dial(t, asking(t, p, &events{}), mcptest.WithRevision(r), func(d *client.Dialer) { d.Elicit = u.elicit })
			u.set(mcp.ElicitAccept, `{"approve":"once"}`)
			if result, err := c.GetPrompt(t.Context(), "bank__pay", nil); err != nil || len(result.Messages) != 1 {
				t.Fatalf("%+v, %v; the user was asked %q", result, err, u.asked)
			}
			if len(u.asked) != 2 || p.paid.Load() != 1 {
				t.Errorf("the user was asked %q; paid %d times", u.asked, p.paid.Load())
			}
		})
	}
}

func TestApprovalIsUsedOnceInEachRound(t *testing.T) {
	p := newAskingPayments(t)
	post := poster(t, asking(t, p, &events{}), mcp.MethodGetPrompt)
	answered := func(key, state string) string {
		return `,"requestState":` + state + `,"inputResponses":{` + key + `:{"action":"accept","content":{"approve":"once"}}}`
	}
	key, first := post(`{}`, "").question(t)
	_, unanswered := post(`{}`, `,"requestState":`+first).question(t)
	account, second := post(`{}`, answered(key, first)).question(t)
	if got := post(`{}`, answered(account, second)); !strings.Contains(string(got), `"paid"`) {
		t.Fatalf("the approved request: %s", got)
	}
	for name, more := range map[string]string{
		"the first round again":                   answered(key, first),
		"the second round again":                  answered(account, second),
		"a second question with the first answer": answered(key, unanswered),
	} {
		if got := post(`{}`, more); !strings.Contains(string(got), "used before") || p.paid.Load() != 1 {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestApprovalOfAnotherRequestCannotBeRepeated(t *testing.T) {
	for _, method := range []string{mcp.MethodCallTool, mcp.MethodGetPrompt} {
		p := newPayments()
		post := poster(t, asking(t, p, &events{}), method)
		key, state := post(`{}`, "").question(t)
		got := post(`{}`, `,"inputResponses":{`+key+`:{"action":"accept","content":{"approve":"once"}}}`)
		if p.paid.Load() != 0 {
			t.Fatalf("%s: the answer to the question of another request was used: %s", method, got)
		}
		other, otherState := got.question(t)
		for key, state := range map[string]string{key: state, other: otherState} { // ends the calls
			post(`{}`, `,"requestState":`+state+`,"inputResponses":{`+key+`:{"action":"decline"}}`)
		}
	}
}
