package openaisampler_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/sampler"
	"github.com/parley-mcp/parley/sampler/openaisampler"
)

// The endpoint belongs to a local server that is compatible with the API of OpenAI.
func ExampleSampler() {
	api := httptest.NewServer(&endpoint{response: said})
	defer api.Close()
	model := openai.NewClient(option.WithBaseURL(api.URL+"/v1"), option.WithAPIKey("none"),
		option.WithHTTPClient(api.Client()))
	s := &openaisampler.Sampler{Client: &model, Models: sampler.Models{{Name: "qwen3",
		Aliases: []string{"claude", "gpt"}}}, MaxTokens: true}

	// In a program: h := &host.Host{Servers: servers, Dialer: client.Dialer{Sample: s.Sample}}
	result, err := s.Sample(context.Background(), &mcp.CreateMessageParams{
		MaxTokens: 100, Messages: []mcp.SamplingMessage{user(&mcp.TextContent{Text: "Greet me."})},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text, result.StopReason)
	// Output: Hello. endTurn
}
