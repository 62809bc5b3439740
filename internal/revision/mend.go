package revision

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-mcp/parley/mcp"
)

// mend returns t with the texts of its content as valid UTF-8, which encoding
// wants of them: t itself where they are, a copy otherwise.
func mend(t *mcp.CallToolResult) *mcp.CallToolResult {
	out := t
	for i, c := range t.Content {
		mended := mendContent(c)
		if mended == nil {
			continue
		}
		if out == t {
			out = new(*t)
			out.Content = append([]mcp.Content(nil), t.Content...)
		}
		out.Content[i] = mended
	}
	return out
}

// mendContents does so for the contents of a resource.
func mendContents(v *mcp.ReadResourceResult) *mcp.ReadResourceResult {
	if !slices.ContainsFunc(v.Contents, brokenContents) {
		return v
	}
	out := new(*v)
	out.Contents = slices.Clone(v.Contents)
	for i := range out.Contents {
		mendResource(&out.Contents[i])
	}
	return out
}

func brokenContents(c mcp.ResourceContents) bool { return broken(c.Text, c.URI, c.MimeType) }

func mendResource(c *mcp.ResourceContents) {
	c.Text, c.URI, c.MimeType = valid(c.Text), valid(c.URI), valid(c.MimeType)
}

// mendPrompt does so for a prompt.
func mendPrompt(v *mcp.GetPromptResult) *mcp.GetPromptResult {
	out := v
	change := func() *mcp.GetPromptResult {
		if out == v {
			out = new(*v)
			out.Messages = slices.Clone(v.Messages)
		}
		return out
	}
	if broken(v.Description) {
		change().Description = valid(v.Description)
	}
	for i, m := range v.Messages {
		if mended := mendContent(m.Content); mended != nil {
			change().Messages[i].Content = mended
		}
	}
	return out
}

// mendContent returns a mended copy of c, or nil if nothing is wrong with it.
func mendContent(c mcp.Content) mcp.Content {
	switch c := c.(type) {
	case *mcp.TextContent:
		if c != nil && broken(c.Text) {
			return &mcp.TextContent{Text: valid(c.Text), Annotations: c.Annotations, Meta: c.Meta}
		}
	case *mcp.ImageContent:
		if c != nil && broken(c.MimeType) {
			return &mcp.ImageContent{Data: c.Data, MimeType: valid(c.MimeType), Annotations: c.Annotations, Meta: c.Meta}
		}
	case *mcp.AudioContent:
		if c != nil && broken(c.MimeType) {
			return &mcp.AudioContent{Data: c.Data, MimeType: valid(c.MimeType), Annotations: c.Annotations, Meta: c.Meta}
		}
	case *mcp.EmbeddedResource:
		if c != nil && brokenContents(c.Resource) {
			out := *c
			mendResource(&out.Resource)
			return &out
		}
	case *mcp.ResourceLink:
		if c != nil && broken(c.URI, c.Name, c.Title, c.Description, c.MimeType) {
			out := *c
			out.URI, out.Name, out.Title, out.Description, out.MimeType = valid(c.URI), valid(c.Name), valid(c.Title), valid(c.Description), valid(c.MimeType)
			return &out
		}
	}
	return nil
}

func broken(texts ...string) bool {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return true
		}
	}
	return false
}

// valid replaces each byte that is not UTF-8, as [jsonrpc.AppendString] does.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	for _, r := range s { // such a byte is read as U+FFFD
		b.WriteRune(r)
	}
	return b.String()
}
