package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/glob"
	"github.com/parley-mcp/parley/mcp"
)

// Selection selects the tools or the prompts of a server that a [Host] offers, and renames
// them. All names are those that the server uses. The zero Selection selects everything.
// What is not selected is in no list of the Host, and calls of it fail with ErrUnknownTool or
// ErrUnknownPrompt.
//
// In patterns, * matches any number of characters and ? matches one character. Patterns
// match whole names, and letters are case-sensitive.
//
// ReadOnly, NonDestructive, Idempotent and ClosedWorld select tools by the annotations that
// the server declares. A server may declare what is not true, so do not rely on them for a
// server that you do not trust. A tool without the annotation is not selected. Prompts have
// no annotations.
type Selection struct {
	// Only has patterns of the names to select. Nil means all names.
	Only []string
	// Hide has patterns of names that are not selected, even if Only has them.
	Hide []string
	// Rename has the new name for each name that is to have another one in the merged lists.
	// A new name has 1 to 128 ASCII letters, digits, hyphens, underscores and dots. The
	// prefix of the server is added to it.
	Rename map[string]string

	ReadOnly       bool // select tools with readOnlyHint true
	NonDestructive bool // select tools with destructiveHint false, or readOnlyHint true
	Idempotent     bool // select tools with idempotentHint true, or readOnlyHint true
	ClosedWorld    bool // select tools with openWorldHint false
}

// names reports whether a name is selected.
func (s *Selection) names(name string) bool {
	return (s.Only == nil || glob.Any(s.Only, name)) && !glob.Any(s.Hide, name)
}

// byAnnotation reports whether the definition of a tool decides, not only its name.
func (s *Selection) byAnnotation() bool {
	return s.ReadOnly || s.NonDestructive || s.Idempotent || s.ClosedWorld
}

// tool reports whether a tool is selected.
func (s *Selection) tool(t *mcp.Tool) bool {
	if !s.names(t.Name) {
		return false
	}
	a := t.Annotations
	if a == nil {
		return !s.byAnnotation()
	}
	isFalse := func(hint *bool) bool { return hint != nil && !*hint }
	return (!s.ReadOnly || a.ReadOnlyHint) &&
		(!s.NonDestructive || a.ReadOnlyHint || isFalse(a.DestructiveHint)) &&
		(!s.Idempotent || a.ReadOnlyHint || a.IdempotentHint) &&
		(!s.ClosedWorld || isFalse(a.OpenWorldHint))
}

// renamed returns the name that replaces a name of the server in the merged lists.
func (s *Selection) renamed(name string) string {
	if other, ok := s.Rename[name]; ok {
		return other
	}
	return name
}

// check returns an error for fields that are invalid. Only tools have annotations.
func (s *Selection) check(annotated bool) error {
	for _, name := range slices.Sorted(maps.Keys(s.Rename)) {
		if to := s.Rename[name]; to == "" || len(to) > maxMergedName || validName(to) != to {
			return fmt.Errorf("new name %.140q of %.140q must have 1 to %d letters, digits, hyphens, underscores and dots", to, name, maxMergedName)
		}
	}
	if !annotated && s.byAnnotation() {
		return errors.New("prompts must not be selected by annotations: they have none")
	}
	return nil
}

// naming is how a server's tools and prompts are selected and named. It is immutable.
type naming struct {
	prefix         string // with the separator; may be empty
	tools, prompts Selection
	maxName        int
}

func newNaming(config *ServerConfig, maxName int) *naming {
	prefix := config.Name
	if config.Prefix != nil {
		prefix = *config.Prefix
	}
	if prefix != "" {
		prefix += separator
	}
	return &naming{prefix: prefix, tools: config.Tools, prompts: config.Prompts, maxName: maxName}
}

// unknownNames returns an error that has the names of a selection that a server does not list: a misspelt name in Hide
// hides nothing. Patterns need not match, and a list is empty until the server has connected.
func unknownNames[Entry any](s *Selection, kind string, listed []Entry, nameOf func(*Entry) string) error {
	if len(listed) == 0 {
		return nil
	}
	names := slices.Concat(s.Only, s.Hide, slices.Sorted(maps.Keys(s.Rename)))
	names = slices.DeleteFunc(names, func(name string) bool {
		return strings.ContainsAny(name, "*?") || slices.ContainsFunc(listed, func(e Entry) bool { return nameOf(&e) == name })
	})
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("the configuration names the %ss %q, which the server does not list: correct or remove them", kind, slices.Compact(names))
}
