package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/zalando/go-keyring"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

// repeated is the value of a flag that can be given several times. Pflag writes the default of its own type with a CSV
// encoder, which took a quarter of the time to make the commands.
type repeated []string

func (r *repeated) String() string { return strings.Join(*r, ",") }

func (r *repeated) Set(value string) error {
	*r = append(*r, value)
	return nil
}

func (*repeated) Type() string { return "stringArray" }

// configFlags are the flags for configuration files.
type configFlags struct {
	paths  []string
	policy []string // files that decide about the servers of all files
	inputs []string // ID=VALUE

	revision mcp.Revision // that the server whose target was returned last must have; may be empty
}

// addPolicy adds the flag for the files that decide.
func (f *configFlags) addPolicy(cmd *cobra.Command) {
	cmd.Flags().Var((*repeated)(&f.policy), "policy", "`file` with the policy for the servers of all files (repeatable)")
}

func (f *configFlags) add(cmd *cobra.Command) {
	cmd.Flags().VarP((*repeated)(&f.paths), "config", "c", "configuration `file` with the servers (repeatable)")
	cmd.Flags().Var((*repeated)(&f.inputs), "input", "value of an input of the file, as `ID=VALUE`, or ID='${NAME}' (repeatable)")
}

// read reads the files.
func (f *configFlags) read() (*config.Config, error) {
	workspace, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	files := config.Files{Workspace: workspace, Paths: f.files(), Deciding: f.policy}
	if own, err := userFile(); err == nil {
		files.Deciding = append(slices.Clone(files.Deciding), own)
	}
	return files.Load()
}

// words returns the flags for a command line.
func (f *configFlags) words() (words []string) {
	for _, path := range f.paths {
		words = append(words, "--config", path)
	}
	return words
}

// files returns the paths of the files: those of --config and --policy, or the user's if it exists.
func (f *configFlags) files() []string {
	if len(f.paths) > 0 {
		return slices.Concat(f.paths, f.policy)
	}
	path, err := userFile()
	if err != nil { // without a home directory there is no file
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	return []string{path}
}

// names returns the names of the servers in the configuration files that can be read, and those of connections without
// --config.
func (f *configFlags) names() (names []string) {
	if len(f.paths) == 0 {
		names = connectionNames()
	}
	loaded, _ := f.read()
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

// load loads the files and prints their warnings.
func (f *configFlags) load(cmd *cobra.Command) (*config.Config, error) {
	c, err := f.read()
	if err != nil {
		return nil, err
	}
	for _, w := range c.Warnings {
		cmd.PrintErrln("parley: warning: " + terminal.Line(w))
	}
	return c, nil
}

// find returns a server of the files.
func (f *configFlags) find(cmd *cobra.Command, name string) (*config.Server, error) {
	c, err := f.load(cmd)
	if err != nil {
		return nil, err
	}
	s, err := c.Find(name)
	if err != nil && len(f.paths) == 0 && (len(c.Servers) == 0 || !isName(name)) {
		return nil, invalidTarget(name)
	}
	return s, err
}

// target returns the target of a server in the files.
func (f *configFlags) target(cmd *cobra.Command, name string) (client.Target, error) {
	s, err := f.find(cmd, name)
	if err != nil {
		return nil, err
	}
	values, err := f.values(cmd)
	if err != nil {
		return nil, err
	}
	target, err := s.Target(values)
	if err != nil {
		return nil, fmt.Errorf("%s: server %q: %w", s.Source, name, err)
	}
	f.revision = s.Revision
	return target, nil
}

// values returns the values of references. It asks the user at the terminal, once for each ID, for inputs
// that --input does not set. Without a terminal it uses their defaults.
func (f *configFlags) values(cmd *cobra.Command) (*config.Values, error) {
	v := plainValues()
	set := make(map[string]string)
	for _, word := range f.inputs {
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
		case interactive(cmd):
			value, err = enter(cmd, server, in)
		case in.Default != "":
			value = in.Default
		default:
			err = fmt.Errorf("input %q has no value; add --input %s, or run parley at a terminal", in.ID, quoting.OfUser().Quote(in.ID+"=VALUE"))
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

// plainValues returns the values of all references but inputs.
func plainValues() *config.Values {
	v := &config.Values{Env: os.LookupEnv}
	v.Workspace, _ = os.Getwd()
	v.Home, _ = os.UserHomeDir()
	if credstore.System() != nil {
		v.Secret = keyring.Get
	}
	return v
}

// enter asks the user for an input of a server.
func enter(cmd *cobra.Command, server string, in *config.Input) (value string, err error) {
	screen := &form.Screen{In: cmd.InOrStdin(), Out: cmd.ErrOrStderr()}
	title := cmp.Or(in.Description, in.ID)
	if server != "" { // it belongs to a webhook otherwise
		title = server + ": " + title
	}
	var answered bool
	if len(in.Options) > 0 {
		value, answered, err = screen.Choose(cmd.Context(), terminal.Line(title), in.Options, in.Default)
	} else {
		value, answered, err = screen.Line(cmd.Context(), terminal.Line(title), in.Secret)
	}
	switch {
	case err == nil && !answered: // Ctrl-C, which the form handles instead of the signal handler
		return "", &codeError{exitInterrupted, context.Canceled}
	case value == "":
		value = in.Default
	}
	return value, err
}
