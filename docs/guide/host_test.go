package guide_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

type payment struct {
	Cents int `json:"cents"`
}

var payments = host.Rules{Version: "1", Rules: []host.Rule{ // Default is host.Deny
	{Server: "bank", Tool: "pay", Action: host.Allow, When: small},
	{Server: "bank", Tool: "pay", Action: host.Ask, Reason: "not a small payment"},
	{Server: "bank", Method: "elicitation/create", Action: host.Allow}, // the questions of the server
}}

// small reports whether a call pays at most 10 euros.
func small(_ context.Context, r *host.Request) (bool, error) {
	var in payment
	err := schema.Decode(r.Arguments, &in)
	return in.Cents > 0 && in.Cents <= 1000, err
}

// startBank starts a host of a server whose tool asks the user.
func startBank(t *testing.T, h *host.Host) {
	s := &server.Server{Name: "bank"}
	server.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, in map[string]any) (string, error) {
		answer, err := server.Elicit[confirmation](ctx, "Pay?")
		if err != nil || !answer.Sure {
			return "", err
		}
		return "paid", nil
	})
	endpoint := httptest.NewServer(s)
	t.Cleanup(endpoint.Close)
	h.Servers = []host.ServerConfig{{Name: "bank", Target: client.URL(endpoint.URL)}}
	h.Dialer.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(confirmation{true})
	}
	h.Logger = slog.New(slog.DiscardHandler)
	must.Do(t, h.Start())
	t.Cleanup(func() { _ = h.Close() })
	must.Do(t, h.WaitReady(t.Context()))
}

func TestPolicyDecidesByArguments(t *testing.T) {
	asked := false
	h := &host.Host{Policy: payments, Approve: func(context.Context, *host.Approval) (bool, error) {
		asked = true
		return true, nil
	}}
	startBank(t, h)
	for _, tt := range []struct {
		arguments string
		asks      bool
		err       string
	}{
		{arguments: `{"cents":1000}`},
		{arguments: `{"cents":1001}`, asks: true},
		{arguments: `{"cents":-1}`, asks: true},
		{arguments: `{"cents":1001,"Cents":1}`, asks: true}, // the server reads 1001
		{arguments: `{"cents":"1"}`, err: `tools/call pay of server "bank" is denied: the policy cannot decide: ` +
			`cannot evaluate rule 1: `},
	} {
		asked = false
		_, err := h.Call(t.Context(), "bank__pay", json.RawMessage(tt.arguments))
		must.CheckEqual(t, asked, tt.asks, tt.arguments)
		if tt.err == "" {
			must.Check(t, err)
		} else {
			must.CheckContains(t, fmt.Sprint(err), tt.err)
		}
	}
}

// A tool that asks fails if the policy has no rule for its question.
func TestPolicyDecidesAboutQuestions(t *testing.T) {
	h := &host.Host{Policy: host.Rules{Rules: []host.Rule{{Tool: "*", Action: host.Allow}}}}
	startBank(t, h)
	_, err := h.Call(t.Context(), "bank__pay", payment{1})
	must.CheckContains(t, fmt.Sprint(err), `cannot answer elicitation/create of the server: elicitation/create of server `+
		`"bank" is denied: no rule of the policy matches`)
}
