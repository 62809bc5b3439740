// Command order is a server with a tool that asks three questions and charges a card exactly
// once, even if the client, the server or the connection fails.
//
//	parley call order -- go run ./examples/order
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// charger charges the card. It can be called twice with the same idempotency key, and must charge
// once for each key.
type charger func(ctx context.Context, idempotencyKey string) (receipt string, err error)

// newServer configures s, whose Keys and Store all replicas share.
func newServer(s *server.Server, charge charger) *server.Server {
	server.AddTool(s, mcp.Tool{Name: "order", Description: "Order a pizza"},
		func(ctx context.Context, _ struct{}) (string, error) {
			pizza, err := question(ctx, "Which pizza?")
			if err != nil {
				return "", err
			}
			size, err := question(ctx, "Which size?")
			if err != nil {
				return "", err
			}
			receipt, err := server.Once(ctx, "charge", charge)
			if errors.Is(err, server.ErrOnceUncertain) {
				return "", fmt.Errorf("the card may have been charged; check with your bank: %w", err)
			} else if err != nil {
				return "", err
			}
			address, err := question(ctx, "Which address?")
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %s to %s, %s", size, pizza, address, receipt), nil
		})
	return s
}

// question asks the user with a form. In revisions without forms it uses sampling.
func question(ctx context.Context, text string) (string, error) {
	form, err := server.Elicit[struct {
		Answer string `json:"answer"`
	}](ctx, text)
	if !errors.Is(err, errors.ErrUnsupported) {
		return form.Answer, err
	}
	// Revisions before 2025-06-18 have no other way to ask the user.
	result, err := server.Sample(ctx, mcp.CreateMessageParams{
		MaxTokens: 100, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(text)}}},
	})
	if err != nil {
		return "", err
	}
	answer, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		return "", fmt.Errorf("the answer to %q must be text", text)
	}
	return answer.Text, nil
}

func main() {
	s := newServer(&server.Server{Name: "order", Version: "1.0.0"},
		func(_ context.Context, key string) (string, error) {
			return "receipt " + key, nil
		})
	if err := s.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
