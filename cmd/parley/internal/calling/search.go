package calling

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
)

func NewSearch() *cobra.Command {
	var files dialing.ConfigFlags
	limit, timeout := 10, statusTimeout
	cmd := &cobra.Command{
		Use:   "search WORDS... [flags]",
		Short: "Search the tools of all your servers",
		Long: `Start or connect to all servers of your configuration, and print the tools whose names, descriptions and
arguments match the words best, each with a command that calls it. A server that cannot be reached is
reported, and the others are searched.`,
		Example: `
parley search weather forecast
parley search --config mcp.json --limit 3 read a file`,
		RunE: func(cmd *cobra.Command, words []string) error {
			switch {
			case len(words) == 0:
				return fmt.Errorf("no WORDS; see %s --help", cmd.CommandPath())
			case limit <= 0:
				return errors.New("--limit must be positive")
			}
			return search(cmd, &files, strings.Join(words, " "), limit, timeout)
		},
	}
	files.Add(cmd)
	cmd.Flags().IntVar(&limit, "limit", limit, "maximum `number` of tools")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "`time` for the servers to start")
	completion.Add(cmd, &files, completion.Nothing)
	return cmd
}

// foundTool is a tool that matches the words.
type foundTool struct {
	Server      string `json:"server"`
	Tool        string `json:"tool"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Example     string `json:"example"` // a command that calls it
}

func search(cmd *cobra.Command, files *dialing.ConfigFlags, query string, limit int, timeout time.Duration) error {
	loaded, err := files.Load(cmd)
	if err != nil {
		return err
	}
	if len(loaded.Servers) == 0 {
		return errors.New("your configuration has no servers; add one with parley add, or with parley import")
	}
	h, failed, err := dialing.StartServers(cmd, files, loaded, timeout, nil)
	if err != nil {
		return err
	}
	for _, p := range loaded.Problems {
		failed[p.Name] = p.Err
	}
	reached := false
	for _, s := range h.Status() {
		reached = reached || s.State.Usable()
		switch {
		case s.Err != nil:
			failed[s.Name] = s.Err
		case !s.State.Usable():
			failed[s.Name] = fmt.Errorf("not ready within %v", timeout)
		}
	}
	found := []*foundTool{}
	for _, t := range h.Search(cmd.Context(), query, limit) {
		d := &t.Definition
		names := append([]string{t.Server, d.Name}, toolargs.Example(d.InputSchema)...)
		line := quoting.OfUser().Command(append([]string{"call"}, files.Words()...), names...)
		found = append(found, &foundTool{t.Server, d.Name, d.Title, d.Description, line})
	}
	_ = h.Close() // a server that does not end well has no effect
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		cmd.PrintErrf("parley: warning: %s: %s\n", terminal.Line(name), terminal.Line(failure.Explain(failed[name])))
	}
	if !reached {
		return failure.Unreachable(errors.New("no server of your configuration can be reached; see parley ls --status"))
	}
	return output.Text(cmd, found, func(b *strings.Builder) {
		if len(found) == 0 {
			cmd.PrintErrln("No tool matches.")
		}
		for i, f := range found {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(b, "%s %s\n", terminal.Line(f.Server), terminal.Line(f.Tool))
			if text, _, _ := strings.Cut(strings.TrimSpace(f.Description), "\n"); text != "" {
				b.WriteString("  " + terminal.Line(text) + "\n")
			}
			fmt.Fprintf(b, "  %s\n", terminal.Verbatim(f.Example))
		}
	})
}
