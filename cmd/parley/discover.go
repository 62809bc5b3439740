package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/gateway"
)

// defaultDiscoverOver is about 32,000 tokens.
const defaultDiscoverOver = 128 << 10

// discoverFlags are the flags for large catalogues.
type discoverFlags struct {
	mode string
	over int // bytes
}

func (f *discoverFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "discover", "auto", "`when` clients search for tools instead of listing them: auto, always or never")
	cmd.Flags().IntVar(&f.over, "discover-over", defaultDiscoverOver, "maximum size of the definitions of all listed tools, in `bytes`, with --discover auto; a token is about 4 bytes")
}

// apply sets the budget of g, and prints when the list of tools changes because of it.
func (f *discoverFlags) apply(g *gateway.Gateway, status *statusPrinter) error {
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
	g.OnCatalog = func(c gateway.Catalog) {
		if c.Listed != listed {
			listed = c.Listed
			status.catalog(c, f.mode, f.over)
		}
	}
	return nil
}

// catalog prints whether the tools are listed.
func (p *statusPrinter) catalog(c gateway.Catalog, mode string, over int) {
	switch {
	case c.Listed:
		p.note("tools", fmt.Sprintf("listed again: the definitions have %s, the limit is %s", kib(c.Bytes), kib(over)))
	case mode == "always":
		p.note("tools", "not listed (--discover always): clients use search_tools, describe_tool and call_tool")
	default:
		p.note("tools", fmt.Sprintf("not listed: the definitions have %s, the limit is %s (--discover-over); clients use search_tools, describe_tool and call_tool",
			kib(c.Bytes), kib(over)))
	}
}

func kib(bytes int) string { return fmt.Sprintf("%.1f KiB", float64(bytes)/1024) }
