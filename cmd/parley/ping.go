package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

func newPing() *cobra.Command {
	var flags dialFlags
	cmd := &cobra.Command{
		Use:   "ping TARGET [flags]",
		Short: "Check whether a server responds",
		Long:  "Connect to a server, send a ping, and print the server's name, its version, the revision of the\nprotocol and both durations.\n\n" + targetHelp,
		Example: `
parley ping http://127.0.0.1:7777/mcp
parley ping --config mcp.json files`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := onlyTarget(cmd, args)
			if err != nil {
				return err
			}
			return ping(cmd, &flags, target)
		},
	}
	flags.add(cmd)
	completes(cmd, &flags, completeTarget, completeNothing)
	return cmd
}

func ping(cmd *cobra.Command, flags *dialFlags, target []string) error {
	start := time.Now()
	c, err := flags.dial(cmd, target)
	if err != nil {
		return err
	}
	defer release(cmd, c)
	dialled := time.Now()
	if err := c.Ping(cmd.Context()); err != nil {
		return err
	}
	answered := time.Now()
	info := c.Server().Info
	result := struct {
		Name      string       `json:"name"`
		Version   string       `json:"version"`
		Revision  mcp.Revision `json:"revision"`
		Connected float64      `json:"connectedMs"`
		Answered  float64      `json:"answeredMs"`
	}{info.Name, info.Version, c.Revision(), milliseconds(dialled.Sub(start)), milliseconds(answered.Sub(dialled))}
	return show(cmd, result, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, terminal.Line(fmt.Sprintf("%s %s · MCP %s · connected in %v, ping answered in %v",
			info.Name, info.Version, c.Revision(), terminal.Duration(dialled.Sub(start)), terminal.Duration(answered.Sub(dialled)))))
		return err
	})
}

// milliseconds returns a duration in milliseconds, rounded to microseconds.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
