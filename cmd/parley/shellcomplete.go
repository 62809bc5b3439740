package main

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	linesh "github.com/parley-mcp/parley/cmd/parley/internal/shell"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/mcp"
)

const (
	tabTimeout = 2 * time.Second  // for what the server lists or completes
	listsAge   = 10 * time.Second // for which completion uses lists again
)

// listCache keeps the lists of a server for completion. It is safe for concurrent use.
type listCache struct {
	mu     sync.Mutex
	listed *listing
	until  time.Time
}

// get returns the lists, or empty ones if the server does not answer.
func (c *listCache) get(ctx context.Context, s *shell) *listing {
	c.mu.Lock()
	listed, until := c.listed, c.until
	c.mu.Unlock()
	if listed != nil && time.Now().Before(until) {
		return listed
	}
	listed, _ = list(ctx, s.Client) // incomplete lists are better than none
	if listed == nil {
		return new(listing)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed, c.until = listed, time.Now().Add(listsAge)
	return listed
}

// forget makes get ask the server again.
func (c *listCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = nil
}

// complete returns the candidates for the current word of a line. It implements the function of shell.NewEditor.
func (s *shell) complete(line string) (candidates []string, start int) {
	ctx, cancel := context.WithTimeout(s.cmd.Context(), tabTimeout)
	defer cancel()
	before, current, start := linesh.Cursor(line)
	for _, word := range s.words(ctx, before, current) {
		if !strings.HasPrefix(word, current) || terminal.Line(word) != word {
			continue
		}
		if name, isName := strings.CutSuffix(word, "="); isName {
			word = shellWord(name) + "="
		} else {
			word = shellWord(word)
		}
		candidates = append(candidates, word)
	}
	slices.Sort(candidates)
	return slices.Compact(candidates), start
}

// longFlag matches the names of flags in their help.
var longFlag = regexp.MustCompile(`(?m)--[a-z-]+`)

// words returns the words that can follow others.
func (s *shell) words(ctx context.Context, before []string, current string) (words []string) {
	root := newShellRoot(s.cmd)
	cmd, rest, err := root.Find(before)
	if err != nil || cmd == root && len(before) > 0 && before[0] != "help" {
		return nil
	}
	if strings.HasPrefix(current, "-") {
		return longFlag.FindAllString(cmd.Flags().FlagUsages()+root.PersistentFlags().FlagUsages(), -1)
	}
	if cmd.HasSubCommands() {
		for _, sub := range cmd.Commands() {
			words = append(words, sub.Name())
		}
		return append(words, "help")
	}
	rest = slices.DeleteFunc(slices.Clone(rest), func(word string) bool { return strings.HasPrefix(word, "-") })
	return s.arguments(ctx, cmd.Name(), rest, current)
}

// arguments returns the words that can be the next argument of a command.
func (s *shell) arguments(ctx context.Context, command string, before []string, current string) []string {
	lists := s.lists.get(ctx, s)
	switch {
	case command == "call" && len(before) == 0:
		return namesIn(lists.Tools, func(t *mcp.Tool) string { return t.Name })
	case command == "call":
		return toolArguments(lists.Tools, before, current)
	case command == "prompt" && len(before) == 0:
		return namesIn(lists.Prompts, func(p *mcp.Prompt) string { return p.Name })
	case command == "prompt":
		return s.promptArguments(ctx, lists.Prompts, before, current)
	case command == "watch", command == "read" && len(before) == 0:
		return namesIn(lists.Resources, func(r *mcp.Resource) string { return r.URI })
	case command == "ls" && len(before) == 0:
		return slices.Concat(
			namesIn(lists.Tools, func(t *mcp.Tool) string { return t.Name }),
			namesIn(lists.Prompts, func(p *mcp.Prompt) string { return p.Name }),
			namesIn(lists.Resources, func(r *mcp.Resource) string { return r.URI }))
	case command == "complete" && len(before) == 0:
		return []string{"prompt", "template"}
	case command == "complete" && len(before) == 1 && before[0] == "prompt":
		return namesIn(lists.Prompts, func(p *mcp.Prompt) string { return p.Name })
	case command == "complete" && len(before) == 1:
		return namesIn(lists.Templates, func(t *mcp.ResourceTemplate) string { return t.URITemplate })
	}
	return nil
}

func namesIn[E any](entries []E, name func(E) string) (names []string) {
	for _, e := range entries {
		names = append(names, name(e))
	}
	return names
}

// toolArguments returns the arguments of a tool that are not set yet, or the values of one.
func toolArguments(tools []*mcp.Tool, before []string, current string) (words []string) {
	at := slices.IndexFunc(tools, func(t *mcp.Tool) bool { return t.Name == before[0] })
	if at < 0 {
		return nil
	}
	name, _, isSet := strings.Cut(current, "=")
	for _, a := range toolargs.Arguments(tools[at].InputSchema) {
		switch {
		case !isSet && !slices.ContainsFunc(before[1:], func(w string) bool { return strings.HasPrefix(w, a.Name+"=") }):
			words = append(words, a.Name+"=")
		case isSet && a.Name == name:
			for _, value := range valuesOf(a.Type) {
				words = append(words, name+"="+value)
			}
		}
	}
	return words
}

// valuesOf returns the values of an argument, if its type has few.
func valuesOf(kind string) []string {
	if kind == "boolean" {
		return []string{"true", "false"}
	}
	values := strings.Split(kind, "|")
	isType := func(word string) bool {
		return slices.Contains([]string{"string", "integer", "number", "boolean", "object", "array", "null", "…"}, word)
	}
	if len(values) < 2 || slices.ContainsFunc(values, isType) {
		return nil
	}
	return values
}

// promptArguments returns the arguments of a prompt that are not set yet, or the values of one that the server suggests.
func (s *shell) promptArguments(ctx context.Context, prompts []*mcp.Prompt, before []string, current string) (words []string) {
	at := slices.IndexFunc(prompts, func(p *mcp.Prompt) bool { return p.Name == before[0] })
	if at < 0 {
		return nil
	}
	name, value, isSet := strings.Cut(current, "=")
	if !isSet {
		for _, a := range prompts[at].Arguments {
			if !slices.ContainsFunc(before[1:], func(w string) bool { return strings.HasPrefix(w, a.Name+"=") }) {
				words = append(words, a.Name+"=")
			}
		}
		return words
	}
	if s.Server().Capabilities.Completions == nil {
		return nil
	}
	params := mcp.CompleteParams{Ref: mcp.CompleteReference{Type: mcp.RefPrompt, Name: before[0]}}
	params.Argument.Name, params.Argument.Value = name, value
	if set, err := parseStrings(before[1:]); err == nil && len(set) > 0 {
		params.Context = &mcp.CompleteContext{Arguments: set}
	}
	completion, err := s.Complete(ctx, params)
	if err != nil {
		return nil
	}
	for _, v := range completion.Values {
		words = append(words, name+"="+v)
	}
	return words
}
