// Package serve implements the commands that serve: up, serve, bridge, lock, key and ready.
package serve

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/gateway"
)

// upFlags are the flags of parley up.
type upFlags struct {
	endpoint endpoint.Flags
	dirs     dirFlag
	files    dialing.ConfigFlags
	discover discoverFlags
	guard    guardFlags

	stdio      bool
	toolset    string
	maxName    int
	maxMessage int
	verbose    bool
}

func NewUp() *cobra.Command {
	var flags upFlags
	cmd := &cobra.Command{
		Use:   "up [flags]",
		Short: "Serve all servers of a configuration file at one endpoint",
		Long: `Start or connect to the servers of a configuration file, and serve all their tools, resources and prompts at
one endpoint. Without --config and --dir, serve demo tools. parley help configuration describes the file.`,
		Example: `
parley up
parley up --config mcp.json --dir docs
parley up --config mcp.json --auth issuer=https://login.example.com
parley up --config mcp.json --stdio`,
		Args: program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.endpoint.Apply(cmd, flags.stdio, "remove it or --stdio"); err != nil {
				return err
			}
			if len(flags.files.Paths) > 0 {
				return up(cmd, &flags)
			}
			if err := checkWithoutConfig(cmd); err != nil {
				return err
			}
			return serveWithoutConfig(cmd, &flags.endpoint, &flags.dirs)
		},
	}
	flags.endpoint.Add(cmd)
	flags.endpoint.Admin.AddRequire(cmd)
	flags.dirs.add(cmd)
	flags.files.Add(cmd)
	flags.files.AddPolicy(cmd)
	flags.discover.add(cmd)
	flags.guard.add(cmd)
	cmd.Flags().BoolVar(&flags.stdio, "stdio", false, "serve standard input and output instead of HTTP")
	cmd.Flags().StringVar(&flags.toolset, "toolset", "", "serve the toolset with this `name` instead of the default")
	cmd.Flags().IntVar(&flags.maxName, "max-name", 0,
		"maximum `length` of the names of tools, 32 to 128 (default 128)")
	cmd.Flags().IntVar(&flags.maxMessage, "max-message", 0,
		"maximum size of a message from a server in `bytes` (default 16777216)")
	cmd.Flags().BoolVarP(&flags.verbose, "verbose", "v", false, "print log messages, and the stderr of servers")
	return cmd
}

// checkWithoutConfig returns an error if a flag is set that has an effect only on the servers of configuration files.
func checkWithoutConfig(cmd *cobra.Command) error {
	for _, name := range []string{"lock", "audit", "audit-values", "audit-required", "discover", "discover-over",
		"input",
		"max-message", "max-name", "policy", "require-ready", "toolset"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s requires the servers of a configuration file; add --config FILE", name)
		}
	}
	return nil
}

// defaultDiscoverOver is about 32,000 tokens.
const defaultDiscoverOver = 128 << 10

// discoverFlags are the flags for large catalogues.
type discoverFlags struct {
	mode string
	over int // bytes
}

func (f *discoverFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "discover", "auto",
		"`when` clients search for tools instead of listing them: auto, always or never")
	cmd.Flags().IntVar(&f.over, "discover-over", defaultDiscoverOver,
		"maximum size of the definitions of all listed tools, in `bytes`, with --discover auto; a token is about 4 "+
			"bytes")
}

// apply sets the budget of g, and prints when the list of tools changes because of it.
func (f *discoverFlags) apply(g *gateway.Gateway, status *endpoint.Status) error {
	switch f.mode {
	case "auto":
		if f.over <= 0 {
			return errors.New("--discover-over must be greater than 0; use --discover always or never")
		}
		g.ListBudget = f.over
	case "always":
		g.ListBudget = -1
	case "never":
	default:
		return fmt.Errorf("--discover must be auto, always or never, got %q", f.mode)
	}
	listed := true
	g.OnSize = func(c gateway.Size) {
		if c.Listed != listed {
			listed = c.Listed
			printSize(status, c, f.mode, f.over)
		}
	}
	return nil
}

// printSize prints whether the tools are listed.
func printSize(p *endpoint.Status, c gateway.Size, mode string, over int) {
	switch {
	case c.Listed:
		p.Note("tools", fmt.Sprintf("listed again: the definitions have %s, the limit is %s", kib(c.Bytes), kib(over)))
	case mode == "always":
		p.Note("tools", "not listed (--discover always): clients use search_tools, describe_tool and call_tool")
	default:
		p.Note("tools",
			fmt.Sprintf("not listed: the definitions have %s, the limit is %s (--discover-over); clients use "+
				"search_tools, describe_tool and call_tool",
				kib(c.Bytes), kib(over)))
	}
}

func kib(bytes int) string { return fmt.Sprintf("%.1f KiB", float64(bytes)/1024) }
