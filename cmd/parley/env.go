package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/transport"
)

// commandHelp is the help about the command after --.
// envFlags are the flags for the environment of the command after --. Each command that has such an argument has them.
type envFlags struct {
	variables []string // NAME or NAME=VALUE
	all       bool
}

func (f *envFlags) add(cmd *cobra.Command) {
	cmd.Flags().VarP((*repeated)(&f.variables), "env", "e", "`variable` of the command, as NAME=VALUE or NAME")
	cmd.Flags().BoolVar(&f.all, "env-all", false, "pass all environment variables to the command after --")
}

// given reports whether the user has set one of the flags.
func (f *envFlags) given() bool { return f.all || len(f.variables) > 0 }

// words returns the flags without the values of variables, which can be secret.
func (f *envFlags) words() (words []string) {
	if f.all {
		words = append(words, "--env-all")
	}
	for _, v := range f.variables {
		name, _, _ := strings.Cut(v, "=")
		words = append(words, "--env", name)
	}
	return words
}

// command returns the options to start the command after --, whose words are not empty.
func (f *envFlags) command(words []string) (transport.CommandOptions, error) {
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
			return options, fmt.Errorf("environment variable %s is not set; set it, or write --env %s=VALUE", name, name)
		}
	}
	return options, nil
}
