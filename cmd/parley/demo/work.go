//lint:file-ignore SA1019 Deprecated features are still supported.

package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func addBakery(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "bake", Title: "Bake",
		Description: "Bake a cake, which takes a while, and ask how to finish it",
		Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)}},
		bake, server.AsTask(server.TaskOptions{PollInterval: time.Second / 2, Replay: true}))
}

type cake struct {
	Kind         string `json:"kind" minLength:"1" maxLength:"100" doc:"such as plum or lemon"`
	Milliseconds int    `json:"milliseconds,omitempty" minimum:"1" maximum:"600000" doc:"time for each step; default: 2000"`
}

type finish struct {
	Icing   string `json:"icing" title:"Icing" enum:"none,sugar,chocolate" default:"sugar"`
	Candles int    `json:"candles" title:"Candles" minimum:"0" maximum:"100" default:"0"`
}

// bake is a long job with a question in the middle. It runs as a task if the client supports tasks. The handler runs
// again with the answer, and at another replica if the process ends, so each step is in Once.
func bake(ctx context.Context, in cake) (string, error) {
	pause := 2 * time.Second
	if in.Milliseconds > 0 {
		pause = time.Duration(in.Milliseconds) * time.Millisecond
	}
	number, err := server.Once(ctx, "oven", func(_ context.Context, key string) (string, error) {
		return shortNumber(key), nil
	})
	if err != nil {
		return "", err
	}
	for i, name := range []string{"mixing", "kneading", "baking"} {
		if err := step(ctx, pause, i, name); err != nil {
			return "", err
		}
	}
	how, err := server.Elicit[finish](ctx, fmt.Sprintf("The %s cake is baked. How do you want it?", in.Kind))
	if err != nil {
		return unanswered(err, "The cake stays plain", "the client cannot ask the user how to finish the cake")
	}
	if err := step(ctx, pause, 3, "finishing"); err != nil {
		return "", err
	}
	return fmt.Sprintf("Cake %s: %s, icing: %s, candles: %d. This is a demo; nothing was baked.", number, in.Kind,
		how.Icing, how.Candles), nil
}

// step takes a step of the job, unless an earlier run of the handler has completed it. If the process
// has ended during the step, step takes it again.
func step(ctx context.Context, pause time.Duration, done int, name string) error {
	take := func(ctx context.Context, _ string) (struct{}, error) {
		if err := server.Progress(ctx, float64(done), 4, name); err != nil {
			return struct{}{}, err
		}
		select {
		case <-time.After(pause):
			return struct{}{}, nil
		case <-ctx.Done():
			return struct{}{}, fmt.Errorf("stopped while %s: %w", name, context.Cause(ctx))
		}
	}
	_, err := server.Once(ctx, name, take)
	if errors.Is(err, server.ErrOnceUncertain) {
		_, err = take(ctx, "")
	}
	return err
}

type findings struct {
	Checked int      `json:"checked"`
	Sick    []string `json:"sick"`
}

// checkup sends its findings to the client as log messages.
func checkup(ctx context.Context, _ struct{}) (findings, error) {
	log := server.Logger(ctx).WithGroup("checkup")
	found := findings{Sick: []string{}}
	for _, machine := range []struct {
		name string
		full int // percent of the disk in use
	}{{"anna", 12}, {"bert", 71}, {"carl", 93}} {
		log.DebugContext(ctx, "checking", "machine", machine.name)
		found.Checked++
		if machine.full > 90 {
			log.WarnContext(ctx, "the disk is nearly full", "machine", machine.name, "percent", machine.full)
			found.Sick = append(found.Sick, machine.name)
			continue
		}
		log.InfoContext(ctx, "the machine is healthy", "machine", machine.name)
	}
	return found, nil
}

// addModel adds the tools that use the client's model and roots.
func addModel(s *server.Server) {
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "summarize", Title: "Summarize",
		Description: "Summarize a text with the client's model", Annotations: readOnly}, summarize)
	server.AddTool(s, mcp.Tool{Name: "workspace", Title: "Workspace", Description: "List the roots of the client",
		Annotations: readOnly}, workspace)
}

func summarize(ctx context.Context, in struct {
	Text string `json:"text" minLength:"1" maxLength:"10000" doc:"the text to summarize"`
}) (string, error) {
	answer, err := server.Sample(ctx, mcp.CreateMessageParams{
		SystemPrompt: "Summarize the user's text in one sentence.",
		Messages:     []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(in.Text)}}},
		MaxTokens:    200,
	})
	if err != nil {
		return unanswered(err, "There is no summary", "the client does not offer a model")
	}
	for _, content := range answer.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", errors.New("the model returned no text")
}

func workspace(ctx context.Context, _ struct{}) (string, error) {
	roots, err := server.Roots(ctx)
	if err != nil {
		return unanswered(err, "There are no directories", "the client has no roots; parley sets them with --root")
	}
	var lines []string
	for _, root := range roots {
		lines = append(lines, strings.TrimSpace(root.Name+" "+root.URI))
	}
	return strings.Join(append(lines, "End of the list."), "\n"), nil
}
