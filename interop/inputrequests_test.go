//go:build integration

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

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// formSchema is a form with every type of field, each with a default.
const formSchema = `{"type":"object","properties":{
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

// offerInputRequests adds tools with input requests. The result of a declined or dismissed form is the action.
func offerInputRequests(s *server.Server) {
	ask := func(name string, handler func(ctx context.Context, message string) (string, error)) {
		server.AddTool(s, mcp.Tool{Name: name, Description: "Make input requests"},
			func(ctx context.Context, in struct {
				Message *string `json:"message"`
			}) (string, error) {
				message := ""
				if in.Message != nil {
					message = *in.Message
				}
				return handler(ctx, message)
			})
	}
	ask("form", func(ctx context.Context, message string) (string, error) {
		content, err := server.ElicitForm(ctx, cmp.Or(message, "Who are you?"), json.RawMessage(formSchema))
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
		answer, err := server.Sample(ctx, sampling("Say hello"))
		if err != nil {
			return "", err
		}
		return answer.Model + ": " + textOf(answer.Content), nil
	})
	ask("research", func(ctx context.Context, _ string) (string, error) {
		request := sampling("How is the weather in Oslo?")
		request.Tools = []mcp.Tool{{
			Name: "weather", Description: "Tell the weather",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},` +
				`"required":["city"]}`),
		}}
		first, err := server.Sample(ctx, request)
		if err != nil {
			return "", err
		}
		use, ok := first.Content[0].(*mcp.ToolUseContent)
		if !ok {
			return "", fmt.Errorf("no tool use: %+v", first)
		}
		var input struct{ City string }
		if err := json.Unmarshal(use.Input, &input); err != nil {
			return "", err
		}
		request.Messages = append(request.Messages,
			mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: first.Content},
			mcp.SamplingMessage{Role: mcp.RoleUser, Content: []mcp.Content{
				&mcp.ToolResultContent{ToolUseID: use.ID, Content: []mcp.Content{mcp.Text(input.City + ": rain")}},
			}})
		second, err := server.Sample(ctx, request)
		if err != nil {
			return "", err
		}
		return textOf(second.Content), nil
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
		var answer mcp.CreateMessageResult
		var roots []mcp.Root
		err := server.Ask(ctx, server.ElicitInto(&name, "The first word?"),
			server.SampleInto(&answer, sampling("Say hello")), server.RootsInto(&roots))
		return fmt.Sprintf("%s, %s, %d roots", name.Word, textOf(answer.Content), len(roots)), err
	})
	ask("timeout", func(ctx context.Context, _ string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := server.Elicit[word](ctx, "Wait")
		return "", err
	})
	// The URL elicitation is complete at the second check.
	var checks atomic.Int64
	ask("pay", func(ctx context.Context, _ string) (string, error) {
		err := server.ElicitURL(ctx, "https://pay.example/1", "Pay here",
			func(context.Context) (bool, error) { return checks.Add(1) > 1, nil })
		return "thank you", err
	})
	var firstChecks atomic.Int64
	done := func(context.Context) (bool, error) { return firstChecks.Add(1) > 1, nil }
	ask("pay_first", func(ctx context.Context, _ string) (string, error) {
		if finished, _ := done(ctx); finished {
			return "thank you", nil
		}
		return "", &call.URLRequiredError{URLs: []call.RequiredURL{{URL: "https://pay.example/2", Message: "Pay here",
			Done: done}}}
	})
}

func sampling(text string) mcp.CreateMessageParams {
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

// setHandlers sets the handlers of input requests.
func (p *peer) setHandlers(d *client.Dialer) {
	d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		accept := func(content string) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(content)}, nil
		}
		switch form.Message {
		case "Who are you?", everythingForm:
			return accept(`{"name":"Grace"}`) // the library fills in the defaults
		case "The first word?":
			return accept(`{"word":"alpha"}`)
		case "After alpha?":
			return accept(`{"word":"beta"}`)
		case "Decline":
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		case "Cancel":
			return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
		case "Wait":
			<-ctx.Done()
			close(p.cancelled)
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("unexpected message %q", form.Message)
	}
	d.ElicitURL = func(_ context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		p.opened <- request.URL
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	d.SampleTools = true
	d.Sample = func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		answer := &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "parrot", StopReason: "endTurn"}
		last := params.Messages[len(params.Messages)-1].Content[0]
		switch last := last.(type) {
		case *mcp.ToolResultContent:
			answer.Content = last.Content
		default:
			if len(params.Tools) == 0 {
				answer.Content = []mcp.Content{mcp.Text("hello")}
				break
			}
			answer.StopReason = "toolUse"
			answer.Content = []mcp.Content{&mcp.ToolUseContent{ID: "use-1", Name: params.Tools[0].Name,
				Input: json.RawMessage(`{"city":"Oslo"}`)}}
		}
		return answer, nil
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) {
		return []mcp.Root{{URI: "file:///work", Name: "work"}, {URI: "file:///notes", Name: "notes"}}, nil
	}
}

// useInputRequests calls the tools with input requests.
func useInputRequests(t *testing.T, p *peer) {
	ask := func(tool string, arguments any, want string) {
		t.Helper()
		text, err := client.CallTool[string](t.Context(), p.Client, tool, arguments)
		must.CheckThat(t, err == nil && text == want, "%s: %q, %v, want %q", tool, text, err, want)
	}
	filled, err := client.CallTool[map[string]any](t.Context(), p.Client, "form", nil)
	want := map[string]any{
		"name": "Grace", "age": 36., "score": 9.5, "member": true, "colour": "green", "size": "l",
		"days": []any{"mon", "wed"},
	}
	must.CheckThat(t, err == nil && fmt.Sprint(filled) == fmt.Sprint(want), "form: %v, %v, want %v", filled, err, want)
	ask("form", map[string]string{"message": "Decline"}, "decline")
	ask("form", map[string]string{"message": "Cancel"}, "cancel")
	ask("twice", nil, "alpha beta")
	ask("think", nil, "parrot: hello")
	ask("research", nil, "Oslo: rain")
	ask("roots", nil, "work file:///work\nnotes file:///notes")
	ask("everything", nil, "alpha, hello, 2 roots")
	ask("pay", nil, "accept")
	url := must.Receive(t, p.opened, "the page")
	must.CheckThat(t, url == "https://pay.example/1", "opened %s", url)
	if p.Revision() < mcp.V20260728 { // modern servers send no requests, and have no error -32042
		ask("pay_first", nil, "thank you")
		url := must.Receive(t, p.opened, "the page")
		must.CheckThat(t, url == "https://pay.example/2", "opened %s", url)
		must.Check(t, must.Err(p.CallTool(t.Context(), "timeout", nil)))
		must.Receive(t, p.cancelled, "the cancellation")
	}
}

// inputRequestsObservation is what a client peer reports about calls with input requests.
type inputRequestsObservation struct {
	Error                                                                *observedError
	Form, Declined, Dismissed, Twice, Think, Research, Roots, Everything callObservation
	Pay, PayFirst, Paid, Timeout                                         callObservation
	// the ids of the required URL elicitations
	Required []string
	Asked    struct {
		Opened    []struct{ URL, ElicitationID string }
		Completed []string
		Cancelled bool
	}
}

func (o inputRequestsObservation) check(t *testing.T, revision string) {
	t.Helper()
	must.That(t, o.Error == nil, "input requests: %+v", o.Error)
	expect := func(tool string, got callObservation, want string) {
		t.Helper()
		must.CheckThat(t, got.Error == nil && !got.IsError && got.text() == want, "%s: %+v, want %q", tool, got, want)
	}
	expect("think", o.Think, "parrot: hello")
	expect("roots", o.Roots, "work file:///work\nnotes file:///notes")
	if revision < "2025-11-25" { // earlier revisions have no forms with these fields
		return
	}
	var filled map[string]any
	want := map[string]any{
		"name": "Grace", "age": 36., "score": 9.5, "member": true, "colour": "green", "size": "l",
		"days": []any{"mon", "wed"},
	}
	err := json.Unmarshal([]byte(o.Form.text()), &filled)
	must.CheckThat(t, err == nil && fmt.Sprint(filled) == fmt.Sprint(want), "form: %+v, want %v", o.Form, want)
	expect("a declined form", o.Declined, "decline")
	expect("a dismissed form", o.Dismissed, "cancel")
	expect("twice", o.Twice, "alpha beta")
	expect("research", o.Research, "Oslo: rain")
	must.CheckThat(t, o.Pay.Error == nil && !o.Pay.IsError, "pay: %+v", o.Pay)
	expect("everything", o.Everything, "alpha, hello, 2 roots")
	if !slices.ContainsFunc(o.Asked.Opened,
		func(v struct{ URL, ElicitationID string }) bool { return v.URL == "https://pay.example/1" }) {
		t.Errorf("opened %+v", o.Asked.Opened)
	}
	if revision >= "2026-07-28" {
		return
	}
	known := slices.Clone(o.Required)
	for _, opened := range o.Asked.Opened {
		known = append(known, opened.ElicitationID)
	}
	unknown := slices.ContainsFunc(o.Asked.Completed, func(id string) bool { return !slices.Contains(known, id) })
	must.CheckThat(t, len(o.Required) == 1 && slices.Contains(o.Asked.Completed, o.Required[0]) && !unknown,
		"a call with a required URL elicitation: %+v; known elicitations %v, completed %v", o.PayFirst, known,
		o.Asked.Completed)
	expect("a call after the URL elicitation", o.Paid, "thank you")
	must.CheckThat(t, o.Asked.Cancelled, "a cancelled input request continued")
}
