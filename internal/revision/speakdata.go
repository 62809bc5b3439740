package revision

import "github.com/parley-mcp/parley/mcp"

// The functions of this file say resources and prompts to peers of before 2026-07-28,
// by the table in speak.go. They return copies.

// trim leaves out what came to all that is listed.
func trim(r mcp.Revision, title *string, meta *mcp.Meta, icons *[]mcp.Icon) {
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

func speakResources(r mcp.Revision, v *mcp.ListResourcesResult) *mcp.ListResourcesResult {
	out := *v
	out.ResultType, out.CacheHints = "", mcp.CacheHints{}
	out.Resources = make([]mcp.Resource, len(v.Resources))
	for i, one := range v.Resources {
		one.Annotations = speakAnnotations(r, one.Annotations)
		trim(r, &one.Title, &one.Meta, &one.Icons)
		out.Resources[i] = one
	}
	return &out
}

func speakTemplates(r mcp.Revision, v *mcp.ListResourceTemplatesResult) *mcp.ListResourceTemplatesResult {
	out := *v
	out.ResultType, out.CacheHints = "", mcp.CacheHints{}
	out.ResourceTemplates = make([]mcp.ResourceTemplate, len(v.ResourceTemplates))
	for i, one := range v.ResourceTemplates {
		one.Annotations = speakAnnotations(r, one.Annotations)
		trim(r, &one.Title, &one.Meta, &one.Icons)
		out.ResourceTemplates[i] = one
	}
	return &out
}

func speakContents(r mcp.Revision, v *mcp.ReadResourceResult) *mcp.ReadResourceResult {
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

func speakPrompts(r mcp.Revision, v *mcp.ListPromptsResult) *mcp.ListPromptsResult {
	out := *v
	out.ResultType, out.CacheHints = "", mcp.CacheHints{}
	out.Prompts = make([]mcp.Prompt, len(v.Prompts))
	for i, one := range v.Prompts {
		trim(r, &one.Title, &one.Meta, &one.Icons)
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

func speakPrompt(r mcp.Revision, v *mcp.GetPromptResult) *mcp.GetPromptResult {
	out := *v
	out.ResultType = ""
	out.Messages = make([]mcp.PromptMessage, len(v.Messages))
	for i, m := range v.Messages {
		out.Messages[i] = mcp.PromptMessage{Role: m.Role, Content: speakContent(r, m.Content)}
	}
	return &out
}

// SpeakCompletion returns the params of completion/complete as a peer of revision r can
// read them.
func SpeakCompletion(r mcp.Revision, p mcp.CompleteParams) mcp.CompleteParams {
	if r < sinceTitles {
		p.Ref.Title = ""
	}
	if r < sinceContext {
		p.Context = nil
	}
	return p
}
