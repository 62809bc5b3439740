package anthropicsampler_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/sampler"
	"github.com/parley-mcp/parley/sampler/anthropicsampler"
	"github.com/parley-mcp/parley/server"
)

// The model answers the sampling request of a server after an approval.
func ExampleSampler() {
	api := httptest.NewServer(&endpoint{response: said}) // in a program, leave out option.WithBaseURL
	defer api.Close()
	model := anthropic.NewClient(option.WithBaseURL(api.URL), option.WithAPIKey("key"),
		option.WithHTTPClient(api.Client()))

	s := &server.Server{Name: "greeter"}
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(ctx context.Context, _ struct{}) (string, error) {
		answer, err := server.Sample(ctx, mcp.CreateMessageParams{
			MaxTokens: 100, Messages: []mcp.SamplingMessage{user(&mcp.TextContent{Text: "Greet me."})},
		})
		if err != nil {
			return "", err
		}
		return answer.Content[0].(*mcp.TextContent).Text, nil
	})
	endpoint := httptest.NewServer(s)
	defer endpoint.Close()

	h := &host.Host{
		Servers: []host.ServerConfig{{Name: "greeter", Target: client.URL(endpoint.URL)}},
		Dialer: client.Dialer{Sample: (&anthropicsampler.Sampler{Client: &model,
			Models: sampler.Models{{Name: "claude-haiku-4-5"}}}).Sample},
		Policy: host.Rules{Rules: []host.Rule{{Method: mcp.MethodCreateMessage, Action: host.Ask}},
			Default: host.Allow},
		Approve: func(_ context.Context, a *host.Approval) (bool, error) {
			fmt.Println(a.Question())
			return true, nil // the user agrees
		},
	}
	if err := h.Start(); err != nil {
		log.Fatal(err)
	}
	defer h.Close()
	result, err := h.Client("greeter").CallTool(context.Background(), "greet", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// Allow the server "greeter" to send a request to the language model?
	//
	// Request: {"maxTokens":100,"messages":[{"content":{"text":"Greet me.","type":"text"},"role":"user"}]}
	//
	// Reason for the question: rule 1 of the policy
	// Hello.
}
