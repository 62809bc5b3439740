package main

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// card records the idempotency keys of its charges.
type card struct {
	mu   sync.Mutex
	keys []string
}

func (c *card) charge(_ context.Context, key string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, key)
	return fmt.Sprintf("receipt %d", len(c.keys)), nil
}

func (c *card) checkCharges(t *testing.T, charges int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.keys) != charges {
		t.Errorf("the card was charged %d times, want %d: %q", len(c.keys), charges, c.keys)
	}
}

var answers = map[string]string{"Which pizza?": "margherita", "Which size?": "large", "Which address?": "Oslo"}

// answerQuestions gives a client a user who answers, in any revision.
func answerQuestions(d *client.Dialer) {
	d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(map[string]string{"answer": answers[form.Message]})
	}
	d.Sample = func(_ context.Context, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		question := p.Messages[0].Content[0].(*mcp.TextContent).Text
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "user", Content: []mcp.Content{mcp.Text(answers[question])}}, nil
	}
}

const delivered = "large margherita to Oslo, receipt 1"

func TestOrderChargesOnceInEveryRevision(t *testing.T) {
	var paid *card
	newOrder := func() *server.Server {
		paid = new(card)
		return newServer(&server.Server{}, paid.charge)
	}
	mcptest.Everywhere(t, newOrder, func(t *testing.T, c *client.Client) {
		text, err := client.CallTool[string](t.Context(), c, "order", nil)
		if err != nil || text != delivered {
			t.Errorf("order = %q, %v", text, err)
		}
		paid.checkCharges(t, 1)
	}, answerQuestions)
}
