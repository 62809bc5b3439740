package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

func newPrompt() *cobra.Command {
	var flags sessionFlags
	var output output
	cmd := &cobra.Command{
		Use:   "prompt TARGET NAME [key=value …] [flags]",
		Short: "Have a server make a prompt",
		Long: `Have a server make a prompt of arguments, and print its messages, each below who it is of.

` + askHelp + "\n\n" + targetHelp + "\n\n" + exitCodesHelp,
		Example: `
parley prompt http://127.0.0.1:7777/mcp postcard city=Oslo tone=warm`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := split(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) == 0 {
				return errors.New("no NAME: parley ls lists a server's prompts")
			}
			arguments, err := parseStrings(rest[1:])
			if err != nil {
				return err
			}
			return prompt(cmd, &flags, target, rest[0], arguments, output)
		},
	}
	flags.add(cmd)
	output.add(cmd)
	return cmd
}

func prompt(cmd *cobra.Command, flags *sessionFlags, target []string, name string, arguments map[string]string, output output) error {
	c, err := flags.open(cmd, target, name)
	if err != nil {
		return err
	}
	defer closeQuietly(c.Client)
	if err := checkPrompt(cmd, c.Client, name, arguments); err != nil {
		return err
	}
	result, err := c.GetPrompt(cmd.Context(), name, arguments, c.onProgress())
	c.progress.Done()
	switch {
	case err != nil:
		return err
	case output == outputJSON:
		return printJSON(cmd.OutOrStdout(), result)
	}
	text := renderMessages(result.Messages)
	if terminal.Is(cmd.OutOrStdout()) {
		text = terminal.Block(text)
	}
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}

// checkPrompt returns nil if the server has a prompt that takes such arguments.
func checkPrompt(cmd *cobra.Command, c *client.Client, name string, arguments map[string]string) error {
	if c.Server().Capabilities.Prompts == nil {
		return fmt.Errorf("the server has no prompt %q: it has none at all", name)
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
	return hasNo("prompt", name, names)
}

func checkArguments(p *mcp.Prompt, arguments map[string]string) error {
	takes := "it takes none"
	if len(p.Arguments) > 0 {
		takes = "it takes " + terminal.Line(promptSummary(p))
	}
	known := make(map[string]bool)
	for _, a := range p.Arguments {
		known[a.Name] = true
		if _, given := arguments[a.Name]; a.Required && !given {
			return fmt.Errorf("argument %q is missing: %s", a.Name, takes)
		}
	}
	for key := range arguments {
		if !known[key] {
			return fmt.Errorf("the prompt has no argument %q: %s", key, takes)
		}
	}
	return nil
}

// promptSummary says which arguments a prompt takes; those in brackets can be left out.
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

// parseStrings reads words of the form key=value.
func parseStrings(words []string) (map[string]string, error) {
	values := make(map[string]string, len(words))
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("%q is not an argument: write key=value", word)
		}
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("%s is given twice", key)
		}
		values[key] = value
	}
	return values, nil
}

// renderMessages returns messages as text, each below its role.
func renderMessages(messages []mcp.PromptMessage) string {
	var b strings.Builder
	for i, m := range messages {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:\n", terminal.Line(string(m.Role)))
		writeLines(&b, describe(m.Content))
	}
	return b.String()
}
