//go:build integration

//lint:file-ignore SA1019 What is deprecated still has to work.

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// answer has the peer's questions answered by somebody who says what the tests expect.
func (p *peer) answer(d *client.Dialer) {
	d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		accept := func(content string) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(content)}, nil
		}
		switch form.Message {
		case "Who are you?":
			return accept(`{"name":"Grace"}`) // the rest is as the form has it
		case "The first word?":
			return accept(`{"word":"alpha"}`)
		case "After alpha?":
			return accept(`{"word":"beta"}`)
		case "Say no":
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		case "Go away":
			return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
		case "Take your time":
			<-ctx.Done()
			close(p.gaveUp)
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("nobody expects %q", form.Message)
	}
	d.ElicitURL = func(_ context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		p.visited <- request.URL
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	d.SampleTools = true
	d.Sample = func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		said := &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "parrot", StopReason: "endTurn"}
		last := params.Messages[len(params.Messages)-1].Content[0]
		switch last := last.(type) {
		case *mcp.ToolResultContent:
			said.Content = last.Content
		default:
			if len(params.Tools) == 0 {
				said.Content = []mcp.Content{mcp.Text("hello")}
				break
			}
			said.StopReason = "toolUse"
			said.Content = []mcp.Content{&mcp.ToolUseContent{ID: "use-1", Name: params.Tools[0].Name, Input: json.RawMessage(`{"city":"Oslo"}`)}}
		}
		return said, nil
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) {
		return []mcp.Root{{URI: "file:///work", Name: "work"}, {URI: "file:///notes", Name: "notes"}}, nil
	}
}

// useQuestions calls those of their tools that ask.
func useQuestions(t *testing.T, p *peer) {
	ask := func(tool string, arguments any, want string) {
		t.Helper()
		if text, err := client.Call[string](t.Context(), p.Client, tool, arguments); err != nil || text != want {
			t.Errorf("%s: %q, %v, want %q", tool, text, err, want)
		}
	}
	filled, err := client.Call[map[string]any](t.Context(), p.Client, "survey", nil)
	want := map[string]any{
		"name": "Grace", "age": 36., "score": 9.5, "member": true, "colour": "green", "size": "l", "days": []any{"mon", "wed"},
	}
	if err != nil || fmt.Sprint(filled) != fmt.Sprint(want) {
		t.Errorf("survey: %v, %v, want %v", filled, err, want)
	}
	ask("survey", map[string]string{"message": "Say no"}, "decline")
	ask("survey", map[string]string{"message": "Go away"}, "cancel")
	ask("twice", nil, "alpha beta")
	ask("think", nil, "parrot: hello")
	ask("research", nil, "Oslo: rain")
	ask("roots", nil, "work file:///work\nnotes file:///notes")
	ask("everything", nil, "alpha, hello, 2 roots")
	ask("pay", nil, "accept")
	if url := await(t, p.visited); url != "https://pay.example/1" {
		t.Errorf("the user was sent to %s", url)
	}
	if p.Revision() < mcp.V20260728 { // whose servers ask no client while a call is served, and refuse none until a visit
		ask("pay_first", nil, "thank you")
		if url := await(t, p.visited); url != "https://pay.example/2" {
			t.Errorf("the user was sent to %s", url)
		}
		if _, err := p.CallTool(t.Context(), "impatient", nil); err != nil {
			t.Error(err)
		}
		await(t, p.gaveUp)
	}
}
