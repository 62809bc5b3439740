package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/listcache"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

// Bounds of what shells offer.
const (
	maxOffered     = 500 // words
	maxDescription = 80  // characters
)

// offer returns the words that begin like the word of the command line. A word that a terminal would not show unchanged is
// left out, and so is one that parley would take for a flag.
func (c *completing) offer(words []cobra.Completion, directive cobra.ShellCompDirective) ([]cobra.Completion, cobra.ShellCompDirective) {
	var offered []cobra.Completion
	for _, w := range words {
		text, _, _ := strings.Cut(w, "\t")
		isFlag := strings.HasPrefix(text, "-") && !c.dashed
		if text != "" && !isFlag && strings.HasPrefix(text, c.word) && terminal.Line(text) == text && len(offered) < maxOffered {
			offered = append(offered, w)
		}
	}
	return offered, directive | cobra.ShellCompDirectiveNoFileComp
}

// described returns a word with a description from a server.
func described(word, description string) cobra.Completion {
	line := []rune(terminal.Line(description))
	if len(line) > maxDescription {
		line = append(line[:maxDescription-1], '…')
	}
	return cobra.CompletionWithDesc(word, string(line))
}

// completeTarget completes the name of a server in the configuration files, and URLs that were used before.
func completeTarget(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	words := c.config.names()
	if c.dial != nil {
		words = append(words, usedURLs()...)
	}
	return c.offer(words, cobra.ShellCompDirectiveDefault)
}

// completeURL completes a URL that was used before.
func completeURL(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.offer(usedURLs(), cobra.ShellCompDirectiveDefault)
}

// completeNothing is for arguments that cannot be completed.
func completeNothing(*completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeWords returns a completion that offers the same words each time.
func completeWords(words ...cobra.Completion) completion {
	return func(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.offer(words, cobra.ShellCompDirectiveDefault)
	}
}

// completeTool completes the name of a tool.
func completeTool(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.offer(entries(c.lists().Tools), cobra.ShellCompDirectiveDefault)
}

// completePrompt completes the name of a prompt.
func completePrompt(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.offer(entries(c.lists().Prompts), cobra.ShellCompDirectiveDefault)
}

// completeEntry completes the name of a tool or prompt, a URI or a URI template.
func completeEntry(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	lists := c.lists()
	return c.offer(entries(slices.Concat(lists.Tools, lists.Prompts, lists.Resources, lists.Templates)), cobra.ShellCompDirectiveDefault)
}

// completeResource completes a URI, also one of a template, for whose variables it asks the server.
func completeResource(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	lists := c.lists()
	words := entries(lists.Resources)
	directive := cobra.ShellCompDirectiveDefault
	for _, t := range lists.Templates {
		uris, whole := c.fill(t.Name)
		if len(uris) > 0 && !whole {
			directive = cobra.ShellCompDirectiveNoSpace
		}
		words = append(words, uris...)
	}
	return c.offer(words, directive)
}

// completeToolArguments completes key=value for the tool that is the second argument.
func completeToolArguments(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.arguments(c.lists().Tools, c.args[1], func(listcache.Argument, string) []string { return nil })
}

// completePromptArguments completes key=value for the prompt that is the second argument. It asks the server for values.
func completePromptArguments(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.arguments(c.lists().Prompts, c.args[1], func(a listcache.Argument, value string) []string {
		others, err := parseStrings(c.args[2:])
		if err != nil {
			return nil
		}
		return c.values(mcp.CompleteReference{Type: mcp.RefPrompt, Name: c.args[1]}, a.Name, value, others)
	})
}

// completeTask completes the id of a task that parley has started at the server. It does not connect to the server.
func completeTask(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	var words []cobra.Completion
	for _, r := range c.tasks() {
		words = append(words, described(r.ID, r.Tool))
	}
	return c.offer(words, cobra.ShellCompDirectiveDefault)
}

// arguments completes key=value for the entry called name. values returns the values of an argument that the cache does not
// list.
func (c *completing) arguments(all []listcache.Entry, name string, values func(a listcache.Argument, value string) []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var words []cobra.Completion
	key, value, hasValue := strings.Cut(c.word, "=")
	for _, e := range all {
		if e.Name != name {
			continue
		}
		for _, a := range e.Arguments {
			switch {
			case !hasValue && (a.Repeats || !c.given(a.Name)):
				words = append(words, described(a.Name+"=", a.Description))
			case hasValue && a.Name == key:
				allowed := a.Values
				if allowed == nil {
					allowed = values(a, value)
				}
				for _, v := range allowed {
					words = append(words, key+"="+v)
				}
			}
		}
	}
	if hasValue {
		return c.offer(words, cobra.ShellCompDirectiveDefault)
	}
	return c.offer(words, cobra.ShellCompDirectiveNoSpace)
}

// given reports whether the command line sets an argument.
func (c *completing) given(name string) bool {
	return slices.ContainsFunc(c.args, func(word string) bool {
		return strings.HasPrefix(word, name+"=") || strings.HasPrefix(word, name+":=")
	})
}

// completeReference completes the name of a prompt or a URI template for parley complete, and completeVariable the name of
// its argument.
func completeReference(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	if c.args[1] == "template" {
		return c.offer(entries(c.lists().Templates), cobra.ShellCompDirectiveDefault)
	}
	return completePrompt(c)
}

func completeVariable(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	var words []cobra.Completion
	if c.args[1] == "template" {
		for _, part := range splitTemplate(c.args[2]) {
			words = append(words, part.variable)
		}
	}
	for _, p := range c.lists().Prompts {
		if p.Name == c.args[2] && c.args[1] == "prompt" {
			for _, a := range p.Arguments {
				words = append(words, described(a.Name, a.Description))
			}
		}
	}
	return c.offer(words, cobra.ShellCompDirectiveDefault)
}

func entries(all []listcache.Entry) (words []cobra.Completion) {
	for _, e := range all {
		words = append(words, described(e.Name, e.Description))
	}
	return words
}
