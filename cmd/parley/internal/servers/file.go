// Package servers has the commands for the configuration files: add, rm, import, install, registry and config.
package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/jsonedit"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
)

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
		if path, err = dialing.UserFile(); err != nil {
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

// referenceAdvice says how to store a secret.
func referenceAdvice(name string) string {
	variable := strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(name))
	quote := quoting.OfUser().Quote
	return fmt.Sprintf("write a reference, such as %s or %s, or add --plain", quote("${"+variable+"}"),
		quote("${keyring:parley/"+name+"}"))
}
