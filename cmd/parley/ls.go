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

func newLs() *cobra.Command {
	var flags dialFlags
	var status bool
	cmd := &cobra.Command{
		Use:   "ls [TARGET [NAME]] [flags]",
		Short: "List your servers, or what one of them has",
		Long: `List a server's tools, resources, resource templates and prompts, after its instructions; with -o json or yaml,
also what it supports. NAME is a tool, prompt or resource to describe, with a command that uses it. Arguments in
brackets are optional.

` + serversHelp + targetHelp,
		Example: `
parley ls
parley ls --status
parley ls http://127.0.0.1:7777/mcp
parley ls http://127.0.0.1:7777/mcp greet
parley ls --config mcp.json files
parley ls -- npx -y @modelcontextprotocol/server-everything`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if status {
				return errors.New("--status is for parley ls without TARGET")
			}
			target, rest, err := split(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) > 1 {
				return fmt.Errorf("unexpected argument %q; ls has one TARGET and one NAME", rest[1])
			}
			return ls(cmd, &flags, target, strings.Join(rest, ""))
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&status, "status", false, "connect to each server, and print its state")
	ofTarget := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && cmd.ArgsLenAtDash() < 0 && shellOf(cmd) == nil {
			return lsServers(cmd, &flags, status) // --timeout ends the wait for servers, and not the command
		}
		return ofTarget(cmd, args)
	}
	completes(cmd, &flags, completeTarget, completeEntry, completeNothing)
	return cmd
}

// ls prints the lists of a server, or describes the entry with a name unless it is empty.
func ls(cmd *cobra.Command, flags *dialFlags, target []string, name string) error {
	c, err := flags.dial(cmd, target)
	if err != nil {
		return err
	}
	defer release(cmd, c)
	listed, incomplete := list(cmd.Context(), c)
	if listed == nil {
		return incomplete
	}
	flags.remember(cmd, target, c, listed.names())
	if name != "" {
		definition, err := listed.find(name)
		if err != nil {
			return errors.Join(err, incomplete)
		}
		return show(cmd, definition, func(w io.Writer) error {
			return printDefinition(w, terminal.Width(w), definition, flags.command(cmd, target))
		})
	}
	err = show(cmd, serverListing{describedServer{c.Revision(), c.Server()}, listed}, func(w io.Writer) error {
		fmt.Fprintln(cmd.ErrOrStderr(), title(c, listed))
		if text := c.Server().Instructions; text != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "\n%s\n\n", terminal.Block(strings.TrimSpace(text)))
		}
		return listed.print(w, terminal.Width(w))
	})
	return errors.Join(err, incomplete)
}

// serverListing is a server and its lists, as JSON.
type serverListing struct {
	Server describedServer `json:"server"`
	*listing
}

type describedServer struct {
	Revision mcp.Revision `json:"revision"`
	client.ServerDetails
}

// title returns one line about the server and its lists.
func title(c *client.Client, listed *listing) string {
	info := c.Server().Info
	name := info.Title
	if name == "" {
		name = info.Name
	}
	return terminal.Line(fmt.Sprintf("%s %s · MCP %s · %s", name, info.Version, c.Revision(), listed.counts()))
}
