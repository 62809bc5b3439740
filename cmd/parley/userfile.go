package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/jsonedit"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// userFile returns the path of the user's configuration file, which need not exist.
func userFile() (string, error) {
	dir, err := credstore.Dir()
	return filepath.Join(dir, "config.json"), err
}

// editedFile is the configuration file that a command changes.
type editedFile struct {
	path string // empty: the user's
}

func (f *editedFile) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.path, "config", "c", "", "change this `file` instead of your configuration")
}

// open reads the file, and the servers that it has.
func (f *editedFile) open() (*jsonedit.File, *config.Config, error) {
	path := f.path
	if path == "" {
		var err error
		if path, err = userFile(); err != nil {
			return nil, nil, err
		}
	}
	file, err := jsonedit.Open(path)
	if err != nil {
		return nil, nil, err
	}
	workspace, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	loaded, err := config.Load(workspace, path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, config.ErrNoServers):
		return file, new(config.Config), nil
	case loaded == nil:
		return nil, nil, err
	}
	return file, loaded, nil
}

// interactive reports whether a command can ask the user at the terminal.
func interactive(cmd *cobra.Command) bool {
	return terminal.Is(cmd.InOrStdin()) && terminal.Is(cmd.ErrOrStderr())
}

// confirm asks the user a question, unless yes is set. Without a terminal it returns an error that says what to do.
func confirm(cmd *cobra.Command, yes bool, question string) (bool, error) {
	if yes {
		return true, nil
	}
	if !interactive(cmd) {
		return false, errors.New("nothing was written, because parley cannot ask without a terminal; add --yes")
	}
	screen := &form.Screen{In: cmd.InOrStdin(), Out: cmd.ErrOrStderr()}
	answer, answered, err := screen.Choose(cmd.Context(), question, []string{"Yes", "No"}, "No")
	if err != nil {
		return false, err
	}
	if !answered || answer != "Yes" {
		fmt.Fprintln(cmd.ErrOrStderr(), "Nothing was written.")
		return false, nil
	}
	return true, nil
}

// referenceAdvice says how to store a secret.
func referenceAdvice(name string) string {
	variable := strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(name))
	quote := quoting.OfUser().Quote
	return fmt.Sprintf("write a reference, such as %s or %s, or add --plain", quote("${"+variable+"}"), quote("${keyring:parley/"+name+"}"))
}
