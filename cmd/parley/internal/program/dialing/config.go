package dialing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/zalando/go-keyring"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// ConfigFlags are the flags for configuration files.
type ConfigFlags struct {
	Paths  []string
	Policy []string // files that decide about the servers of all files
	Inputs []string // ID=VALUE

	// Of the server whose target was returned last.
	Revision mcp.Revision // that it must have; may be empty
	Login    config.LoginSettings
}

// AddPolicy adds the flag for the files that decide.
func (f *ConfigFlags) AddPolicy(cmd *cobra.Command) {
	cmd.Flags().Var((*program.Repeated)(&f.Policy), "policy",
		"`file` with the policy for the servers of all files (repeatable)")
}

func (f *ConfigFlags) Add(cmd *cobra.Command) {
	cmd.Flags().VarP((*program.Repeated)(&f.Paths), "config", "c", "configuration `file` with the servers (repeatable)")
	cmd.Flags().Var((*program.Repeated)(&f.Inputs), "input",
		"value of an input of the file, as `ID=VALUE`, or ID='${NAME}' (repeatable)")
}

// Read reads the files.
func (f *ConfigFlags) Read() (*config.Config, error) {
	workspace, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	files := config.Files{Workspace: workspace, Paths: f.Files(), Deciding: f.Policy}
	if own, err := UserFile(); err == nil {
		files.Deciding = append(slices.Clone(files.Deciding), own)
	}
	return files.Load()
}

// Words returns the flags for a command line.
func (f *ConfigFlags) Words() (words []string) {
	for _, path := range f.Paths {
		words = append(words, "--config", path)
	}
	return words
}

// Files returns the paths of the files: those of --config and --policy, or the user's if it exists.
func (f *ConfigFlags) Files() []string {
	if len(f.Paths) > 0 {
		return slices.Concat(f.Paths, f.Policy)
	}
	path, err := UserFile()
	if err != nil { // without a home directory there is no file
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	return []string{path}
}

// Names returns the names of the servers in the configuration files that can be read.
func (f *ConfigFlags) Names() (names []string) {
	loaded, _ := f.Read()
	if loaded == nil {
		return names
	}
	for i := range loaded.Servers {
		if name := loaded.Servers[i].Original; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// CallerHeaders returns a function that returns the names of the headers with keys of callers in the files. Files that
// cannot be read have none. The function reads the files once.
func (f *ConfigFlags) CallerHeaders() func() []string {
	return sync.OnceValue(func() []string {
		loaded, _ := f.Read()
		if loaded == nil {
			return nil
		}
		return loaded.CallerHeaders()
	})
}

// Load loads the files and prints their warnings.
func (f *ConfigFlags) Load(cmd *cobra.Command) (*config.Config, error) {
	c, err := f.Read()
	if err != nil {
		return nil, err
	}
	for _, w := range c.Warnings {
		cmd.PrintErrln("parley: warning: " + terminal.Line(w))
	}
	return c, nil
}

// Find returns a server of the files.
func (f *ConfigFlags) Find(cmd *cobra.Command, name string) (*config.Server, error) {
	c, err := f.Load(cmd)
	if err != nil {
		return nil, err
	}
	s, err := c.Find(name)
	if err == nil || slices.ContainsFunc(c.Problems, func(p config.Problem) bool { return p.Name == name }) {
		return s, err
	}
	names := f.Names()
	switch advice, near := CommandAdvice(cmd, name), terminal.Nearest(name, names); {
	case near != "" && near != name && isName(name):
		return nil, fmt.Errorf("unknown server %q; did you mean %s?", name, quoting.OfUser().Quote(near))
	case advice != "":
		return nil, fmt.Errorf("%q is a program, not the name of a server; %s", name, advice)
	case len(f.Paths) == 0 && (len(c.Servers) == 0 || !isName(name)):
		return nil, invalidTarget(name)
	}
	return nil, err
}

// Target returns the target of a server in the files.
func (f *ConfigFlags) Target(cmd *cobra.Command, name string) (client.Target, error) {
	s, err := f.Find(cmd, name)
	if err != nil {
		return nil, err
	}
	values, err := f.Values(cmd)
	if err != nil {
		return nil, err
	}
	target, err := s.Target(values)
	if err != nil {
		return nil, fmt.Errorf("%s: server %q: %w", s.Source, name, err)
	}
	f.Revision, f.Login = s.Revision, s.LoginSettings
	return target, nil
}

// Values returns the values of references. It asks the user at the terminal, once for each ID, for inputs
// that --input does not set. Without a terminal it uses their defaults.
func (f *ConfigFlags) Values(cmd *cobra.Command) (*config.Values, error) {
	v := PlainValues()
	set := make(map[string]string)
	for _, word := range f.Inputs {
		id, text, ok := strings.Cut(word, "=")
		if !ok || id == "" {
			return nil, errors.New("--input must be ID=VALUE")
		}
		value, err := v.Expand(text)
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", id, err)
		}
		set[id] = value
	}
	entered := make(map[string]string)
	v.Input = func(in *config.Input, server string) (value string, err error) {
		value, known := set[in.ID]
		if !known {
			value, known = entered[in.ID]
		}
		switch {
		case known:
		case form.Interactive(cmd):
			value, err = Enter(cmd, server, in)
		case in.Default != "":
			value = in.Default
		default:
			err = fmt.Errorf("input %q has no value; add --input %s, or run parley at a terminal", in.ID,
				quoting.OfUser().Quote(in.ID+"=VALUE"))
		}
		if err != nil {
			return "", err
		}
		if len(in.Options) > 0 && !slices.Contains(in.Options, value) {
			return "", fmt.Errorf("input %q must be one of %s", in.ID, strings.Join(in.Options, ", "))
		}
		entered[in.ID] = value
		return value, nil
	}
	return v, nil
}

// AddLoginFlags adds the flags for the settings of a login.
func AddLoginFlags(cmd *cobra.Command, to *config.LoginSettings) {
	cmd.Flags().BoolVar(&to.NoResource, "no-resource", false,
		"omit the OAuth parameter resource, for an authorization server that rejects it")
	cmd.Flags().BoolVar(&to.AssumePKCE, "assume-pkce", false,
		"log in although the metadata of the authorization server does not list S256")
}

// LoginSettingsOf returns the settings of logins to the server at a URL in the user's configuration file. A file that
// cannot be read has none.
func LoginSettingsOf(url string) (found config.LoginSettings) {
	loaded, err := new(ConfigFlags).Read()
	if err != nil {
		return found
	}
	values := PlainValues()
	for i := range loaded.Servers {
		s := &loaded.Servers[i]
		if at, err := values.Expand(s.URL); s.URL == url || err == nil && at == url {
			found.NoResource, found.AssumePKCE = found.NoResource || s.NoResource, found.AssumePKCE || s.AssumePKCE
		}
	}
	return found
}

// PlainValues returns the values of all references but inputs.
func PlainValues() *config.Values {
	v := &config.Values{Env: os.LookupEnv}
	v.Workspace, _ = os.Getwd()
	v.Home, _ = os.UserHomeDir()
	if credstore.System() != nil {
		v.Secret = keyring.Get
	}
	return v
}

// Enter asks the user for an input of a server.
func Enter(cmd *cobra.Command, server string, in *config.Input) (value string, err error) {
	screen := form.ScreenOf(cmd)
	title := cmp.Or(in.Description, in.ID)
	if server != "" { // it belongs to a webhook otherwise
		title = server + ": " + title
	}
	if len(in.Options) > 0 {
		value, err = screen.Choose(cmd.Context(), terminal.Line(title), in.Options, in.Default)
	} else {
		value, err = screen.Line(cmd.Context(), terminal.Line(title), in.Secret)
	}
	return cmp.Or(value, in.Default), err
}

// UserFile returns the path of the user's configuration file, which need not exist.
func UserFile() (string, error) {
	dir, err := credstore.Dir()
	return filepath.Join(dir, "config.json"), err
}

func (f *ConfigFlags) Parts() (*ConfigFlags, *Flags) { return f, nil }

// EnvFlags are the flags for the environment of the command after --. Each command that has such an argument has them.
type EnvFlags struct {
	variables []string // NAME or NAME=VALUE
	all       bool
}

func (f *EnvFlags) Add(cmd *cobra.Command) {
	cmd.Flags().VarP((*program.Repeated)(&f.variables), "env", "e",
		"pass the environment `variable` NAME or NAME=VALUE (repeatable)")
	cmd.Flags().BoolVar(&f.all, "env-all", false, "pass all environment variables to the command after --")
}

// Given reports whether the user has set one of the flags.
func (f *EnvFlags) Given() bool { return f.all || len(f.variables) > 0 }

// Words returns the flags without the values of variables, which can be secret.
func (f *EnvFlags) Words() (words []string) {
	if f.all {
		words = append(words, "--env-all")
	}
	for _, v := range f.variables {
		name, _, _ := strings.Cut(v, "=")
		words = append(words, "--env", name)
	}
	return words
}

// Command returns the options to start the command after --, whose words are not empty.
func (f *EnvFlags) Command(words []string) (transport.CommandOptions, error) {
	options := transport.CommandOptions{Path: words[0], Args: words[1:], InheritEnv: f.all}
	for _, v := range f.variables {
		name, _, hasValue := strings.Cut(v, "=")
		value, isSet := os.LookupEnv(name)
		switch {
		case name == "":
			return options, fmt.Errorf("--env must be NAME or NAME=VALUE")
		case hasValue:
			options.Env = append(options.Env, v)
		case isSet:
			options.Env = append(options.Env, name+"="+value)
		default:
			return options, fmt.Errorf("environment variable %s is not set; set it, or write --env %s=VALUE", name,
				name)
		}
	}
	return options, nil
}

// OfferRoots lets the server list the directories as roots.
func OfferRoots(d *client.Dialer, dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	var roots []mcp.Root
	for _, dir := range dirs {
		root, err := RootOf(dir)
		if err != nil {
			return fmt.Errorf("--root: %w", err)
		}
		roots = append(roots, root)
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) { return roots, nil }
	return nil
}

// RootOf returns the root of a directory.
func RootOf(dir string) (mcp.Root, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return mcp.Root{}, err
	}
	switch info, err := os.Stat(path); {
	case err != nil:
		return mcp.Root{}, err
	case !info.IsDir():
		return mcp.Root{}, fmt.Errorf("%s must be a directory", path)
	}
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a path with a drive letter
	}
	return mcp.Root{URI: (&url.URL{Scheme: "file", Path: slashed}).String(), Name: filepath.Base(path)}, nil
}

// SettingsOf returns the configuration of a server for a host, with its target and its roots.
func SettingsOf(s *config.Server, values *config.Values) (*host.ServerConfig, error) {
	target, err := s.Target(values)
	if err != nil {
		return nil, err
	}
	paths, err := s.RootPaths(values)
	if err != nil {
		return nil, err
	}
	settings := s.Settings()
	settings.Target = target
	if paths != nil { // the entry has roots, if only none
		settings.Roots = []mcp.Root{}
	}
	for _, path := range paths {
		root, err := RootOf(path)
		if err != nil {
			return nil, fmt.Errorf("roots: %w", err)
		}
		settings.Roots = append(settings.Roots, root)
	}
	return settings, nil
}

// StartServers starts the enabled servers of files, and waits until each is ready or has failed. The caller closes the
// host. failed has the errors of servers that cannot be started, for example because a variable is missing. review is
// that of the host; it can be nil.
func StartServers(cmd *cobra.Command, files *ConfigFlags, loaded *config.Config, timeout time.Duration,
	review func(host.Definition) error) (h *host.Host, failed map[string]error, err error) {
	if timeout <= 0 {
		return nil, nil, errors.New("--timeout must be positive")
	}
	values, err := files.Values(cmd)
	if err != nil {
		return nil, nil, err
	}
	failed = make(map[string]error)
	var servers []host.ServerConfig
	var targets []client.Target
	flags := make(credstore.LoginFlags)
	for i := range loaded.Servers {
		s := &loaded.Servers[i]
		if s.Disabled {
			continue
		}
		settings, err := SettingsOf(s, values)
		if errors.Is(err, form.ErrInterrupted) { // the user has cancelled the question for an input
			return nil, nil, err
		}
		if err != nil {
			failed[s.Name] = err
			continue
		}
		settings.Lazy, settings.Idle = false, 0
		settings.StartTimeout = min(cmp.Or(settings.StartTimeout, timeout), timeout)
		servers, targets = append(servers, *settings), append(targets, settings.Target)
		if at, ok := settings.Target.(*client.HTTPTarget); ok {
			flags[at.URL] = s.LoginSettings.Flags()
		}
	}
	auth := new(credstore.Authorizer)
	if err := auth.SetTargets(cmd.Context(), flags, targets...); err != nil {
		return nil, nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	h = &host.Host{
		Servers: servers, Logger: quiet, Review: review,
		Dialer: client.Dialer{Name: "parley", Version: program.Version(), Auth: auth, Logger: quiet},
	}
	if err := h.Start(); err != nil {
		return nil, nil, err
	}
	WaitReady(cmd, h, timeout+endTime)
	if ctx := cmd.Context(); ctx.Err() != nil {
		return nil, nil, errors.Join(context.Cause(ctx), h.Close())
	}
	return h, failed, nil
}

// endTime is how long [StartServers] waits for the errors of servers that were not ready in time. Their programs end
// first.
const endTime = 10 * time.Second

// WaitReady waits until no server is starting, but not longer than timeout. At a terminal it shows for which servers it
// waits. The status of the servers has the errors.
func WaitReady(cmd *cobra.Command, h *host.Host, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	all := h.Status()
	if len(all) == 0 || !terminal.Is(cmd.ErrOrStderr()) {
		_ = h.WaitReady(ctx)
		return
	}
	progress := terminal.NewProgress(cmd.ErrOrStderr(), "")
	defer progress.Done()
	for range h.Watch(ctx) {
		var starting []string
		for _, s := range h.Status() {
			if s.State == host.Starting {
				starting = append(starting, s.Name)
			}
		}
		if len(starting) == 0 {
			return
		}
		progress.Set(float64(len(all)-len(starting)), float64(len(all)), "waiting for "+strings.Join(starting, ", "))
	}
}
