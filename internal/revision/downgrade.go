package revision

import (
	"bytes"
	"fmt"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Downgrade implements this table. An older peer cannot read these parts of a result:
//
//	part                     since        for an older peer
//	audio content            2025-03-26   becomes text, because clients reject an unknown content type
//	tool annotations         2025-03-26   are removed
//	resource links           2025-06-18   become text with the URI, for the same reason as audio
//	structured content       2025-06-18   is removed if there is text content, otherwise becomes text
//	title, output schema     2025-06-18   are removed, also from resources, templates, prompts and arguments
//	lastModified             2025-06-18   is removed from annotations
//	_meta on content, tools  2025-06-18   is removed, also from resources, templates, prompts and contents
//	icons                    2025-11-25   are removed
//	execution                2025-11-25   is removed, and also for later peers
//	structured content that  2026-07-28   becomes {"result": …} since 2025-06-18, as from other SDKs; the output
//	is not an object                      schema likewise, or is removed: see wrapSchema
//	caching hints            2026-07-28   are removed
//	resultType               2026-07-28   is removed
//
// The content of a prompt's messages is converted as the content of a tool result is.
// Capabilities that a revision does not define are removed. Extensions become experimental
// capabilities.
const (
	sinceAudio       = mcp.V20250326
	sinceAnnotations = mcp.V20250326
	sinceCompletions = mcp.V20250326
	sinceLinks       = mcp.V20250618
	sinceStructured  = mcp.V20250618
	sinceTitles      = mcp.V20250618
	sinceModified    = mcp.V20250618
	sinceContext     = mcp.V20250618 // the context of a completion
	sinceMeta        = mcp.V20250618
	sinceIcons       = mcp.V20251125
	onlyTasks        = mcp.V20251125 // as a core capability, and execution with it
	sinceExtensions  = mcp.V20260728
	sinceAnyValue    = mcp.V20260728 // structured content of any type
)

// Downgrade converts result into a form that a peer of revision r can read. It
// returns result itself if nothing changes, and a changed copy otherwise.
func Downgrade(r mcp.Revision, result any) any {
	switch v := result.(type) {
	case *mcp.CallToolResult:
		if v != nil && !r.Modern() {
			return downgradeToolResult(r, v)
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
			out.Tools[i] = DowngradeTool(r, v.Tools[i])
		}
		return &out
	case *mcp.ListResourcesResult:
		if v != nil && !r.Modern() {
			return downgradeResources(r, v)
		}
	case *mcp.ListResourceTemplatesResult:
		if v != nil && !r.Modern() {
			return downgradeTemplates(r, v)
		}
	case *mcp.ReadResourceResult:
		if v != nil && !r.Modern() {
			return downgradeContents(r, v)
		}
	case *mcp.ListPromptsResult:
		if v != nil && !r.Modern() {
			return downgradePrompts(r, v)
		}
	case *mcp.GetPromptResult:
		if v != nil && !r.Modern() {
			return downgradePrompt(r, v)
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
		out.ServerInfo = downgradeImplementation(r, v.ServerInfo)
		out.Capabilities = downgradeServerCapabilities(r, v.Capabilities)
		return &out
	}
	return result
}

// DowngradeTool converts a tool's definition into a form that a peer of revision r can
// read.
func DowngradeTool(r mcp.Revision, t mcp.Tool) mcp.Tool {
	if r < sinceAnnotations {
		t.Annotations = nil
	}
	dropNewFields(r, &t.Title, &t.Meta, &t.Icons)
	if r < sinceStructured {
		t.OutputSchema = nil
	}
	if r < sinceAnyValue && !describesObject(t.OutputSchema) {
		t.OutputSchema = wrapSchema(t.OutputSchema)
	}
	if r != onlyTasks {
		t.Execution = nil
	}
	return t
}

// describesObject reports whether the type of a schema is exactly "object". Before
// 2026-07-28 an output schema must have this type.
func describesObject(schema []byte) bool {
	kind, _ := jsonrpc.Get(schema, "type")
	return jsonrpc.Unquote(kind) == "object"
}

func downgradeImplementation(r mcp.Revision, i mcp.Implementation) mcp.Implementation {
	if r < sinceTitles {
		i.Title = ""
	}
	if r < sinceIcons {
		i.Icons, i.Description, i.WebsiteURL = nil, "", ""
	}
	return i
}

func downgradeServerCapabilities(r mcp.Revision, c mcp.ServerCapabilities) mcp.ServerCapabilities {
	if r < sinceCompletions {
		c.Completions = nil
	}
	if r != onlyTasks {
		c.Tasks = nil
	}
	if r < sinceExtensions {
		c.Experimental, c.Extensions = declareAsExperimental(c.Experimental, c.Extensions)
	}
	return c
}

// downgradeToolResult converts t, which is not nil, for a peer before 2026-07-28.
func downgradeToolResult(r mcp.Revision, t *mcp.CallToolResult) *mcp.CallToolResult {
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
		if r >= sinceStructured && string(bytes.TrimSpace(t.StructuredContent)) != "null" {
			out.StructuredContent = WrapValue(t.StructuredContent)
		}
		if len(t.Content) == 0 {
			out.Content = []mcp.Content{mcp.Text(string(t.StructuredContent))}
		}
	}
	for i, c := range t.Content {
		converted := downgradeContent(r, c)
		if converted == c {
			continue
		}
		if o := change(); &o.Content[0] == &t.Content[0] {
			o.Content = append([]mcp.Content(nil), t.Content...)
		}
		out.Content[i] = converted
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

// downgradeContent converts c into a form that a peer of revision r can read. It returns
// c itself if nothing changes.
func downgradeContent(r mcp.Revision, c mcp.Content) mcp.Content {
	switch c := c.(type) {
	case *mcp.TextContent:
		if c != nil && (dropsMeta(r, c.Meta) || dropsLastModified(r, c.Annotations)) {
			return &mcp.TextContent{Text: c.Text, Annotations: downgradeAnnotations(r, c.Annotations)}
		}
	case *mcp.ImageContent:
		if c != nil && (dropsMeta(r, c.Meta) || dropsLastModified(r, c.Annotations)) {
			return &mcp.ImageContent{Data: c.Data, MimeType: c.MimeType,
				Annotations: downgradeAnnotations(r, c.Annotations)}
		}
	case *mcp.AudioContent:
		switch {
		case c == nil:
		case r < sinceAudio:
			return mcp.Text(fmt.Sprintf("[audio, %s, %d bytes: this revision of the protocol cannot carry it]",
				c.MimeType, len(c.Data)))
		case dropsMeta(r, c.Meta) || dropsLastModified(r, c.Annotations):
			return &mcp.AudioContent{Data: c.Data, MimeType: c.MimeType,
				Annotations: downgradeAnnotations(r, c.Annotations)}
		}
	case *mcp.EmbeddedResource:
		if c != nil && (dropsMeta(r, c.Meta) || dropsMeta(r, c.Resource.Meta) || dropsLastModified(r, c.Annotations)) {
			out := *c
			out.Meta, out.Resource.Meta, out.Annotations = nil, nil, downgradeAnnotations(r, c.Annotations)
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

// dropsMeta reports whether m is present and unknown to peers of revision r.
func dropsMeta(r mcp.Revision, m mcp.Meta) bool { return m != nil && r < sinceMeta }

// dropsLastModified reports whether a has a lastModified that peers of revision r do not
// know.
func dropsLastModified(r mcp.Revision, a *mcp.Annotations) bool {
	return a != nil && a.LastModified != "" && r < sinceModified
}

func downgradeAnnotations(r mcp.Revision, a *mcp.Annotations) *mcp.Annotations {
	if !dropsLastModified(r, a) {
		return a
	}
	if a.Audience == nil && a.Priority == nil {
		return nil
	}
	return &mcp.Annotations{Audience: a.Audience, Priority: a.Priority}
}

// The error codes that not every revision has. The rest of the library uses the code from the revisions that
// have one.
//
//	resource not found        until 2025-11-25   later -32602, without a code of its own; receivers still accept
//	                                             the old code (2026-07-28, server/resources, Error Handling)
//	URL elicitation required  2025-11-25 only    otherwise -32603: other peers cannot use the URLs in it; since
//	                                             2026-07-28 a result asks for URL elicitations
var downgradedErrors = []struct {
	code        int64
	first, last mcp.Revision // both inclusive
	otherwise   int64
}{
	{mcp.CodeResourceNotFound, mcp.V20241105, mcp.V20251125, jsonrpc.CodeInvalidParams},
	{mcp.CodeURLElicitationRequired, mcp.V20251125, mcp.V20251125, jsonrpc.CodeInternalError},
}

// DowngradeError converts an error into a form that a peer of revision r can read.
// It returns e itself if nothing changes, and a changed copy otherwise.
func DowngradeError(r mcp.Revision, e *jsonrpc.Error) *jsonrpc.Error {
	for _, row := range downgradedErrors {
		if e.Code == row.code && (r < row.first || r > row.last) {
			return &jsonrpc.Error{Code: row.otherwise, Message: e.Message, Data: e.Data}
		}
	}
	return e
}

// This file converts resources and prompts for peers before 2026-07-28, by the table in
// downgrade.go. Its functions return copies.

// dropNewFields removes the fields that all listed items have gained.
func dropNewFields(r mcp.Revision, title *string, meta *mcp.Meta, icons *mcp.Icons) {
	if r < sinceTitles {
		*title = ""
	}
	if r < sinceMeta {
		*meta = nil
	}
	if r < sinceIcons {
		*icons = nil
	}
}

func downgradeResources(r mcp.Revision, v *mcp.ListResourcesResult) *mcp.ListResourcesResult {
	out := *v
	out.ResultType, out.CacheHints = "", mcp.CacheHints{}
	out.Resources = make([]mcp.Resource, len(v.Resources))
	for i, one := range v.Resources {
		one.Annotations = downgradeAnnotations(r, one.Annotations)
		dropNewFields(r, &one.Title, &one.Meta, &one.Icons)
		out.Resources[i] = one
	}
	return &out
}

func downgradeTemplates(r mcp.Revision, v *mcp.ListResourceTemplatesResult) *mcp.ListResourceTemplatesResult {
	out := *v
	out.ResultType, out.CacheHints = "", mcp.CacheHints{}
	out.ResourceTemplates = make([]mcp.ResourceTemplate, len(v.ResourceTemplates))
	for i, one := range v.ResourceTemplates {
		one.Annotations = downgradeAnnotations(r, one.Annotations)
		dropNewFields(r, &one.Title, &one.Meta, &one.Icons)
		out.ResourceTemplates[i] = one
	}
	return &out
}

func downgradeContents(r mcp.Revision, v *mcp.ReadResourceResult) *mcp.ReadResourceResult {
	out := *v
	out.ResultType, out.CacheHints = "", mcp.CacheHints{}
	if r < sinceMeta {
		out.Contents = append([]mcp.ResourceContents(nil), v.Contents...)
		for i := range out.Contents {
			out.Contents[i].Meta = nil
		}
	}
	return &out
}

func downgradePrompts(r mcp.Revision, v *mcp.ListPromptsResult) *mcp.ListPromptsResult {
	out := *v
	out.ResultType, out.CacheHints = "", mcp.CacheHints{}
	out.Prompts = make([]mcp.Prompt, len(v.Prompts))
	for i, one := range v.Prompts {
		dropNewFields(r, &one.Title, &one.Meta, &one.Icons)
		if r < sinceTitles {
			one.Arguments = append([]mcp.PromptArgument(nil), one.Arguments...)
			for j := range one.Arguments {
				one.Arguments[j].Title = ""
			}
		}
		out.Prompts[i] = one
	}
	return &out
}

func downgradePrompt(r mcp.Revision, v *mcp.GetPromptResult) *mcp.GetPromptResult {
	out := *v
	out.ResultType = ""
	out.Messages = make([]mcp.PromptMessage, len(v.Messages))
	for i, m := range v.Messages {
		out.Messages[i] = mcp.PromptMessage{Role: m.Role, Content: downgradeContent(r, m.Content)}
	}
	return &out
}

// DowngradeCompletion converts the params of completion/complete into a form that a peer
// of revision r can read.
func DowngradeCompletion(r mcp.Revision, p mcp.CompleteParams) mcp.CompleteParams {
	if r < sinceTitles {
		p.Ref.Title = ""
	}
	if r < sinceContext {
		p.Context = nil
	}
	return p
}
