// Command agent lets a language model use the tools of several servers until it answers. A policy decides which calls
// are sent, and the user approves others at the terminal. The model here is a script; sampler/examples/agent calls the
// API of a provider.
//
//	go build -o bin/ ./examples/hello ./examples/weather
//	go run ./examples/agent bin/hello bin/weather
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// message is an entry of the conversation: of the user, the model or a tool.
type message struct {
	role, text, tool string
	arguments        json.RawMessage // if the model calls the tool
}

// model returns the next message of a language model.
type model func(ctx context.Context, tools []host.Tool, conversation []message) (message, error)

// script calls a tool and repeats its result.
func script(_ context.Context, tools []host.Tool, conversation []message) (message, error) {
	last := conversation[len(conversation)-1]
	if last.role == "tool" || len(tools) == 0 {
		return message{role: "model", text: "Answer: " + last.text}, nil
	}
	return message{role: "model", tool: tools[0].Name, arguments: json.RawMessage(`{"name":"Ada"}`)}, nil
}

// run lets the model call tools until it answers, at most ten times.
func run(ctx context.Context, h *host.Host, next model, task string) (string, error) {
	conversation := []message{{role: "user", text: task}}
	for range 10 {
		m, err := next(ctx, h.Tools(), conversation)
		if err != nil || m.tool == "" {
			return m.text, err
		}
		result, err := h.Call(ctx, m.tool, m.arguments, client.WithTimeout(time.Minute))
		conversation = append(conversation, m, message{role: "tool", text: textOf(result, err)})
	}
	return "", errors.New("the model has not answered after ten calls")
}

// textOf returns what the model learns about a call. It can correct its arguments after an error.
func textOf(result *mcp.CallToolResult, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	text, _ := json.Marshal(result.Content)
	return string(text)
}

// policy decides on each call. The first rule that matches decides.
var policy = host.Rules{Version: "1", Default: host.Ask, Rules: []host.Rule{
	{Server: "weather", Tool: "weather", Action: host.Allow},
	{Tool: "delete_*", Action: host.Deny, Reason: "this agent deletes nothing"},
}}

// approve asks the user about a call for which the policy decides host.Ask.
func approve(_ context.Context, a *host.Approval) (bool, error) {
	fmt.Printf("%s\n\n[y/n] ", a.Question())
	answer := ""
	_, err := fmt.Scanln(&answer)
	return answer == "y", err
}

// greet starts the servers, each of which is a program, and gives the model a task.
func greet(ctx context.Context, programs []string) error {
	h := &host.Host{
		Policy: policy, Approve: approve,
		Logger: slog.New(slog.DiscardHandler), // WaitReady returns the errors
	}
	for _, program := range programs {
		name := strings.TrimSuffix(filepath.Base(program), ".exe")
		h.Servers = append(h.Servers, host.ServerConfig{Name: name, Target: client.Command(program)})
	}
	defer h.Close() // ends the servers
	if err := errors.Join(h.Start(), h.WaitReady(ctx)); err != nil {
		return err
	}
	answer, err := run(ctx, h, script, "Greet Ada.")
	fmt.Println(answer)
	return err
}

func main() {
	if err := greet(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
