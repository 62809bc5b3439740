package dialing

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// EnvFlags are the flags for the environment of the command after --. Each command that has such an argument has them.
type EnvFlags struct {
	variables []string // NAME or NAME=VALUE
	all       bool
}

func (f *EnvFlags) Add(cmd *cobra.Command) {
	cmd.Flags().VarP((*program.Repeated)(&f.variables), "env", "e", "`variable` of the command, as NAME=VALUE or NAME")
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

// RootsOf returns the roots of a server; nil if its entry has none.
func RootsOf(s *config.Server, values *config.Values) ([]mcp.Root, error) {
	paths, err := s.RootPaths(values)
	if err != nil || paths == nil {
		return nil, err
	}
	roots := []mcp.Root{}
	for _, path := range paths {
		root, err := RootOf(path)
		if err != nil {
			return nil, fmt.Errorf("roots: %w", err)
		}
		roots = append(roots, root)
	}
	return roots, nil
}
