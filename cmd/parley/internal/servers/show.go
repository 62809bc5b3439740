package servers

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

func newConfigShow() *cobra.Command {
	var files dialing.ConfigFlags
	cmd := &cobra.Command{
		Use:   "show FILE...",
		Short: "Show what is used from configuration files",
		Long: `Show the servers, toolsets, policy and webhooks that parley up uses from configuration files, and the
file and line of each.

Secrets are not shown: of arguments only the number, of environment variables and header fields
only the names, of URLs neither the user nor the query.`,
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
			return output.Show(cmd, shownConfig(loaded), func(w io.Writer) error { return printConfig(cmd, w, loaded) })
		},
	}
	files.AddPolicy(cmd)
	return cmd
}

// shownConfig returns a configuration without its secrets, as JSON.
func shownConfig(c *config.Config) any {
	shown := struct {
		Servers  []config.Object `json:"servers"`
		Toolsets []config.Object `json:"toolsets,omitempty"`
		Default  string          `json:"defaultToolset,omitempty"`
		Policies []config.Object `json:"policies,omitempty"`
		Hooks    []config.Object `json:"hooks,omitempty"`
		Problems []string        `json:"problems,omitempty"`
	}{Servers: []config.Object{}, Default: c.DefaultToolset}
	for i := range c.Servers {
		s := &c.Servers[i]
		shown.Servers = append(shown.Servers, append(config.Object{{Name: "name", Value: s.Name},
			{Name: "source", Value: s.Source}}, shownMembers(s)...))
	}
	for i := range c.Toolsets {
		t := &c.Toolsets[i]
		shown.Toolsets = append(shown.Toolsets, append(config.Object{{Name: "name", Value: t.Name},
			{Name: "source", Value: t.Source}, {Name: "path", Value: "/mcp/" + t.Name}}, t.Members()...))
	}
	for _, p := range c.Policies {
		shown.Policies = append(shown.Policies, append(config.Object{{Name: "source", Value: p.Source},
			{Name: "rules", Value: len(p.Rules)}}, policyMembers(p)...))
	}
	for i := range c.Hooks {
		h := &c.Hooks[i]
		shown.Hooks = append(shown.Hooks, append(config.Object{{Name: "source", Value: h.Source},
			{Name: "url", Value: config.WithoutSecrets(h.URL)}}, hookMembers(h)...))
	}
	for _, p := range c.Problems {
		shown.Problems = append(shown.Problems, p.Err.Error())
	}
	return shown
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

// printConfig prints a line for each server, toolset, policy and webhook.
func printConfig(cmd *cobra.Command, out io.Writer, c *config.Config) error {
	var rows [][]string
	row := func(name, source, target string, settings config.Object) {
		rows = append(rows, terminal.Row(name, source, target, inWords(settings)))
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		target := config.WithoutSecrets(s.URL)
		if s.Command != "" {
			target = s.Command
			if n := len(s.Args); n > 0 {
				target += fmt.Sprintf(" (%s)", terminal.Count(n, "argument"))
			}
		}
		row(s.Name, s.Source, target, shownMembers(s).Without("command", "args", "url", "origin"))
	}
	for i := range c.Toolsets {
		t := &c.Toolsets[i]
		settings := t.Members()
		if t.Name == c.DefaultToolset {
			settings = append(settings, config.Member{Name: "default", Value: true})
		}
		row("/mcp/"+t.Name, t.Source, "toolset", settings)
	}
	for _, p := range c.Policies {
		row("policy", p.Source, terminal.Count(len(p.Rules), "rule"), policyMembers(p))
	}
	for i := range c.Hooks {
		h := &c.Hooks[i]
		row("webhook", h.Source, config.WithoutSecrets(h.URL), hookMembers(h))
	}
	if err := terminal.Table(out, terminal.Width(out), []string{"NAME", "SOURCE", "TARGET", "SETTINGS"},
		rows); err != nil {
		return err
	}
	for _, p := range c.Problems {
		cmd.PrintErrln("parley: warning: " + terminal.Line(p.Err.Error()))
	}
	return nil
}

// inWords returns members with their names in the file.
func inWords(members config.Object) string {
	var words []string
	for _, m := range members {
		words = append(words, m.String())
	}
	return strings.Join(words, ", ")
}
