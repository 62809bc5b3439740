package revision

import (
	"bytes"
	"fmt"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// What each revision brought that results can contain. Speak turns or leaves out
// what an older peer has no word for.
//
//	audio content            2025-03-26   becomes text: the older union has no such member, and clients reject what they cannot tell apart
//	tool annotations         2025-03-26   left out: unknown to the peer
//	resource links           2025-06-18   become text that names the URI: same reason as audio
//	structured content       2025-06-18   left out: the text content that goes with it says the same; text where there is none
//	title, output schema     2025-06-18   left out, also of resources, templates, prompts and their arguments
//	lastModified             2025-06-18   left out of annotations
//	_meta on content, tools  2025-06-18   left out, also of resources, templates, prompts and contents
//	icons                    2025-11-25   left out
//	execution                2025-11-25   left out, and later too
//	structured content that  2026-07-28   as structured content was before; output schemas whose type is
//	is no object                          not "object" are left out with it
//	caching hints            2026-07-28   left out
//	resultType               2026-07-28   left out
//
// What a prompt's messages hold is said as what a tool returns is. Capabilities are
// left out of revisions that do not define them; extensions are experimental
// capabilities there.
const (
	sinceAudio       = mcp.V20250326
	sinceAnnotations = mcp.V20250326
	sinceCompletions = mcp.V20250326
	sinceLinks       = mcp.V20250618
	sinceStructured  = mcp.V20250618
	sinceTitles      = mcp.V20250618
	sinceModified    = mcp.V20250618
	sinceContext     = mcp.V20250618 // of what is to be completed
	sinceMeta        = mcp.V20250618
	sinceIcons       = mcp.V20251125
	onlyTasks        = mcp.V20251125 // as a capability of the core protocol, and execution with it
	sinceExtensions  = mcp.V20260728
	sinceAnyValue    = mcp.V20260728 // as structured content
)

// Speak returns result as a peer of revision r can read it: the result itself
// when there is nothing to change, a changed copy otherwise.
func Speak(r mcp.Revision, result any) any {
	switch v := result.(type) {
	case *mcp.CallToolResult:
		if v != nil && !r.Modern() {
			return speakToolResult(r, v)
		}
	case *mcp.ListToolsResult:
		if v == nil {
			break
		}
		out := *v
		if !r.Modern() {
			out.ResultType, out.CacheHints = "", mcp.CacheHints{}
		}
		out.Tools = make([]mcp.Tool, len(v.Tools))
		for i := range v.Tools {
			out.Tools[i] = SpeakTool(r, v.Tools[i])
		}
		return &out
	case *mcp.ListResourcesResult:
		if v != nil && !r.Modern() {
			return speakResources(r, v)
		}
	case *mcp.ListResourceTemplatesResult:
		if v != nil && !r.Modern() {
			return speakTemplates(r, v)
		}
	case *mcp.ReadResourceResult:
		if v != nil && !r.Modern() {
			return speakContents(r, v)
		}
	case *mcp.ListPromptsResult:
		if v != nil && !r.Modern() {
			return speakPrompts(r, v)
		}
	case *mcp.GetPromptResult:
		if v != nil && !r.Modern() {
			return speakPrompt(r, v)
		}
	case *mcp.CompleteResult:
		if v != nil && !r.Modern() && v.ResultType != "" {
			out := *v
			out.ResultType = ""
			return &out
		}
	case *mcp.InitializeResult:
		if v == nil {
			break
		}
		out := *v
		out.ServerInfo = speakImplementation(r, v.ServerInfo)
		out.Capabilities = speakCapabilities(r, v.Capabilities)
		return &out
	}
	return result
}

// SpeakTool returns a tool's definition as a peer of revision r can read it.
func SpeakTool(r mcp.Revision, t mcp.Tool) mcp.Tool {
	if r < sinceAnnotations {
		t.Annotations = nil
	}
	trim(r, &t.Title, &t.Meta, &t.Icons)
	if r < sinceStructured {
		t.OutputSchema = nil
	}
	if r < sinceAnyValue && !describesObject(t.OutputSchema) {
		t.OutputSchema = nil
	}
	if r != onlyTasks {
		t.Execution = nil
	}
	return t
}

// describesObject reports whether a schema's type is "object", in so many words:
// the one form of an output schema before 2026-07-28.
func describesObject(schema []byte) bool {
	kind, _ := jsonrpc.Get(schema, "type")
	return jsonrpc.Unquote(kind) == "object"
}

func speakImplementation(r mcp.Revision, i mcp.Implementation) mcp.Implementation {
	if r < sinceTitles {
		i.Title = ""
	}
	if r < sinceIcons {
		i.Icons, i.Description, i.WebsiteURL = nil, "", ""
	}
	return i
}

func speakCapabilities(r mcp.Revision, c mcp.ServerCapabilities) mcp.ServerCapabilities {
	if r < sinceCompletions {
		c.Completions = nil
	}
	if r != onlyTasks {
		c.Tasks = nil
	}
	if r < sinceExtensions {
		c.Experimental, c.Extensions = declareEarly(c.Experimental, c.Extensions)
	}
	return c
}

// speakToolResult says t, which is not nil, to a peer of before 2026-07-28.
func speakToolResult(r mcp.Revision, t *mcp.CallToolResult) *mcp.CallToolResult {
	var out *mcp.CallToolResult
	change := func() *mcp.CallToolResult {
		if out == nil {
			c := *t
			out = &c
		}
		return out
	}
	if t.ResultType != "" {
		change().ResultType = ""
	}
	if t.StructuredContent != nil && (r < sinceStructured || !isObject(t.StructuredContent)) {
		change().StructuredContent = nil
		if len(t.Content) == 0 {
			out.Content = []mcp.Content{mcp.Text(string(t.StructuredContent))}
		}
	}
	for i, c := range t.Content {
		said := speakContent(r, c)
		if said == c {
			continue
		}
		if o := change(); &o.Content[0] == &t.Content[0] {
			o.Content = append([]mcp.Content(nil), t.Content...)
		}
		out.Content[i] = said
	}
	if out == nil {
		return t
	}
	return out
}

func isObject(value []byte) bool {
	value = bytes.TrimLeft(value, " \t\r\n")
	return len(value) > 0 && value[0] == '{'
}

// speakContent returns c as a peer of revision r can read it, c itself where it can.
func speakContent(r mcp.Revision, c mcp.Content) mcp.Content {
	switch c := c.(type) {
	case *mcp.TextContent:
		if c != nil && (hidesMeta(r, c.Meta) || hidesModified(r, c.Annotations)) {
			return &mcp.TextContent{Text: c.Text, Annotations: speakAnnotations(r, c.Annotations)}
		}
	case *mcp.ImageContent:
		if c != nil && (hidesMeta(r, c.Meta) || hidesModified(r, c.Annotations)) {
			return &mcp.ImageContent{Data: c.Data, MimeType: c.MimeType, Annotations: speakAnnotations(r, c.Annotations)}
		}
	case *mcp.AudioContent:
		switch {
		case c == nil:
		case r < sinceAudio:
			return mcp.Text(fmt.Sprintf("[audio, %s, %d bytes: this revision of the protocol cannot carry it]", c.MimeType, len(c.Data)))
		case hidesMeta(r, c.Meta) || hidesModified(r, c.Annotations):
			return &mcp.AudioContent{Data: c.Data, MimeType: c.MimeType, Annotations: speakAnnotations(r, c.Annotations)}
		}
	case *mcp.EmbeddedResource:
		if c != nil && (hidesMeta(r, c.Meta) || hidesMeta(r, c.Resource.Meta) || hidesModified(r, c.Annotations)) {
			out := *c
			out.Meta, out.Resource.Meta, out.Annotations = nil, nil, speakAnnotations(r, c.Annotations)
			return &out
		}
	case *mcp.ResourceLink:
		switch {
		case c == nil:
		case r < sinceLinks:
			name := c.Title
			if name == "" {
				name = c.Name
			}
			return mcp.Text(fmt.Sprintf("%s: %s", name, c.URI))
		case c.Icons != nil && r < sinceIcons:
			out := *c
			out.Icons = nil
			return &out
		}
	}
	return c
}

// hidesMeta reports whether a _meta is there that peers of r do not know.
func hidesMeta(r mcp.Revision, m mcp.Meta) bool { return m != nil && r < sinceMeta }

// hidesModified reports whether a lastModified is there that peers of r do not know.
func hidesModified(r mcp.Revision, a *mcp.Annotations) bool {
	return a != nil && a.LastModified != "" && r < sinceModified
}

func speakAnnotations(r mcp.Revision, a *mcp.Annotations) *mcp.Annotations {
	if !hidesModified(r, a) {
		return a
	}
	if a.Audience == nil && a.Priority == nil {
		return nil
	}
	return &mcp.Annotations{Audience: a.Audience, Priority: a.Priority}
}
