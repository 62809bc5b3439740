package servers

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/policy"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
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
		Long: `Print the JSON Schema of parley's own configuration files. An editor uses it if the file contains this field:

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

The exit code is 1 if parley up would not use a file or a part of it. Check all files that you use
together in one command: a rule, webhook or toolset may only name a server of one of the files.`,
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
	if output.Of(cmd) == output.Table {
		fmt.Fprintln(cmd.ErrOrStderr(), terminal.Line(c.Path()+": "+strings.Join(words, ", ")))
	}
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
		_, err := dialing.SettingsOf(s, values)
		if err == nil {
			err = failure.CheckCommand(s.Command)
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
		_, err := policy.ExpandHook(h, values)
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

func newConfigShow() *cobra.Command {
	var files dialing.ConfigFlags
	cmd := &cobra.Command{
		Use:   "show FILE...",
		Short: "Show what parley up uses from configuration files",
		Long: `Show the servers, toolsets, policy and webhooks that parley up uses, each with its file and line.

It hides whatever could be a secret: the values of arguments, environment variables and headers, and the user and the
query of a URL.`,
		Example: `
parley config show mcp.json
parley config show -o json ~/.cursor/mcp.json mcp.json`,
		Args: program.FilesArgs,
		RunE: func(cmd *cobra.Command, paths []string) error {
			files.Paths = paths
			loaded, err := files.Read()
			if err == nil {
				err = loaded.Check()
			}
			if err != nil {
				return err
			}
			shown, rows := shownConfig(loaded)
			return output.Show(cmd, shown, func(w io.Writer) error {
				if err := terminal.Table(w, terminal.Width(w), []string{"NAME", "SOURCE", "TARGET", "SETTINGS"},
					rows); err != nil {
					return err
				}
				for _, p := range loaded.Problems {
					cmd.PrintErrln("parley: warning: " + terminal.Line(p.Err.Error()))
				}
				return nil
			})
		},
	}
	files.AddPolicy(cmd)
	return cmd
}

// shownConfig returns a configuration without its secrets as JSON, and as the rows of a table: one for each server,
// toolset, policy and webhook.
func shownConfig(c *config.Config) (object any, rows [][]string) {
	shown := struct {
		Servers  []config.Object `json:"servers"`
		Toolsets []config.Object `json:"toolsets,omitempty"`
		Default  string          `json:"defaultToolset,omitempty"`
		Policies []config.Object `json:"policies,omitempty"`
		Hooks    []config.Object `json:"hooks,omitempty"`
		Problems []string        `json:"problems,omitempty"`
	}{Servers: []config.Object{}, Default: c.DefaultToolset}
	row := func(name, source, target string, settings config.Object) {
		rows = append(rows, terminal.Row(name, source, target, inWords(settings)))
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		members, target := shownMembers(s), config.WithoutSecrets(s.URL)
		if s.Command != "" {
			target = s.Command
			if n := len(s.Args); n > 0 {
				target += fmt.Sprintf(" (%s)", terminal.Count(n, "argument"))
			}
		}
		row(s.Name, s.Source, target, members.Without("command", "args", "url", "origin"))
		shown.Servers = append(shown.Servers, append(config.Object{{Name: "name", Value: s.Name},
			{Name: "source", Value: s.Source}}, members...))
	}
	for i := range c.Toolsets {
		t := &c.Toolsets[i]
		path, settings := "/mcp/"+t.Name, t.Members()
		shown.Toolsets = append(shown.Toolsets, append(config.Object{{Name: "name", Value: t.Name},
			{Name: "source", Value: t.Source}, {Name: "path", Value: path}}, settings...))
		if t.Name == c.DefaultToolset {
			settings = append(settings, config.Member{Name: "default", Value: true})
		}
		row(path, t.Source, "toolset", settings)
	}
	for _, p := range c.Policies {
		row("policy", p.Source, terminal.Count(len(p.Rules), "rule"), policyMembers(p))
		shown.Policies = append(shown.Policies, append(config.Object{{Name: "source", Value: p.Source},
			{Name: "rules", Value: len(p.Rules)}}, policyMembers(p)...))
	}
	for i := range c.Hooks {
		h := &c.Hooks[i]
		url := config.WithoutSecrets(h.URL)
		row("webhook", h.Source, url, hookMembers(h))
		shown.Hooks = append(shown.Hooks, append(config.Object{{Name: "source", Value: h.Source},
			{Name: "url", Value: url}}, hookMembers(h)...))
	}
	for _, p := range c.Problems {
		shown.Problems = append(shown.Problems, p.Err.Error())
	}
	return shown, rows
}

// shownMembers returns the members of the entry of a server without its secrets: of arguments only the number, of
// variables and header fields only the names.
func shownMembers(s *config.Server) config.Object {
	members := s.Members()
	if s.Credentials != nil {
		members = append(members, config.Member{Name: "credentials", Value: s.Credentials.Type})
	}
	for i, m := range members {
		switch m.Name {
		case "args":
			members[i].Value = len(s.Args)
		case "env":
			members[i].Value = namesOf(s.Env)
		case "headers":
			members[i].Value = namesOf(s.Headers)
		case "url":
			members[i].Value = config.WithoutSecrets(s.URL)
		case "extensions":
			var ids []string
			for _, e := range s.Extensions {
				ids = append(ids, e.ID)
			}
			members[i].Value = ids
		}
	}
	return members
}

func policyMembers(p *config.Policy) config.Object {
	members := config.Object{{Name: "default", Value: p.Default.String()}, {Name: "version", Value: p.Version}}
	if len(p.Except) > 0 {
		members = append(members, config.Member{Name: "except", Value: p.Except})
	}
	return members
}

func hookMembers(h *config.Hook) (members config.Object) {
	var on []string
	if h.Request {
		on = append(on, "request")
	}
	if h.Response {
		on = append(on, "response")
	}
	add := func(name string, value any, set bool) {
		if set {
			members = append(members, config.Member{Name: name, Value: value})
		}
	}
	add("headers", namesOf(h.Headers), len(h.Headers) > 0)
	add("on", on, true)
	add("server", h.Server, h.Server != "")
	add("tool", h.Tool, h.Tool != "")
	add("except", h.Except, len(h.Except) > 0)
	return members
}

func namesOf(pairs []config.Pair) (names []string) {
	for _, p := range pairs {
		names = append(names, p.Name)
	}
	return names
}

// inWords returns members with their names in the file.
func inWords(members config.Object) string {
	var words []string
	for _, m := range members {
		words = append(words, m.String())
	}
	return strings.Join(words, ", ")
}
