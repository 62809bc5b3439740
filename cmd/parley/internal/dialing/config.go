package dialing

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/zalando/go-keyring"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/connection"
	"github.com/parley-mcp/parley/cmd/parley/internal/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

// ConfigFlags are the flags for configuration files.
type ConfigFlags struct {
	Paths  []string
	Policy []string // files that decide about the servers of all files
	Inputs []string // ID=VALUE

	Revision mcp.Revision // that the server whose target was returned last must have; may be empty
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

// Names returns the names of the servers in the configuration files that can be read, and those of connections without
// --config.
func (f *ConfigFlags) Names() (names []string) {
	if len(f.Paths) == 0 {
		names = connection.Names()
	}
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
	if err != nil && len(f.Paths) == 0 && (len(c.Servers) == 0 || !isName(name)) {
		return nil, invalidTarget(name)
	}
	return s, err
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
	f.Revision = s.Revision
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
