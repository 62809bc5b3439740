// Package anthropicsampler answers sampling requests with the Messages API of Anthropic:
//
//	client := anthropic.NewClient(option.WithAPIKey(key))
//	s := &anthropicsampler.Sampler{Client: &client, Models: sampler.Models{{Name: "claude-sonnet-4-5"}}}
//	h := &host.Host{Servers: servers, Dialer: client.Dialer{Sample: s.Sample}}
//
// Set Host.Dialer.SampleTools, too, so that servers may offer tools to the model.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
package anthropicsampler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/sampler"
)

// Sampler answers sampling requests. Its fields must not be changed while it is in use. It is safe for concurrent use.
type Sampler struct {
	// Client calls the API. It is required. Its options set the credentials, the endpoint and the retries.
	Client *anthropic.Client
	// Models are the models to choose from, at least one.
	Models sampler.Models
}

// api names the API in errors.
const api = "the Messages API"

// Sample answers a sampling request of a server; set client.Dialer.Sample to it. Messages may contain texts, images of
// the types JPEG, PNG, GIF and WebP, tool uses and tool results; for anything else the error is a
// *[sampler.UnsupportedError]. Other errors come from Client. The result contains the texts and tool uses of the model,
// but not its reasoning.
func (s *Sampler) Sample(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult,
	error) {
	if s.Client == nil {
		return nil, errors.New("anthropicsampler: Sampler.Client must be set")
	}
	request, err := s.request(params)
	if err != nil {
		return nil, err
	}
	message, err := s.Client.Messages.New(ctx, *request)
	if err != nil {
		return nil, fmt.Errorf("anthropicsampler: %w", err)
	}
	return resultOf(message)
}

// request returns the request to the API.
func (s *Sampler) request(params *mcp.CreateMessageParams) (*anthropic.MessageNewParams, error) {
	model, err := s.Models.Choose(params.ModelPreferences)
	if err != nil {
		return nil, err
	}
	request := &anthropic.MessageNewParams{Model: model, MaxTokens: params.MaxTokens,
		StopSequences: params.StopSequences}
	if params.SystemPrompt != "" {
		request.System = []anthropic.TextBlockParam{{Text: params.SystemPrompt}}
	}
	if params.Temperature != nil {
		request.Temperature = param.NewOpt(*params.Temperature)
	}
	for i := range params.Messages {
		message, err := messageOf(&params.Messages[i])
		if err != nil {
			return nil, err
		}
		request.Messages = append(request.Messages, message)
	}
	for i := range params.Tools {
		t := &params.Tools[i]
		schema := t.InputSchema
		if schema == nil {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		tool := &anthropic.ToolParam{Name: t.Name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](schema)}
		if t.Description != "" {
			tool.Description = param.NewOpt(t.Description)
		}
		request.Tools = append(request.Tools, anthropic.ToolUnionParam{OfTool: tool})
	}
	if params.ToolChoice != nil && len(params.Tools) > 0 {
		switch params.ToolChoice.Mode {
		case "", mcp.ToolChoiceAuto:
			request.ToolChoice.OfAuto = &anthropic.ToolChoiceAutoParam{}
		case mcp.ToolChoiceRequired:
			request.ToolChoice.OfAny = &anthropic.ToolChoiceAnyParam{}
		case mcp.ToolChoiceNone:
			none := anthropic.NewToolChoiceNoneParam()
			request.ToolChoice.OfNone = &none
		default:
			return nil, unsupported("the tool choice %.40q", params.ToolChoice.Mode)
		}
	}
	return request, nil
}

// resultOf returns the result for the server.
func resultOf(message *anthropic.Message) (*mcp.CreateMessageResult, error) {
	result := &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: message.Model,
		StopReason: string(message.StopReason)}
	if reason, known := stopReasons[message.StopReason]; known {
		result.StopReason = reason
	}
	for i := range message.Content {
		switch block := &message.Content[i]; block.Type {
		case "text":
			result.Content = append(result.Content, &mcp.TextContent{Text: block.Text})
		case "tool_use":
			result.Content = append(result.Content, &mcp.ToolUseContent{ID: block.ID, Name: block.Name,
				Input: block.Input})
		}
	}
	if len(result.Content) == 0 { // the protocol requires content
		result.Content = []mcp.Content{&mcp.TextContent{}}
	}
	return result, nil
}

var stopReasons = map[anthropic.StopReason]string{
	anthropic.StopReasonEndTurn: mcp.StopEndTurn, anthropic.StopReasonMaxTokens: mcp.StopMaxTokens,
	anthropic.StopReasonStopSequence: mcp.StopSequence, anthropic.StopReasonToolUse: mcp.StopToolUse,
}

func unsupported(format string, args ...any) error {
	return &sampler.UnsupportedError{API: api, What: fmt.Sprintf(format, args...)}
}
