package revision

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// sanitizeToolResult returns t with valid UTF-8 in the texts of its content, as the JSON
// encoder requires. It returns t itself if all texts are valid, and a copy otherwise.
func sanitizeToolResult(t *mcp.CallToolResult) *mcp.CallToolResult {
	out := t
	for i, c := range t.Content {
		sanitized := sanitizeContent(c)
		if sanitized == nil {
			continue
		}
		if out == t {
			out = new(*t)
			out.Content = append([]mcp.Content(nil), t.Content...)
		}
		out.Content[i] = sanitized
	}
	return out
}

// sanitizeContents does the same for the contents of a resource.
func sanitizeContents(v *mcp.ReadResourceResult) *mcp.ReadResourceResult {
	if !slices.ContainsFunc(v.Contents, invalidContents) {
		return v
	}
	out := new(*v)
	out.Contents = slices.Clone(v.Contents)
	for i := range out.Contents {
		sanitizeResource(&out.Contents[i])
	}
	return out
}

func invalidContents(c mcp.ResourceContents) bool { return invalidUTF8(c.Text, c.URI, c.MimeType) }

func sanitizeResource(c *mcp.ResourceContents) {
	c.Text, c.URI, c.MimeType = sanitizeText(c.Text), sanitizeText(c.URI), sanitizeText(c.MimeType)
}

// sanitizePrompt does the same for a prompt.
func sanitizePrompt(v *mcp.GetPromptResult) *mcp.GetPromptResult {
	out := v
	change := func() *mcp.GetPromptResult {
		if out == v {
			out = new(*v)
			out.Messages = slices.Clone(v.Messages)
		}
		return out
	}
	if invalidUTF8(v.Description) {
		change().Description = sanitizeText(v.Description)
	}
	for i, m := range v.Messages {
		if sanitized := sanitizeContent(m.Content); sanitized != nil {
			change().Messages[i].Content = sanitized
		}
	}
	return out
}

// sanitizeContent returns a copy of c with valid texts, or nil if all texts are valid.
func sanitizeContent(c mcp.Content) mcp.Content {
	switch c := c.(type) {
	case *mcp.TextContent:
		if c != nil && invalidUTF8(c.Text) {
			return &mcp.TextContent{Text: sanitizeText(c.Text), Annotations: c.Annotations, Meta: c.Meta}
		}
	case *mcp.ImageContent:
		if c != nil && invalidUTF8(c.MimeType) {
			return &mcp.ImageContent{Data: c.Data, MimeType: sanitizeText(c.MimeType), Annotations: c.Annotations,
				Meta: c.Meta}
		}
	case *mcp.AudioContent:
		if c != nil && invalidUTF8(c.MimeType) {
			return &mcp.AudioContent{Data: c.Data, MimeType: sanitizeText(c.MimeType), Annotations: c.Annotations,
				Meta: c.Meta}
		}
	case *mcp.EmbeddedResource:
		if c != nil && invalidContents(c.Resource) {
			out := *c
			sanitizeResource(&out.Resource)
			return &out
		}
	case *mcp.ResourceLink:
		if c != nil && invalidUTF8(c.URI, c.Name, c.Title, c.Description, c.MimeType) {
			out := *c
			out.URI, out.Name, out.Title, out.Description, out.MimeType = sanitizeText(c.URI), sanitizeText(c.Name),
				sanitizeText(c.Title), sanitizeText(c.Description), sanitizeText(c.MimeType)
			return &out
		}
	}
	return nil
}

func invalidUTF8(texts ...string) bool {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return true
		}
	}
	return false
}

// sanitizeText replaces each byte that is not UTF-8, as [jsonrpc.AppendString] does.
func sanitizeText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	for _, r := range s { // range decodes an invalid byte as U+FFFD
		b.WriteRune(r)
	}
	return b.String()
}

// WithoutMembers returns an object without some of its members, or the object itself if it has none of them. It does
// not modify the object, which must be valid JSON.
func WithoutMembers(object json.RawMessage, names ...string) json.RawMessage {
	if !slices.ContainsFunc(names, func(name string) bool { _, ok := jsonrpc.Get(object, name); return ok }) {
		return object
	}
	kept := append(make(json.RawMessage, 0, len(object)), '{')
	for name, value := range jsonrpc.All(object) {
		if slices.Contains(names, name) {
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(append(jsonrpc.AppendString(kept, name), ':'), value...)
	}
	return append(kept, '}')
}

// WithResultType returns the JSON of a result with its resultType, which is "complete" if the result has none.
func WithResultType(result json.RawMessage) json.RawMessage {
	if _, ok := jsonrpc.Get(result, "resultType"); ok {
		return result
	}
	return withMember(result, "resultType", []byte(`"complete"`))
}

// withMember returns a JSON object with one member added or replaced. An object that is nil or no
// object counts as empty.
func withMember(object []byte, name string, value []byte) []byte {
	out := jsonrpc.AppendString(append(make([]byte, 0, len(object)+len(name)+len(value)+8), '{'), name)
	out = append(append(out, ':'), value...)
	for other, v := range jsonrpc.All(object) {
		if other != name {
			out = append(jsonrpc.AppendString(append(out, ','), other), ':')
			out = append(out, v...)
		}
	}
	return append(out, '}')
}

// selectMembers returns an object with the members that both have, with the values of selected in the order of
// object.
func selectMembers(object []byte, selected mcp.Meta) []byte {
	out := []byte{'{'}
	for name := range jsonrpc.All(object) {
		value, ok := selected[name]
		if !ok {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, name), ':'), value...)
	}
	return append(out, '}')
}
