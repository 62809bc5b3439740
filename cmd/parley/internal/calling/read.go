package calling

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/picture"
	"github.com/parley-mcp/parley/mcp"
)

func NewRead() *cobra.Command {
	var flags sessionFlags
	cmd := &cobra.Command{
		Use:   "read TARGET URI [flags]",
		Short: "Read a resource",
		Long: `Read a resource and print its contents to stdout. Text ends with a newline, and binary contents are
printed byte for byte. If stdout is a terminal, control characters are replaced and binary contents
are described.

` + questionHelp + "\n\n" + dialing.TargetHelp,
		Example: `
parley read http://127.0.0.1:7777/mcp demo://guide
parley read --config mcp.json files file:///project/logo.png >logo.png`,
		RunE: dialing.WithWords(func(cmd *cobra.Command, target, rest []string) error {
			switch {
			case len(rest) == 0:
				return errors.New("no URI; list the server's resources with parley ls")
			case len(rest) > 1:
				return fmt.Errorf("unexpected argument %q; read has one URI", rest[1])
			}
			return read(cmd, &flags, target, rest[0])
		}),
	}
	flags.add(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Resource, completion.Nothing)
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
	case errors.Is(err, call.ErrResourceNotFound):
		return unknownResource(cmd.Context(), c.Client, uri)
	case err != nil:
		return err
	}
	saved, err := c.saveContents(cmd, result.Contents)
	if err != nil {
		return err
	}
	return output.Show(cmd, result, func(w io.Writer) error {
		return printContents(w, result.Contents, saved, c.images)
	})
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

// printContents prints the contents of a resource. If there are several, each follows a line with its URI.
func printContents(w io.Writer, contents []mcp.ResourceContents, saved savedFiles, images picture.Protocol) error {
	c := newContentWriter(w, saved, images)
	if len(contents) == 1 {
		only := &contents[0]
		switch {
		case only.Blob == nil && only.Text == "":
			return nil
		case only.Blob == nil:
			c.line(only.Text)
		case c.terminal || saved[only] != "":
			c.resource(only)
		default:
			_, err := w.Write(only.Blob)
			return err
		}
	} else {
		for i := range contents {
			c.resource(&contents[i])
		}
	}
	_, err := io.WriteString(w, c.b.String())
	return err
}
