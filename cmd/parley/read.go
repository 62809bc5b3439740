package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

func newRead() *cobra.Command {
	var flags sessionFlags
	cmd := &cobra.Command{
		Use:   "read TARGET URI [flags]",
		Short: "Read a resource",
		Long: `Read a resource and print its contents to stdout. Text ends with a newline, and binary contents are
printed byte for byte. If stdout is a terminal, control characters are replaced and binary contents
are described.

` + questionHelp + "\n\n" + targetHelp,
		Example: `
parley read http://127.0.0.1:7777/mcp demo://guide
parley read --config mcp.json files file:///project/logo.png >logo.png`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := split(cmd, args)
			switch {
			case err != nil:
				return err
			case len(rest) == 0:
				return errors.New("no URI; list the server's resources with parley ls")
			case len(rest) > 1:
				return fmt.Errorf("unexpected argument %q; read has one URI", rest[1])
			}
			return read(cmd, &flags, target, rest[0])
		},
	}
	flags.add(cmd)
	completes(cmd, &flags, completeTarget, completeNothing)
	return cmd
}

func read(cmd *cobra.Command, flags *sessionFlags, target []string, uri string) error {
	c, err := flags.open(cmd, target, uri)
	if err != nil {
		return err
	}
	defer c.close(cmd)
	result, err := c.ReadResource(cmd.Context(), uri, c.onProgress())
	c.progress.Done()
	switch {
	case errors.Is(err, client.ErrResourceNotFound):
		return unknownResource(cmd.Context(), c.Client, uri)
	case err != nil:
		return err
	}
	return show(cmd, result, func(w io.Writer) error { return printContents(w, result.Contents) })
}

// unknownResource returns the error for a resource that the server does not have.
func unknownResource(ctx context.Context, c *client.Client, uri string) error {
	var uris []string
	for r, err := range c.Resources(ctx) {
		if err != nil {
			break // the resource is unknown nevertheless
		}
		uris = append(uris, r.URI)
	}
	return unknownName("resource", uri, uris)
}

// printContents prints the contents of a resource. If there are several, each follows a line
// with its URI.
func printContents(w io.Writer, contents []mcp.ResourceContents) error {
	if len(contents) == 1 && !terminal.Is(w) {
		if contents[0].Blob != nil {
			_, err := w.Write(contents[0].Blob)
			return err
		}
		if contents[0].Text == "" {
			return nil
		}
	}
	var b strings.Builder
	for i := range contents {
		text := contents[i].Text
		if len(contents) > 1 || contents[i].Blob != nil {
			text = describeResource(&contents[i])
		}
		writeLines(&b, text)
	}
	return printText(w, b.String())
}
