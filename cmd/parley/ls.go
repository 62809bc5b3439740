package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

func newLs() *cobra.Command {
	var flags dialFlags
	var output output
	cmd := &cobra.Command{
		Use:   "ls TARGET [flags]",
		Short: "List a server's tools, resources and prompts",
		Long: `List a server's tools and prompts, with the arguments they take, of which those in brackets
can be left out, and its resources, with the templates of more of them.

` + targetHelp,
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
	listed, err := list(cmd.Context(), c)
	if err != nil {
		return err
	}
	if output == outputJSON {
		return printJSON(cmd.OutOrStdout(), listed)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), introduce(c, listed))
	return listed.print(cmd.OutOrStdout(), terminal.Width(cmd.OutOrStdout()))
}

// introduce says in one line which server this is.
func introduce(c *client.Client, listed *listing) string {
	info := c.Server().Info
	name := info.Title
	if name == "" {
		name = info.Name
	}
	return terminal.Line(fmt.Sprintf("%s %s · MCP %s · %s", name, info.Version, c.Revision(), listed.counts()))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
