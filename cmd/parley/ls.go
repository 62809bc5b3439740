package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/mcp"
)

func newLs() *cobra.Command {
	var flags dialFlags
	var output output
	cmd := &cobra.Command{
		Use:   "ls TARGET [flags]",
		Short: "List a server's tools",
		Long:  "List a server's tools, with the arguments they take; those in brackets can be left out.\n\n" + targetHelp,
		Example: `
parley ls http://127.0.0.1:7777/mcp
parley ls --config mcp.json files
parley ls -- npx -y @modelcontextprotocol/server-everything`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := split(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return fmt.Errorf("unexpected %q: ls takes one TARGET", rest[0])
			}
			return ls(cmd, &flags, target, output)
		},
	}
	flags.add(cmd)
	output.add(cmd)
	return cmd
}

func ls(cmd *cobra.Command, flags *dialFlags, target []string, output output) error {
	c, err := flags.dial(cmd, target)
	if err != nil {
		return err
	}
	defer closeQuietly(c)
	tools := []mcp.Tool{}
	if c.Server().Capabilities.Tools != nil {
		for tool, err := range c.Tools(cmd.Context()) {
			if err != nil {
				return err
			}
			tools = append(tools, *tool)
		}
	}
	if output == outputJSON {
		return printJSON(cmd.OutOrStdout(), tools)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), introduce(c, len(tools)))
	if len(tools) == 0 {
		return nil
	}
	return printTools(cmd.OutOrStdout(), tools, terminal.Width(cmd.OutOrStdout()))
}

// introduce says in one line which server this is.
func introduce(c *client.Client, tools int) string {
	info := c.Server().Info
	name := info.Title
	if name == "" {
		name = info.Name
	}
	return terminal.Line(fmt.Sprintf("%s %s · MCP %s · %s", name, info.Version, c.Revision(), count(tools, "tool")))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func printTools(w io.Writer, tools []mcp.Tool, width int) error {
	rows := make([][]string, 0, len(tools))
	for _, t := range tools {
		text := t.Description
		if text == "" {
			text = t.Title
		}
		rows = append(rows, []string{
			terminal.Line(t.Name),
			terminal.Line(toolargs.Summary(t.InputSchema)),
			terminal.Line(text),
		})
	}
	return terminal.Table(w, width, []string{"TOOL", "ARGUMENTS", "DESCRIPTION"}, rows)
}
