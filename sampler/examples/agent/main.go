// Command agent lets a language model use the tools of several servers, each of which is a program, until the model
// answers. The servers can use the model, too (sampling). The user approves each call and each request at the terminal.
//
//	go build -o bin/ ./examples/hello ./examples/summary
//	ANTHROPIC_API_KEY=… go run ./sampler/examples/agent "Greet Ada." bin/hello bin/summary
//	OPENAI_API_KEY=… go run ./sampler/examples/agent -model gpt-5 "Greet Ada." bin/hello bin/summary
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"path/filepath"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/sampler"
	"github.com/parley-mcp/parley/sampler/anthropicsampler"
	"github.com/parley-mcp/parley/sampler/openaisampler"
)

// model returns the next message of a language model.
type model func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error)

// newModel returns a model of Anthropic, or a model of OpenAI or of a compatible server at OPENAI_BASE_URL.
func newModel(name string) model {
	models := sampler.Models{{Name: name}}
	if strings.HasPrefix(name, "claude-") {
		api := anthropic.NewClient() // reads ANTHROPIC_API_KEY
		return (&anthropicsampler.Sampler{Client: &api, Models: models}).Sample
	}
	api := openai.NewClient() // reads OPENAI_API_KEY
	return (&openaisampler.Sampler{Client: &api, Models: models}).Sample
}

// run lets the model call tools until it answers, at most ten times.
func run(ctx context.Context, h *host.Host, next model, task string) (string, error) {
	conversation := []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(task)}}}
	for range 10 {
		answer, err := next(ctx, &mcp.CreateMessageParams{MaxTokens: 4096, Messages: conversation, Tools: toolsOf(h)})
		if err != nil {
			return "", err
		}
		conversation = append(conversation, mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: answer.Content})
		var results []mcp.Content
		for _, c := range answer.Content {
			if use, ok := c.(*mcp.ToolUseContent); ok {
				results = append(results, callTool(ctx, h, use))
			}
		}
		if len(results) == 0 {
			return textOf(answer.Content), nil
		}
		conversation = append(conversation, mcp.SamplingMessage{Role: mcp.RoleUser, Content: results})
	}
	return "", errors.New("the model has not answered after ten calls")
}

// toolsOf returns the tools of all servers under their names in the merged list.
func toolsOf(h *host.Host) (tools []mcp.Tool) {
	for _, t := range h.Tools() {
		definition := t.Definition
		definition.Name = t.Name
		tools = append(tools, definition)
	}
	return tools
}

// callTool calls a tool. The model reads errors, too: it can correct its arguments, or choose another tool.
func callTool(ctx context.Context, h *host.Host, use *mcp.ToolUseContent) mcp.Content {
	result, err := h.Call(ctx, use.Name, use.Input, client.WithTimeout(time.Minute))
	if err != nil {
		return &mcp.ToolResultContent{ToolUseID: use.ID, IsError: true, Content: []mcp.Content{mcp.Text(err.Error())}}
	}
	return &mcp.ToolResultContent{ToolUseID: use.ID, IsError: result.IsError, Content: result.Content}
}

func textOf(content []mcp.Content) (text string) {
	for _, c := range content {
		if t, ok := c.(*mcp.TextContent); ok {
			text += t.Text
		}
	}
	return text
}

// approve asks the user about a call, or about a request of a server to the model.
func approve(_ context.Context, a *host.Approval) (bool, error) {
	fmt.Printf("%s\n\n[y/n] ", a.Question())
	answer := ""
	_, err := fmt.Scanln(&answer)
	return answer == "y", err
}

func main() {
	name := flag.String("model", "claude-sonnet-4-5", "the model")
	flag.Parse()
	next := newModel(*name)
	h := &host.Host{Policy: host.Rules{Version: "1", Default: host.Ask}, Approve: approve,
		Dialer: client.Dialer{Sample: next, SampleTools: true}}
	for _, program := range flag.Args()[1:] {
		h.Servers = append(h.Servers, host.ServerConfig{Name: filepath.Base(program), Target: client.Command(program)})
	}
	if err := h.Start(); err != nil {
		log.Fatal(err)
	}
	if err := h.WaitReady(context.Background()); err != nil {
		log.Print(err) // names the servers that are down; the others work
	}
	answer, err := run(context.Background(), h, next, flag.Arg(0))
	_ = h.Close() // ends the servers
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
}
