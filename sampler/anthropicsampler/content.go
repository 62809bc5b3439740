package anthropicsampler

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/parley-mcp/parley/mcp"
)

// messageOf returns a message of a request.
func messageOf(m *mcp.SamplingMessage) (anthropic.MessageParam, error) {
	message := anthropic.MessageParam{Role: anthropic.MessageParamRoleUser}
	if m.Role == mcp.RoleAssistant {
		message.Role = anthropic.MessageParamRoleAssistant
	}
	for _, c := range m.Content {
		block, err := blockOf(c)
		if err != nil {
			return message, err
		}
		message.Content = append(message.Content, block)
	}
	return message, nil
}

func blockOf(c mcp.Content) (block anthropic.ContentBlockParamUnion, err error) {
	switch c := c.(type) {
	case *mcp.TextContent:
		return anthropic.NewTextBlock(c.Text), nil
	case *mcp.ImageContent:
		block.OfImage, err = imageOf(c)
	case *mcp.ToolUseContent:
		input := c.Input
		if input == nil {
			input = json.RawMessage("{}")
		}
		return anthropic.NewToolUseBlock(c.ID, input, c.Name), nil
	case *mcp.ToolResultContent:
		block.OfToolResult, err = toolResultOf(c)
	case *mcp.AudioContent:
		err = unsupported("audio")
	default:
		err = unsupported("content of the type %T", c)
	}
	return block, err
}

// imageTypes lists the MIME types of images that the API accepts.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

func imageOf(c *mcp.ImageContent) (*anthropic.ImageBlockParam, error) {
	if !slices.Contains(imageTypes, c.MimeType) {
		return nil, unsupported("images of the type %.40q", c.MimeType)
	}
	return anthropic.NewImageBlockBase64(c.MimeType, base64.StdEncoding.EncodeToString(c.Data)).OfImage, nil
}

func toolResultOf(c *mcp.ToolResultContent) (*anthropic.ToolResultBlockParam, error) {
	result := &anthropic.ToolResultBlockParam{ToolUseID: c.ToolUseID}
	if c.IsError {
		result.IsError = param.NewOpt(true)
	}
	text := func(text string) {
		result.Content = append(result.Content,
			anthropic.ToolResultBlockParamContentUnion{OfText: &anthropic.TextBlockParam{Text: text}})
	}
	for _, one := range c.Content {
		switch one := one.(type) {
		case *mcp.TextContent:
			text(one.Text)
		case *mcp.ImageContent:
			image, err := imageOf(one)
			if err != nil {
				return nil, err
			}
			result.Content = append(result.Content, anthropic.ToolResultBlockParamContentUnion{OfImage: image})
		case *mcp.EmbeddedResource:
			if one.Resource.Blob != nil {
				return nil, unsupported("binary resources in the result of a tool")
			}
			text(one.Resource.Text)
		case *mcp.ResourceLink:
			text(one.URI)
		default:
			return nil, unsupported("content of the type %T in the result of a tool", one)
		}
	}
	if len(c.Content) == 0 && c.StructuredContent != nil {
		text(string(c.StructuredContent))
	}
	return result, nil
}
