package openaisampler

import (
	"encoding/base64"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"

	"github.com/parley-mcp/parley/mcp"
)

// messagesOf returns the messages of the API for one message: the result of each tool becomes a separate message.
func messagesOf(m *mcp.SamplingMessage) ([]openai.ChatCompletionMessageParamUnion, error) {
	if m.Role == mcp.RoleAssistant {
		message, err := assistantMessage(m)
		return []openai.ChatCompletionMessageParamUnion{{OfAssistant: message}}, err
	}
	var messages []openai.ChatCompletionMessageParamUnion
	var parts []openai.ChatCompletionContentPartUnionParam
	for _, c := range m.Content {
		if result, ok := c.(*mcp.ToolResultContent); ok {
			text, err := toolResultText(result)
			if err != nil {
				return nil, err
			}
			messages = append(messages, openai.ToolMessage(text, result.ToolUseID))
			continue
		}
		part, err := partOf(c)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 && parts[0].OfText != nil { // some endpoints do not know parts
		return append(messages, openai.UserMessage(parts[0].OfText.Text)), nil
	}
	if len(parts) > 0 {
		messages = append(messages, openai.UserMessage(parts))
	}
	return messages, nil
}

// partOf returns a part of a message of the user.
func partOf(c mcp.Content) (part openai.ChatCompletionContentPartUnionParam, err error) {
	switch c := c.(type) {
	case *mcp.TextContent:
		return openai.TextContentPart(c.Text), nil
	case *mcp.ImageContent:
		if !strings.HasPrefix(c.MimeType, "image/") {
			return part, unsupported("images of the type %.40q", c.MimeType)
		}
		url := "data:" + c.MimeType + ";base64," + base64.StdEncoding.EncodeToString(c.Data)
		return openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: url}), nil
	case *mcp.AudioContent:
		format, ok := audioFormats[c.MimeType]
		if !ok {
			return part, unsupported("audio of the type %.40q", c.MimeType)
		}
		return openai.InputAudioContentPart(openai.ChatCompletionContentPartInputAudioInputAudioParam{
			Data: base64.StdEncoding.EncodeToString(c.Data), Format: format,
		}), nil
	}
	return part, unsupported("content of the type %T in a message of the user", c)
}

// audioFormats contains the formats of the API, by MIME type.
var audioFormats = map[string]string{
	"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/vnd.wave": "wav", "audio/mpeg": "mp3",
	"audio/mp3": "mp3",
}

func assistantMessage(m *mcp.SamplingMessage) (*openai.ChatCompletionAssistantMessageParam, error) {
	message := new(openai.ChatCompletionAssistantMessageParam)
	var texts []string
	for _, c := range m.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			texts = append(texts, c.Text)
		case *mcp.ToolUseContent:
			call := openai.ChatCompletionMessageFunctionToolCallParam{ID: c.ID}
			call.Function.Name, call.Function.Arguments = c.Name, string(c.Input)
			if c.Input == nil {
				call.Function.Arguments = "{}"
			}
			message.ToolCalls = append(message.ToolCalls,
				openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &call})
		default:
			return nil, unsupported("content of the type %T in a message of the assistant", c)
		}
	}
	if len(texts) > 0 {
		message.Content.OfString = param.NewOpt(strings.Join(texts, "\n"))
	}
	return message, nil
}

// toolResultText returns the result of a tool as text, which is all that the API accepts.
func toolResultText(c *mcp.ToolResultContent) (string, error) {
	var texts []string
	for _, one := range c.Content {
		switch one := one.(type) {
		case *mcp.TextContent:
			texts = append(texts, one.Text)
		case *mcp.EmbeddedResource:
			if one.Resource.Blob != nil {
				return "", unsupported("binary resources in the result of a tool")
			}
			texts = append(texts, one.Resource.Text)
		case *mcp.ResourceLink:
			texts = append(texts, one.URI)
		default:
			return "", unsupported("content of the type %T in the result of a tool", one)
		}
	}
	if len(c.Content) == 0 && c.StructuredContent != nil {
		texts = append(texts, string(c.StructuredContent))
	}
	text := strings.Join(texts, "\n")
	if c.IsError { // the API has no field for it
		text = "The tool failed: " + text
	}
	return text, nil
}
