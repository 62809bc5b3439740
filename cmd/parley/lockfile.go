package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/parley-mcp/parley/cmd/parley/internal/lock"
	"github.com/parley-mcp/parley/host"
)

// lockPath returns the path of the lock file: that of the flag, or the default, next to the first
// configuration file.
func lockPath(flag string, files *configFlags) string {
	if flag != "" {
		return flag
	}
	return filepath.Join(filepath.Dir(files.paths[0]), lock.Name)
}

// lockFile is the lock file that parley up checks definitions against.
type lockFile struct {
	path    string
	flags   []string // that name the configuration and the lock file in commands for the user
	current atomic.Pointer[lock.File]
}

// openLock reads the lock file. It returns nil if the default file does not exist.
func openLock(flag string, files *configFlags) (*lockFile, error) {
	l := &lockFile{path: lockPath(flag, files), flags: files.words()}
	if flag != "" {
		l.flags = append(l.flags, "--lock", flag)
	}
	err := l.reload()
	if errors.Is(err, os.ErrNotExist) {
		if flag == "" {
			return nil, nil
		}
		return nil, fmt.Errorf("lock file %s does not exist; create it with parley lock", l.path)
	}
	return l, err
}

// reload reads the file again. It keeps the old content if it fails.
func (l *lockFile) reload() error {
	f, err := lock.Load(l.path)
	if err == nil {
		l.current.Store(f)
	}
	return err
}

// review returns nil if the lock file has a definition.
func (l *lockFile) review(d host.Definition) error { return l.current.Load().Check(d, l.flags) }
