// Package openaisampler answers sampling requests with the Chat Completions API of OpenAI, or of an endpoint that is
// compatible with it:
//
//	client := openai.NewClient(option.WithBaseURL("http://127.0.0.1:11434/v1"), option.WithAPIKey("none"))
//	s := &openaisampler.Sampler{Client: &client, Models: sampler.Models{{Name: "qwen3"}}, MaxTokens: true}
//	h := &host.Host{Servers: servers, Dialer: client.Dialer{Sample: s.Sample}}
//
// Set Host.Dialer.SampleTools, too, so that servers may offer tools to the model.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
package openaisampler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/sampler"
)

// Sampler answers sampling requests. Its fields must not be changed while it is in use. It is safe for concurrent use.
type Sampler struct {
	// Client calls the API. It is required. Its options set the credentials, the endpoint and the retries.
	Client *openai.Client
	// Models are the models to choose from, at least one.
	Models sampler.Models
	// MaxTokens sends the limit of tokens as max_tokens, for endpoints that do not have max_completion_tokens.
	MaxTokens bool
}

// api names the API in errors.
const api = "the Chat Completions API"

// ErrInvalidResponse is in the error of Sample if the response of the API contains no message, or a tool call
// whose arguments are not a JSON object.
var ErrInvalidResponse = errors.New("openaisampler: invalid response")

// Sample answers a sampling request of a server; set client.Dialer.Sample to it. Messages of the user may contain
// texts, images, audio of the types WAV and MP3, and tool results with texts. Messages of the assistant may contain
// texts and tool uses. For anything else the error is a *[sampler.UnsupportedError]. Other errors wrap
// [ErrInvalidResponse] or come from Client.
func (s *Sampler) Sample(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult,
	error) {
	if s.Client == nil {
		return nil, errors.New("openaisampler: Sampler.Client must be set")
	}
	request, err := s.request(params)
	if err != nil {
		return nil, err
	}
	completion, err := s.Client.Chat.Completions.New(ctx, *request)
	if err != nil {
		return nil, fmt.Errorf("openaisampler: %w", err)
	}
	return resultOf(completion)
}

// request returns the request to the API.
func (s *Sampler) request(params *mcp.CreateMessageParams) (*openai.ChatCompletionNewParams, error) {
	model, err := s.Models.Choose(params.ModelPreferences)
	if err != nil {
		return nil, err
	}
	request := &openai.ChatCompletionNewParams{Model: model}
	if s.MaxTokens {
		request.MaxTokens = param.NewOpt(params.MaxTokens)
	} else {
		request.MaxCompletionTokens = param.NewOpt(params.MaxTokens)
	}
	if len(params.StopSequences) > 0 {
		request.Stop.OfStringArray = params.StopSequences
	}
	if params.Temperature != nil {
		request.Temperature = param.NewOpt(*params.Temperature)
	}
	if params.SystemPrompt != "" {
		request.Messages = append(request.Messages, openai.SystemMessage(params.SystemPrompt))
	}
	for i := range params.Messages {
		messages, err := messagesOf(&params.Messages[i])
		if err != nil {
			return nil, err
		}
		request.Messages = append(request.Messages, messages...)
	}
	for i := range params.Tools {
		request.Tools = append(request.Tools, toolOf(&params.Tools[i]))
	}
	if params.ToolChoice != nil && len(params.Tools) > 0 {
		switch mode := params.ToolChoice.Mode; mode {
		case "":
		case mcp.ToolChoiceAuto, mcp.ToolChoiceRequired, mcp.ToolChoiceNone:
			request.ToolChoice.OfAuto = param.NewOpt(string(mode))
		default:
			return nil, unsupported("the tool choice %.40q", mode)
		}
	}
	return request, nil
}

func toolOf(t *mcp.Tool) openai.ChatCompletionToolUnionParam {
	function := shared.FunctionDefinitionParam{Name: t.Name}
	if t.Description != "" {
		function.Description = param.NewOpt(t.Description)
	}
	// Some endpoints require both keys.
	function.Parameters = shared.FunctionParameters{"type": "object", "properties": json.RawMessage("{}")}
	for name, value := range jsonrpc.All(t.InputSchema) { // each value stays as it is
		function.Parameters[name] = json.RawMessage(value)
	}
	return openai.ChatCompletionFunctionTool(function)
}

// resultOf returns the result for the server.
func resultOf(completion *openai.ChatCompletion) (*mcp.CreateMessageResult, error) {
	if len(completion.Choices) == 0 {
		return nil, fmt.Errorf("%w: it has no choices", ErrInvalidResponse)
	}
	choice := &completion.Choices[0]
	result := &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: completion.Model,
		StopReason: choice.FinishReason}
	if reason, known := stopReasons[choice.FinishReason]; known {
		result.StopReason = reason
	}
	if text := choice.Message.Content; text != "" {
		result.Content = append(result.Content, &mcp.TextContent{Text: text})
	}
	if refusal := choice.Message.Refusal; refusal != "" {
		result.Content, result.StopReason = append(result.Content, &mcp.TextContent{Text: refusal}), "refusal"
	}
	for i := range choice.Message.ToolCalls {
		use := &choice.Message.ToolCalls[i]
		input := json.RawMessage(use.Function.Arguments)
		if len(input) == 0 {
			input = json.RawMessage("{}")
		}
		if err := jsonrpc.Check(input, jsonrpc.Limits{}); err != nil || input[0] != '{' {
			return nil, fmt.Errorf("%w: the arguments of a tool call must be a JSON object", ErrInvalidResponse)
		}
		result.Content = append(result.Content, &mcp.ToolUseContent{ID: use.ID, Name: use.Function.Name, Input: input})
	}
	if len(result.Content) == 0 { // the protocol requires content
		result.Content = []mcp.Content{&mcp.TextContent{}}
	}
	return result, nil
}

// stopReasons does not contain StopSequence: the API does not distinguish it from the end of the message.
var stopReasons = map[string]string{"stop": mcp.StopEndTurn, "length": mcp.StopMaxTokens, "tool_calls": mcp.StopToolUse}

func unsupported(format string, args ...any) error {
	return &sampler.UnsupportedError{API: api, What: fmt.Sprintf(format, args...)}
}
