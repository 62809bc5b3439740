package calling

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

func NewPing() *cobra.Command {
	var flags dialing.Flags
	cmd := &cobra.Command{
		Use:   "ping TARGET [flags]",
		Short: "Check whether a server responds",
		Long: "Connect to a server, send a ping, and print the server's name, its version, the revision of " +
			"the\nprotocol and both durations.\n\n" + dialing.TargetHelp,
		Example: `
parley ping http://127.0.0.1:7777/mcp
parley ping --config mcp.json files`,
		RunE: dialing.WithTarget(func(cmd *cobra.Command, target []string) error {
			return ping(cmd, &flags, target)
		}),
	}
	flags.Add(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Nothing)
	return cmd
}

func ping(cmd *cobra.Command, flags *dialing.Flags, target []string) error {
	start := time.Now()
	c, err := flags.Dial(cmd, target)
	if err != nil {
		return err
	}
	defer dialing.Release(cmd, c)
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
	return output.Print(cmd, result, "%s\n",
		terminal.Line(fmt.Sprintf("%s %s · MCP %s · connected in %v, ping answered in %v",
			info.Name, info.Version, c.Revision(), terminal.Duration(dialled.Sub(start)),
			terminal.Duration(answered.Sub(dialled)))))
}

// milliseconds returns a duration in milliseconds, rounded to microseconds.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
