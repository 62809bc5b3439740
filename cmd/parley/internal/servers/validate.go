package servers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/serverjson"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

func newRegistryValidate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [FILE] [flags]",
		Short: "Check a server.json file before it is published",
		Long: `Check a server.json file: its form, by the schema 2025-12-11, and the rules of the official registry that need
no network. FILE is server.json if it is not given; - is standard input.

The registry rejects a file with a problem, but not one with a warning. Each one is printed with its line, its
place as a JSON Pointer, and what to do. The exit code is 1 if there are problems.

parley does not check who owns the names, or whether the packages exist.`,
		Example: `
parley registry validate
parley registry validate -o json - <server.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"server.json"}
			}
			path, err := program.OneArgument(cmd, args, "FILE")
			if err != nil {
				return err
			}
			return validateServerJSON(cmd, path)
		},
	}
	completion.Add(cmd, new(dialing.ConfigFlags), completion.Files, completion.Nothing)
	return cmd
}

func validateServerJSON(cmd *cobra.Command, path string) error {
	file, err := readServerJSON(cmd, path)
	if err != nil {
		return err
	}
	findings, err := serverjson.Check(file)
	if err != nil {
		return err
	}
	counts := make(map[serverjson.Level]int)
	for _, f := range findings {
		counts[f.Level]++
	}
	result := struct {
		Valid    bool                 `json:"valid"`
		Findings []serverjson.Finding `json:"findings"`
	}{counts[serverjson.Problem] == 0, append([]serverjson.Finding{}, findings...)}
	err = output.Text(cmd, result, func(b *strings.Builder) {
		for _, f := range findings {
			fmt.Fprintf(b, "%s:%d: %s: %s\n", terminal.Line(path), f.Line, f.Level,
				terminal.Line(strings.TrimPrefix(f.Path+": "+f.Text, ": ")))
			if f.Fix != "" {
				b.WriteString("  → " + terminal.Line(f.Fix) + "\n")
			}
		}
		fmt.Fprintf(b, "%s, %s\n", terminal.Count(counts[serverjson.Problem], "problem"),
			terminal.Count(counts[serverjson.Warning], "warning"))
	})
	if err == nil && !result.Valid {
		err = failure.Reported(errors.New("the file has problems"))
	}
	return err
}

// readServerJSON reads a file, or standard input if the path is -.
func readServerJSON(cmd *cobra.Command, path string) ([]byte, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	return io.ReadAll(io.LimitReader(in, serverjson.MaxFile+1))
}
