package completion

import (
	"net/url"
	"strings"

	"github.com/parley-mcp/parley/mcp"
)

// templatePart is a literal of a URI template and the variable after it, which is empty at the end of the template.
type templatePart struct{ literal, variable string }

// splitTemplate returns the parts of a URI template. It returns the parts before the first expression that is not a
// name alone, such as {?a,b}: those cannot be completed.
func splitTemplate(template string) (parts []templatePart) {
	for {
		literal, rest, found := strings.Cut(template, "{")
		if !found {
			return append(parts, templatePart{literal: literal})
		}
		variable, after, closed := strings.Cut(rest, "}")
		if !closed || variable == "" || strings.ContainsAny(variable, "+#./;?&,:*") {
			return append(parts, templatePart{literal: literal})
		}
		parts = append(parts, templatePart{literal, variable})
		template = after
	}
}

// fill completes the word with the URIs of a template: up to the next variable, or with the values of that variable.
// whole reports whether the URIs are complete.
func (c *completing) fill(template string) (uris []string, whole bool) {
	parts := splitTemplate(template)
	begin, rest := "", c.word
	known := make(map[string]string)
	for i, part := range parts {
		after, matches := strings.CutPrefix(rest, part.literal)
		if !matches {
			if strings.HasPrefix(part.literal, rest) {
				return []string{begin + part.literal}, part.variable == ""
			}
			return nil, false
		}
		begin, rest = begin+part.literal, after
		if part.variable == "" {
			return nil, true
		}
		next := parts[i+1:]
		value, remainder, ended := rest, "", false
		if len(next) > 0 && next[0].literal != "" {
			if value, remainder, ended = strings.Cut(rest, next[0].literal[:1]); ended {
				remainder = next[0].literal[:1] + remainder
			}
		}
		if ended {
			known[part.variable] = unescaped(value)
			begin, rest = begin+value, remainder
			continue
		}
		ref := mcp.CompleteReference{Type: mcp.RefResource, URI: template}
		for _, v := range c.values(ref, part.variable, unescaped(rest), known) {
			uris = append(uris, begin+url.PathEscape(v))
		}
		return uris, len(next) == 1 && next[0] == templatePart{}
	}
	return nil, true
}

// unescaped returns a part of a URI without percent-encoding.
func unescaped(part string) string {
	if text, err := url.PathUnescape(part); err == nil {
		return text
	}
	return part
}
