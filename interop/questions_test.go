//go:build integration

//lint:file-ignore SA1019 What is deprecated still has to work.

package interop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// surveyForm asks for everything that a form may ask for, and has a default for all of it.
const surveyForm = `{"type":"object","properties":{
	"name":{"type":"string","minLength":1,"default":"Ada"},
	"age":{"type":"integer","minimum":0,"default":36},
	"score":{"type":"number","default":9.5},
	"member":{"type":"boolean","default":true},
	"colour":{"type":"string","enum":["red","green"],"default":"green"},
	"size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}],"default":"l"},
	"days":{"type":"array","items":{"type":"string","enum":["mon","tue","wed"]},"default":["mon","wed"]}},
	"required":["name","colour"]}`

type word struct {
	Word string `json:"word"`
}

// offerQuestions adds the tools that ask. Those who decline and dismiss are answered with what they did.
func offerQuestions(s *server.Server) {
	ask := func(name string, handler func(ctx context.Context, message string) (string, error)) {
		server.AddTool(s, mcp.Tool{Name: name, Description: "Asks the client"}, func(ctx context.Context, in struct {
			Message *string `json:"message"`
		}) (string, error) {
			message := ""
			if in.Message != nil {
				message = *in.Message
			}
			return handler(ctx, message)
		})
	}
	ask("survey", func(ctx context.Context, message string) (string, error) {
		content, err := server.ElicitForm(ctx, cmp.Or(message, "Who are you?"), json.RawMessage(surveyForm))
		switch {
		case errors.Is(err, server.ErrDeclined):
			return "decline", nil
		case errors.Is(err, server.ErrDismissed):
			return "cancel", nil
		}
		return string(content), err
	})
	ask("twice", func(ctx context.Context, _ string) (string, error) {
		first, err := server.Elicit[word](ctx, "The first word?")
		if err != nil {
			return "", err
		}
		second, err := server.Elicit[word](ctx, "After "+first.Word+"?")
		return first.Word + " " + second.Word, err
	})
	ask("think", func(ctx context.Context, _ string) (string, error) {
		said, err := server.Sample(ctx, saying("Say hello"))
		if err != nil {
			return "", err
		}
		return said.Model + ": " + textOf(said.Content), nil
	})
	ask("research", func(ctx context.Context, _ string) (string, error) {
		question := saying("How is the weather in Oslo?")
		question.Tools = []mcp.Tool{{
			Name: "weather", Description: "Tell the weather",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
		}}
		asked, err := server.Sample(ctx, question)
		if err != nil {
			return "", err
		}
		use, ok := asked.Content[0].(*mcp.ToolUseContent)
		if !ok {
			return "", fmt.Errorf("no use of a tool: %+v", asked)
		}
		var input struct{ City string }
		if err := json.Unmarshal(use.Input, &input); err != nil {
			return "", err
		}
		question.Messages = append(question.Messages,
			mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: asked.Content},
			mcp.SamplingMessage{Role: mcp.RoleUser, Content: []mcp.Content{
				&mcp.ToolResultContent{ToolUseID: use.ID, Content: []mcp.Content{mcp.Text(input.City + ": rain")}},
			}})
		said, err := server.Sample(ctx, question)
		if err != nil {
			return "", err
		}
		return textOf(said.Content), nil
	})
	ask("roots", func(ctx context.Context, _ string) (string, error) {
		roots, err := server.Roots(ctx)
		var lines []string
		for _, root := range roots {
			lines = append(lines, root.Name+" "+root.URI)
		}
		return strings.Join(lines, "\n"), err
	})
	ask("everything", func(ctx context.Context, _ string) (string, error) {
		var name word
		var said mcp.CreateMessageResult
		var roots []mcp.Root
		err := server.Ask(ctx, server.ElicitInto(&name, "The first word?"), server.SampleInto(&said, saying("Say hello")), server.RootsInto(&roots))
		return fmt.Sprintf("%s, %s, %d roots", name.Word, textOf(said.Content), len(roots)), err
	})
	ask("impatient", func(ctx context.Context, _ string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := server.Elicit[word](ctx, "Take your time")
		return "", err
	})
	// The user is done at the page when the server looks for the second time.
	visit := func(url string, options ...server.AskOption) func(context.Context, string) (string, error) {
		var looks atomic.Int64
		return func(ctx context.Context, _ string) (string, error) {
			done := func(context.Context) (bool, error) { return looks.Add(1) > 1, nil }
			if err := server.ElicitURL(ctx, url, "Pay here", done, options...); err != nil {
				return "", err
			}
			return "thank you", nil
		}
	}
	ask("pay", visit("https://pay.example/1"))
	ask("pay_first", visit("https://pay.example/2", server.URLRequired()))
}

func saying(text string) mcp.CreateMessageParams {
	return mcp.CreateMessageParams{
		MaxTokens: 100,
		Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(text)}}},
	}
}

func textOf(content []mcp.Content) string {
	var texts []string
	for _, c := range content {
		if text, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// answer has the peer's questions answered by somebody who says what the tests expect.
func (p *peer) answer(d *client.Dialer) {
	d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		accept := func(content string) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(content)}, nil
		}
		switch form.Message {
		case "Who are you?", everythingForm:
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
		if text, err := client.CallTool[string](t.Context(), p.Client, tool, arguments); err != nil || text != want {
			t.Errorf("%s: %q, %v, want %q", tool, text, err, want)
		}
	}
	filled, err := client.CallTool[map[string]any](t.Context(), p.Client, "survey", nil)
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

// A questionsObservation is what came of the calls of a client peer that asked it something.
type questionsObservation struct {
	Error                                                       *observedError
	Survey, No, Away, Twice, Think, Research, Roots, Everything callObservation
	Pay, PayFirst, Paid, Impatient                              callObservation
	Required                                                    []string // the ids of what has to be visited first
	Asked                                                       struct {
		Visited   []struct{ URL, ElicitationID string }
		Completed []string
		GaveUp    bool
	}
}

func (o questionsObservation) check(t *testing.T, revision string) {
	t.Helper()
	if o.Error != nil {
		t.Fatalf("questions: %+v", o.Error)
	}
	expect := func(tool string, got callObservation, want string) {
		t.Helper()
		if got.Error != nil || got.IsError || got.text() != want {
			t.Errorf("%s: %+v, want %q", tool, got, want)
		}
	}
	expect("think", o.Think, "parrot: hello")
	expect("roots", o.Roots, "work file:///work\nnotes file:///notes")
	if revision < "2025-11-25" { // before which there are no such forms
		return
	}
	var filled map[string]any
	want := map[string]any{
		"name": "Grace", "age": 36., "score": 9.5, "member": true, "colour": "green", "size": "l", "days": []any{"mon", "wed"},
	}
	if err := json.Unmarshal([]byte(o.Survey.text()), &filled); err != nil || fmt.Sprint(filled) != fmt.Sprint(want) {
		t.Errorf("survey: %+v, want %v", o.Survey, want)
	}
	expect("a declined survey", o.No, "decline")
	expect("a dismissed survey", o.Away, "cancel")
	expect("twice", o.Twice, "alpha beta")
	expect("research", o.Research, "Oslo: rain")
	if o.Pay.Error != nil || o.Pay.IsError {
		t.Errorf("pay: %+v", o.Pay)
	}
	expect("everything", o.Everything, "alpha, hello, 2 roots")
	if !slices.ContainsFunc(o.Asked.Visited, func(v struct{ URL, ElicitationID string }) bool { return v.URL == "https://pay.example/1" }) {
		t.Errorf("the user was sent to %+v", o.Asked.Visited)
	}
	if revision >= "2026-07-28" {
		return
	}
	known := slices.Clone(o.Required)
	for _, visited := range o.Asked.Visited {
		known = append(known, visited.ElicitationID)
	}
	unknown := slices.ContainsFunc(o.Asked.Completed, func(id string) bool { return !slices.Contains(known, id) })
	if len(o.Required) != 1 || !slices.Contains(o.Asked.Completed, o.Required[0]) || unknown {
		t.Errorf("a call that is refused until a visit: %+v; of the visits %v these are reported as done: %v", o.PayFirst, known, o.Asked.Completed)
	}
	expect("a call after the visit", o.Paid, "thank you")
	if !o.Asked.GaveUp {
		t.Error("a question that was withdrawn went on")
	}
}
