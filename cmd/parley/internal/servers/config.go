package servers

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/policy"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/webhook"
)

func NewConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and show configuration files",
		Long: `Check and show the configuration files of parley up, and print their JSON Schema. parley help configuration
describes the files.`,
		Args: program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigCheck(), newConfigShow(), newConfigSchema())
	return cmd
}

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configuration files",
		Long: `Print the JSON Schema of parley's own form of configuration files. An editor uses it if the file
has this member:

  "$schema": "` + config.SchemaURI + `"`,
		Args: program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Schema)
			return err
		},
	}
}

// errProblems is returned for files with problems, which are printed.
var errProblems = errors.New("the configuration has problems")

func newConfigCheck() *cobra.Command {
	var files dialing.ConfigFlags
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Report the problems of configuration files",
		Long: `Report each problem of configuration files with its file and line. parley neither starts a server
nor asks for a value; the environment variables and secrets that values refer to need not exist.

The exit code is 1 if parley up would not use a file or a part of it. Check files together that are used
together: a rule, webhook or toolset that names a server that is in none of them is a problem.`,
		Example: `
parley config check mcp.json
parley config check .vscode/mcp.json mcp.json --policy policy.json`,
		Args: program.FilesArgs,
		RunE: func(cmd *cobra.Command, paths []string) error {
			files.Paths = paths
			loaded, err := files.Read()
			if loaded == nil {
				return errors.Join(showProblems(cmd, strings.Split(err.Error(), "\n"), nil), failure.Reported(err))
			}
			return printProblems(cmd, loaded, err)
		},
	}
	files.AddPolicy(cmd)
	return cmd
}

// printProblems prints the problems and warnings of files. Unusable is the error with which they were loaded.
func printProblems(cmd *cobra.Command, c *config.Config, unusable error) error {
	problems := problemsOf(c)
	if unusable != nil {
		problems = append(problems, strings.Split(unusable.Error(), "\n")...)
	}
	if err := showProblems(cmd, problems, c.Warnings); err != nil {
		return err
	}
	words := []string{terminal.Count(len(c.Servers), "server")}
	if n := len(c.Toolsets); n > 0 {
		words = append(words, terminal.Count(n, "toolset"))
	}
	words = append(words, terminal.Count(len(problems), "problem"), terminal.Count(len(c.Warnings), "warning"))
	fmt.Fprintln(cmd.ErrOrStderr(), terminal.Line(c.Path()+": "+strings.Join(words, ", ")))
	if len(problems) > 0 {
		return failure.Reported(errProblems)
	}
	return nil
}

// showProblems prints problems and warnings to stdout.
func showProblems(cmd *cobra.Command, problems, warnings []string) error {
	found := struct {
		Problems []string `json:"problems"`
		Warnings []string `json:"warnings"`
	}{append([]string{}, problems...), append([]string{}, warnings...)}
	return output.Text(cmd, found, func(b *strings.Builder) {
		for _, text := range problems {
			b.WriteString(terminal.Line(text) + "\n")
		}
		for _, text := range warnings {
			b.WriteString(terminal.Line(text) + " (warning)\n")
		}
	})
}

// problemsOf returns the reasons why parley up would not use a part of the files, or would not start.
func problemsOf(c *config.Config) (problems []string) {
	for _, p := range c.Problems {
		problems = append(problems, p.Err.Error())
	}
	values := anyValues()
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Disabled {
			continue
		}
		_, err := s.Target(values)
		if err == nil {
			_, err = dialing.RootsOf(s, values)
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: server %q: %v", s.Source, s.Original, err))
		}
	}
	if err := c.Check(); err != nil {
		problems = append(problems, strings.Split(err.Error(), "\n")...)
	}
	for _, p := range c.Policies {
		if _, err := policy.Compile(p); err != nil {
			problems = append(problems, err.Error())
		}
	}
	for i := range c.Hooks {
		h := &c.Hooks[i]
		_, err := webhook.Expand(h, values)
		if strings.Contains(h.URL, "${") { // its value is not known
			_, _, err = h.Expand(values)
		}
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

// anyValues returns values with which every valid reference has one, except for files.
func anyValues() *config.Values {
	v := dialing.PlainValues()
	v.Env = func(string) (string, bool) { return "", true }
	v.Input = func(*config.Input, string) (string, error) { return "", nil }
	v.Secret = func(string, string) (string, error) { return "", nil }
	return v
}
