package servers

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/host"
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
			shown := newShownConfig(loaded)
			return output.Show(cmd, shown, func(w io.Writer) error { return shown.print(cmd, w) })
		},
	}
	files.AddPolicy(cmd)
	return cmd
}

// shownConfig is a configuration without its secrets.
type shownConfig struct {
	Servers  []shownServer  `json:"servers"`
	Toolsets []shownToolset `json:"toolsets,omitempty"`
	Default  string         `json:"defaultToolset,omitempty"`
	Policies []shownPolicy  `json:"policies,omitempty"`
	Hooks    []shownHook    `json:"hooks,omitempty"`
	Problems []string       `json:"problems,omitempty"`
}

type shownServer struct {
	Name     string          `json:"name"`
	Source   string          `json:"source"` // the file and line
	Disabled bool            `json:"disabled,omitzero"`
	Command  string          `json:"command,omitempty"`
	Args     int             `json:"args,omitzero"` // the number
	Env      []string        `json:"env,omitempty"` // the names
	URL      string          `json:"url,omitempty"`
	Headers  []string        `json:"headers,omitempty"` // the names
	Lazy     bool            `json:"lazy,omitzero"`
	Idle     string          `json:"idle,omitzero"`
	Trusted  bool            `json:"trusted,omitzero"`
	Roots    []string        `json:"roots,omitempty"`
	Sharing  string          `json:"sharing,omitempty"`
	Callers  string          `json:"credentials,omitempty"` // the type
	Limits   *shownLimits    `json:"inputLimits,omitempty"`
	Extended []string        `json:"extensions,omitempty"` // the IDs
	Result   int             `json:"maxResult,omitzero"`
	Prefix   *string         `json:"prefix,omitempty"`
	Tools    *shownSelection `json:"tools,omitempty"`
	Prompts  *shownSelection `json:"prompts,omitempty"`
}

type shownLimits struct {
	PerCall   int   `json:"perCall,omitzero"`
	PerMinute int   `json:"perMinute,omitzero"`
	MaxTokens int64 `json:"maxTokens,omitzero"`
}

type shownSelection struct {
	Only           []string          `json:"only,omitempty"`
	Hide           []string          `json:"hide,omitempty"`
	Rename         map[string]string `json:"rename,omitempty"`
	ReadOnly       bool              `json:"readOnly,omitzero"`
	NonDestructive bool              `json:"nonDestructive,omitzero"`
	Idempotent     bool              `json:"idempotent,omitzero"`
	ClosedWorld    bool              `json:"closedWorld,omitzero"`
	Nothing        bool              `json:"nothing,omitzero"` // only is an empty list
}

type shownToolset struct {
	Name       string             `json:"name"`
	Source     string             `json:"source"`
	Path       string             `json:"path"`
	Servers    []string           `json:"servers,omitempty"`
	Tools      []string           `json:"tools,omitempty"`
	Prompts    []string           `json:"prompts,omitempty"`
	Hide       []string           `json:"hide,omitempty"`
	Scopes     []string           `json:"scopes,omitempty"`
	Principals []config.Principal `json:"principals,omitempty"`
}

type shownPolicy struct {
	Source  string `json:"source"`
	Version string `json:"version"`
	Default string `json:"default"`
	Rules   int    `json:"rules"` // the number
	// Except are the servers of other files, about which the policy does not decide.
	Except []string `json:"except,omitempty"`
}

type shownHook struct {
	Source  string   `json:"source"`
	URL     string   `json:"url"`
	Headers []string `json:"headers,omitempty"` // the names
	On      []string `json:"on"`
	Server  string   `json:"server,omitempty"`
	Tool    string   `json:"tool,omitempty"`
	Except  []string `json:"except,omitempty"` // as of a policy
}

// newShownLimits returns nil if l has the defaults.
func newShownLimits(l host.InputLimits) *shownLimits {
	if l == (host.InputLimits{}) {
		return nil
	}
	shown := shownLimits(l)
	return &shown
}

func idsOf(extensions []host.Extension) (ids []string) {
	for _, e := range extensions {
		ids = append(ids, e.ID)
	}
	return ids
}

func newShownConfig(c *config.Config) *shownConfig {
	shown := &shownConfig{Servers: []shownServer{}, Default: c.DefaultToolset}
	for i := range c.Servers {
		shown.Servers = append(shown.Servers, *newShownServer(&c.Servers[i]))
	}
	for _, t := range c.Toolsets {
		shown.Toolsets = append(shown.Toolsets, shownToolset{
			t.Name, t.Source, "/mcp/" + t.Name, t.Servers, t.Tools, t.Prompts, t.Hide, t.Scopes, t.Principals,
		})
	}
	for _, p := range c.Policies {
		shown.Policies = append(shown.Policies, shownPolicy{p.Source, p.Version, p.Default.String(), len(p.Rules),
			p.Except})
	}
	for i := range c.Hooks {
		h := &c.Hooks[i]
		hook := shownHook{Source: h.Source, URL: config.WithoutSecrets(h.URL), Headers: namesOf(h.Headers),
			Server: h.Server,
			Tool:   h.Tool, Except: h.Except}
		if h.Request {
			hook.On = append(hook.On, "request")
		}
		if h.Response {
			hook.On = append(hook.On, "response")
		}
		shown.Hooks = append(shown.Hooks, hook)
	}
	for _, p := range c.Problems {
		shown.Problems = append(shown.Problems, p.Err.Error())
	}
	return shown
}

func newShownServer(s *config.Server) *shownServer {
	sharing := ""
	switch s.Sharing {
	case host.Shared:
		sharing = "shared"
	case host.PerCaller:
		sharing = "perCaller"
	}
	idle := ""
	if s.Idle > 0 {
		idle = s.Idle.String()
	}
	callers := ""
	if s.Credentials != nil {
		callers = s.Credentials.Type
	}
	return &shownServer{
		Name: s.Name, Source: s.Source, Disabled: s.Disabled,
		Command: s.Command, Args: len(s.Args), Env: namesOf(s.Env), URL: config.WithoutSecrets(s.URL),
		Headers: namesOf(s.Headers),
		Lazy:    s.Lazy, Idle: idle, Trusted: s.Trusted, Roots: s.Roots, Sharing: sharing, Callers: callers,
		Limits: newShownLimits(s.InputLimits), Extended: idsOf(s.Extensions), Result: s.MaxResult, Prefix: s.Prefix,
		Tools: newShownSelection(&s.Tools), Prompts: newShownSelection(&s.Prompts),
	}
}

func newShownSelection(s *host.Selection) *shownSelection {
	if s.Only == nil && s.Hide == nil && s.Rename == nil && !s.ReadOnly && !s.NonDestructive && !s.Idempotent &&
		!s.ClosedWorld {
		return nil
	}
	return &shownSelection{
		s.Only, s.Hide, s.Rename, s.ReadOnly, s.NonDestructive, s.Idempotent, s.ClosedWorld, s.Only != nil &&
			len(s.Only) == 0,
	}
}

func namesOf(pairs []config.Pair) (names []string) {
	for _, p := range pairs {
		names = append(names, p.Name)
	}
	return names
}

// print prints a line for each server and toolset.
func (c *shownConfig) print(cmd *cobra.Command, out io.Writer) error {
	var rows [][]string
	for _, s := range c.Servers {
		target := s.URL
		if s.Command != "" {
			target = s.Command
			if s.Args > 0 {
				target += fmt.Sprintf(" (%s)", terminal.Count(s.Args, "argument"))
			}
		}
		rows = append(rows, []string{s.Name, s.Source, target, strings.Join(s.settings(), ", ")})
	}
	for _, t := range c.Toolsets {
		var w phrases
		w.list("servers", t.Servers)
		w.list("tools", t.Tools)
		w.list("prompts", t.Prompts)
		w.list("hide", t.Hide)
		w.list("scopes", t.Scopes)
		w.when(t.Principals != nil, terminal.Count(len(t.Principals), "principal"))
		w.when(t.Name == c.Default, "default")
		rows = append(rows, []string{t.Path, t.Source, "toolset", strings.Join(w, ", ")})
	}
	for _, p := range c.Policies {
		w := phrases{"default " + p.Default, "version " + p.Version}
		w.list("not for", p.Except)
		rows = append(rows, []string{"policy", p.Source, terminal.Count(p.Rules, "rule"), strings.Join(w, ", ")})
	}
	for _, h := range c.Hooks {
		var w phrases
		w.list("headers", h.Headers)
		w.list("on", h.On)
		w.when(h.Server != "", "server "+h.Server)
		w.when(h.Tool != "", "tool "+h.Tool)
		w.list("not for", h.Except)
		rows = append(rows, []string{"webhook", h.Source, h.URL, strings.Join(w, ", ")})
	}
	for i := range rows {
		for j := range rows[i] {
			rows[i][j] = terminal.Line(rows[i][j])
		}
	}
	if err := terminal.Table(out, terminal.Width(out), []string{"NAME", "SOURCE", "TARGET", "SETTINGS"},
		rows); err != nil {
		return err
	}
	for _, p := range c.Problems {
		cmd.PrintErrln("parley: warning: " + terminal.Line(p))
	}
	return nil
}

// phrases describe settings.
type phrases []string

// when appends a phrase if it applies.
func (p *phrases) when(applies bool, phrase string) {
	if applies {
		*p = append(*p, phrase)
	}
}

// list appends a name with values, if there are any.
func (p *phrases) list(name string, values []string) {
	p.when(len(values) > 0, name+" "+strings.Join(values, " "))
}

// settings returns the settings of a server in words.
func (s *shownServer) settings() (w phrases) {
	w.when(s.Disabled, "disabled")
	w.when(s.Lazy, "lazy")
	w.when(s.Idle != "", "idle "+s.Idle)
	w.list("env", s.Env)
	w.list("headers", s.Headers)
	w.when(s.Trusted, "trusted")
	w.list("roots", s.Roots)
	w.when(s.Sharing != "", "sharing "+s.Sharing)
	w.when(s.Callers != "", "credentials "+s.Callers)
	w.list("extensions", s.Extended)
	w.when(s.Result > 0, fmt.Sprintf("results of at most %d bytes", s.Result))
	if l := s.Limits; l != nil {
		for _, limit := range []struct {
			name string
			n    int64
		}{{"requests per call", int64(l.PerCall)}, {"requests per minute", int64(l.PerMinute)},
			{"tokens", l.MaxTokens}} {
			w.when(limit.n > 0, fmt.Sprintf("at most %d %s", limit.n, limit.name))
			w.when(limit.n < 0, "no limit of "+limit.name)
		}
	}
	if s.Prefix != nil {
		w = append(w, fmt.Sprintf("prefix %q", *s.Prefix))
	}
	s.Tools.describe(&w, "tools ")
	s.Prompts.describe(&w, "prompts ")
	return w
}

// describe appends phrases for a selection of tools or prompts.
func (s *shownSelection) describe(w *phrases, what string) {
	if s == nil {
		return
	}
	w.list(what+"only", s.Only)
	w.list(what+"hide", s.Hide)
	var renamed []string
	for _, name := range slices.Sorted(maps.Keys(s.Rename)) {
		renamed = append(renamed, name+"="+s.Rename[name])
	}
	w.list(what+"renamed", renamed)
	w.when(s.Nothing, what+"none")
	w.when(s.ReadOnly, what+"read-only")
	w.when(s.NonDestructive, what+"not destructive")
	w.when(s.Idempotent, what+"idempotent")
	w.when(s.ClosedWorld, what+"closed world")
}
