package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

func newPrompt() *cobra.Command {
	var flags sessionFlags
	cmd := &cobra.Command{
		Use:   "prompt TARGET NAME [key=value …] [flags]",
		Short: "Get a prompt",
		Long: `Get a prompt from a server and print its messages, each after a line with its role.

` + questionHelp + "\n\n" + targetHelp,
		Example: `
parley prompt http://127.0.0.1:7777/mcp postcard city=Oslo tone=friendly`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := split(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) == 0 {
				return errors.New("no NAME; list the server's prompts with parley ls")
			}
			arguments, err := parseStrings(rest[1:])
			if err != nil {
				return err
			}
			return prompt(cmd, &flags, target, rest[0], arguments)
		},
	}
	flags.add(cmd)
	completes(cmd, &flags, completeTarget, completePrompt, completePromptArguments)
	return cmd
}

func prompt(cmd *cobra.Command, flags *sessionFlags, target []string, name string, arguments map[string]string) error {
	c, err := flags.open(cmd, target, name)
	if err != nil {
		return err
	}
	defer c.close(cmd)
	if err := checkPrompt(cmd, c.Client, name, arguments); err != nil {
		return err
	}
	result, err := c.GetPrompt(cmd.Context(), name, arguments, c.onProgress())
	c.progress.Done()
	if err != nil {
		return err
	}
	var blocks []mcp.Content
	for _, m := range result.Messages {
		blocks = append(blocks, m.Content)
	}
	saved, err := c.save(cmd, name, blocks...)
	if err != nil {
		return err
	}
	return show(cmd, result, func(w io.Writer) error {
		c := newContentWriter(w, saved, c.images)
		c.messages(result.Messages)
		_, err := io.WriteString(w, c.b.String())
		return err
	})
}

// checkPrompt returns an error if the server does not have the prompt, or if the arguments do
// not match it.
func checkPrompt(cmd *cobra.Command, c *client.Client, name string, arguments map[string]string) error {
	if c.Server().Capabilities.Prompts == nil {
		return fmt.Errorf("unknown prompt %q; the server has no prompts", name)
	}
	var names []string
	for p, err := range c.Prompts(cmd.Context()) {
		if err != nil {
			return err
		}
		if p.Name == name {
			return checkArguments(p, arguments)
		}
		names = append(names, p.Name)
	}
	return unknownName("prompt", name, names)
}

func checkArguments(p *mcp.Prompt, arguments map[string]string) error {
	usage := "the prompt has no arguments"
	if len(p.Arguments) > 0 {
		usage = "the prompt's arguments are " + terminal.Line(promptSummary(p))
	}
	var names []string
	for _, a := range p.Arguments {
		names = append(names, a.Name)
	}
	for key := range arguments {
		if !slices.Contains(names, key) {
			return nearest.Unknown("argument", key, names, usage)
		}
	}
	for _, a := range p.Arguments {
		if _, given := arguments[a.Name]; a.Required && !given {
			return fmt.Errorf("argument %q is missing; %s", a.Name, usage)
		}
	}
	return nil
}

// promptSummary returns the names of the prompt's arguments, with optional arguments in
// brackets.
func promptSummary(p *mcp.Prompt) string {
	var all []string
	for _, a := range p.Arguments {
		if a.Required {
			all = append(all, a.Name)
		} else {
			all = append(all, "["+a.Name+"]")
		}
	}
	return strings.Join(all, " ")
}

// parseStrings parses words of the form key=value.
func parseStrings(words []string) (map[string]string, error) {
	values := make(map[string]string, len(words))
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("invalid argument %q; write key=value", word)
		}
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("duplicate argument %q", key)
		}
		values[key] = value
	}
	return values, nil
}

// messages writes messages, each after a line with its role.
func (c *contentWriter) messages(messages []mcp.PromptMessage) {
	for i, m := range messages {
		if i > 0 {
			c.line("")
		}
		c.line(terminal.Line(string(m.Role)) + ":")
		c.block(m.Content)
	}
}
