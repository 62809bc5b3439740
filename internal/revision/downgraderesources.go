package revision

import "github.com/parley-mcp/parley/mcp"

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

// DowngradeCompletion returns the params of completion/complete in the form that a peer of
// revision r can read.
func DowngradeCompletion(r mcp.Revision, p mcp.CompleteParams) mcp.CompleteParams {
	if r < sinceTitles {
		p.Ref.Title = ""
	}
	if r < sinceContext {
		p.Context = nil
	}
	return p
}
