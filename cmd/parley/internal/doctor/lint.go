package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// lints are faults of definitions, in the order in which they were found: the names of the definitions that have the same
// fault are reported together.
type lints struct {
	order []string
	by    map[string]*lint
}

type lint struct {
	level Level
	fix   string
	names []string
}

// add adds a fault of the definition of a name.
func (l *lints) add(level Level, text, fix, name string) {
	if l.by == nil {
		l.by = make(map[string]*lint)
	}
	if l.by[text] == nil {
		l.by[text] = &lint{level: level, fix: fix}
		l.order = append(l.order, text)
	}
	l.by[text].names = append(l.by[text].names, name)
}

// maxNames is how many names a finding lists.
const maxNames = 5

// report reports the faults, or that there are none.
func (l *lints) report(e *Examination, check, none string) {
	for _, text := range l.order {
		f := l.by[text]
		names := strings.Join(f.names[:min(len(f.names), maxNames)], ", ")
		if more := len(f.names) - maxNames; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		e.report(check, f.level, f.fix, "%s: %s", text, names)
	}
	if len(l.order) == 0 {
		e.report(check, OK, "", "%s", none)
	}
}

// lintTools examines definitions of tools (2025-11-25, server/tools).
func (e *Examination) lintTools(tools []*mcp.Tool) {
	var l lints
	seen := make(map[string]bool)
	for _, t := range tools {
		if seen[t.Name] {
			l.add(Problem, "several tools have the same name", "give each tool a name of its own", t.Name)
		}
		seen[t.Name] = true
		if !isToolName(t.Name) {
			l.add(Warning, "the name has characters that clients may reject", "use 1 to 128 letters, digits, underscores, hyphens and dots", t.Name)
		}
		switch n := len(t.Description); {
		case n == 0:
			l.add(Warning, "a tool has no description, by which models choose tools", "describe what the tool does and when to use it", t.Name)
		case n > maxDescription:
			l.add(Note, fmt.Sprintf("a description has more than %d KiB", maxDescription>>10), "shorten it; each conversation contains it", t.Name)
		}
		lintInput(&l, t)
		if t.OutputSchema != nil {
			lintSchema(&l, "output schema", t.Name, t.OutputSchema)
		}
		if a := t.Annotations; a != nil && a.ReadOnlyHint && a.DestructiveHint != nil && *a.DestructiveHint {
			l.add(Warning, "the annotations contradict each other: readOnlyHint and destructiveHint", "set one of them", t.Name)
		}
	}
	if len(tools) > 0 {
		l.report(e, "tools", "the definitions of the tools have no faults")
	}
}

func isToolName(name string) bool {
	other := strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r))
	})
	return name != "" && len(name) <= 128 && other < 0
}

// lintInput examines an input schema.
func lintInput(l *lints, t *mcp.Tool) {
	compiled := lintSchema(l, "input schema", t.Name, t.InputSchema)
	if compiled == nil {
		return
	}
	if !compiled.IsObject() {
		l.add(Problem, `the type of the input schema is not "object"`, `set "type": "object"`, t.Name)
	}
	if _, err := schema.Headers(t.InputSchema); err != nil {
		l.add(Problem, "x-mcp-header in the input schema is invalid, so clients of 2026-07-28 drop the tool: "+err.Error(), "see server/tools, x-mcp-header", t.Name)
	}
	for _, a := range toolargs.Arguments(t.InputSchema) {
		if a.Undefined {
			l.add(Warning, "a required argument is not among the properties", "define it, or remove it from required", t.Name+" "+a.Name)
		} else if a.Description == "" {
			l.add(Note, "an argument has no description", "describe the meaning, the unit and the format", t.Name+" "+a.Name)
		}
	}
}

// lintSchema compiles a schema and reports what is wrong with it. It returns nil if it cannot be compiled.
func lintSchema(l *lints, what, tool string, raw json.RawMessage) *schema.Schema {
	compiled, err := schema.Compile(raw)
	var ref *schema.RefError
	switch {
	case errors.As(err, &ref):
		l.add(Problem, "a reference of the "+what+" has no target", `put the schema into "$defs"; clients do not load schemas from the network`, tool+" "+ref.Ref)
	case err != nil:
		l.add(Problem, "the "+what+" is invalid: "+err.Error(), "correct the JSON Schema", tool)
	default:
		for _, u := range compiled.Unchecked() {
			l.add(Note, "a part of the "+what+" is not checked by all validators: "+u.Reason, "", tool+" "+u.Pointer)
		}
	}
	if err != nil {
		return nil
	}
	return compiled
}

// lintPrompts examines definitions of prompts.
func (e *Examination) lintPrompts(prompts []*mcp.Prompt) {
	var l lints
	seen := make(map[string]bool)
	for _, p := range prompts {
		if seen[p.Name] || p.Name == "" {
			l.add(Problem, "a prompt has no name, or that of another one", "give each prompt a name of its own", p.Name)
		}
		seen[p.Name] = true
		if p.Description == "" {
			l.add(Warning, "a prompt has no description, by which users choose prompts", "describe what the prompt is for", p.Name)
		}
		for _, a := range p.Arguments {
			if a.Description == "" {
				l.add(Note, "an argument of a prompt has no description", "describe the meaning and the format", p.Name+" "+a.Name)
			}
		}
	}
	if len(prompts) > 0 {
		l.report(e, "prompts", "the definitions of the prompts have no faults")
	}
}

// lintResources examines definitions of resources.
func (e *Examination) lintResources(resources []*mcp.Resource) {
	var l lints
	seen := make(map[string]bool)
	for _, r := range resources {
		if u, err := url.Parse(r.URI); err != nil || u.Scheme == "" {
			l.add(Problem, "a URI is invalid or has no scheme", "use absolute URIs, such as notes://list", r.URI)
		}
		if seen[r.URI] {
			l.add(Problem, "several resources have the same URI", "give each resource a URI of its own", r.URI)
		}
		seen[r.URI] = true
		if r.MimeType == "" {
			l.add(Note, "a resource has no MIME type", "set the MIME type, so that clients can show the resource", r.URI)
		}
	}
	if len(resources) > 0 {
		l.report(e, "resources", "the definitions of the resources have no faults")
	}
}

// lintTemplates examines resource templates.
func (e *Examination) lintTemplates(templates []*mcp.ResourceTemplate) {
	var l lints
	for _, t := range templates {
		if strings.Count(t.URITemplate, "{") != strings.Count(t.URITemplate, "}") || !strings.Contains(t.URITemplate, ":") {
			l.add(Problem, "a URI template is invalid (RFC 6570)", "write variables in braces, and begin with a scheme", t.URITemplate)
		}
		if t.Description == "" {
			l.add(Note, "a template has no description", "describe the variables", t.URITemplate)
		}
	}
	if len(templates) > 0 {
		l.report(e, "templates", "the definitions of the resource templates have no faults")
	}
}
