package server

import (
	"errors"
	"fmt"
	"slices"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// contentsOf returns a function that converts the results of a resource handler to contents.
// It sets the MIME type if Out determines it.
func contentsOf[Out any](mimeType *string) func(Out) (*mcp.ReadResourceResult, error) {
	one := func(c mcp.ResourceContents) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{c}}, nil
	}
	var zero Out
	switch any(zero).(type) {
	case *mcp.ReadResourceResult:
		return func(out Out) (*mcp.ReadResourceResult, error) { return any(out).(*mcp.ReadResourceResult), nil }
	case []mcp.ResourceContents:
		return func(out Out) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: any(out).([]mcp.ResourceContents)}, nil
		}
	case mcp.ResourceContents:
		return func(out Out) (*mcp.ReadResourceResult, error) { return one(any(out).(mcp.ResourceContents)) }
	case string:
		return func(out Out) (*mcp.ReadResourceResult, error) {
			return one(mcp.ResourceContents{Text: any(out).(string)})
		}
	case []byte:
		return func(out Out) (*mcp.ReadResourceResult, error) {
			return one(mcp.ResourceContents{Blob: blob(any(out).([]byte))})
		}
	}
	if *mimeType == "" {
		*mimeType = "application/json"
	}
	return func(out Out) (*mcp.ReadResourceResult, error) {
		raw, err := schema.Marshal(out)
		switch {
		case err != nil:
			return nil, fmt.Errorf("cannot encode the contents: %w", err)
		case string(raw) == "null":
			return nil, ErrResourceNotFound
		}
		return one(mcp.ResourceContents{Text: string(raw)})
	}
}

// blob replaces a nil slice by an empty one: nil would mean text.
func blob(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// completed returns a copy of result with its missing fields filled in. It copies, because a
// handler may return the same result for several calls.
func completed(result *mcp.ReadResourceResult, uri, mimeType string, from *resourceOffer) *mcp.ReadResourceResult {
	out := *result
	out.CacheHints = from.fill(out.CacheHints)
	if slices.ContainsFunc(out.Contents, func(c mcp.ResourceContents) bool { return c.URI == "" || c.MimeType == "" && mimeType != "" }) {
		out.Contents = slices.Clone(out.Contents)
		for i := range out.Contents {
			c := &out.Contents[i]
			if c.URI == "" {
				c.URI = uri
			}
			if c.MimeType == "" {
				c.MimeType = mimeType
			}
		}
	}
	return &out
}

// messagesOf returns a function that converts the results of a prompt handler to a prompt.
func messagesOf[Out any]() (func(out Out) *mcp.GetPromptResult, error) {
	var zero Out
	switch any(zero).(type) {
	case *mcp.GetPromptResult:
		return func(out Out) *mcp.GetPromptResult { return any(out).(*mcp.GetPromptResult) }, nil
	case []mcp.PromptMessage:
		return func(out Out) *mcp.GetPromptResult {
			return &mcp.GetPromptResult{Messages: any(out).([]mcp.PromptMessage)}
		}, nil
	case string:
		return func(out Out) *mcp.GetPromptResult {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text(any(out).(string))}}}
		}, nil
	}
	return nil, errors.New("the handler must return a string, []mcp.PromptMessage or *mcp.GetPromptResult")
}
