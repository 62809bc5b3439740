package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/lock"
	"github.com/parley-mcp/parley/host"
)

// lockPath returns the path of the lock file: that of the flag, or the default. That is the lock file next to one of
// the configuration files, whatever their order is, or, if there is none yet, the path next to the first.
func lockPath(flag string, files *dialing.ConfigFlags) (string, error) {
	switch {
	case len(files.Paths) == 0:
		return "", errors.New("no configuration file; add --config FILE")
	case flag != "":
		return flag, nil
	}
	var found []string
	for _, path := range defaultLocks(files) {
		if exists(path) {
			found = append(found, path)
		}
	}
	switch len(found) {
	case 0:
		return defaultLocks(files)[0], nil
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("found several lock files, %s; choose one with --lock, and it is used for all servers",
		strings.Join(found, " and "))
}

// defaultLocks returns the paths next to the configuration files, one for each directory, whether they exist or not.
func defaultLocks(files *dialing.ConfigFlags) (paths []string) {
	var dirs []os.FileInfo
	for _, file := range files.Paths {
		dir := filepath.Dir(file)
		info, err := os.Stat(dir)
		if slices.ContainsFunc(dirs, func(other os.FileInfo) bool { return err == nil && os.SameFile(other, info) }) {
			continue
		}
		if err == nil {
			dirs = append(dirs, info)
		}
		paths = append(paths, filepath.Join(dir, lock.Name))
	}
	return paths
}

// lockFile is the lock file that parley up checks definitions against.
type lockFile struct {
	path    string
	flags   []string // that name the configuration and the lock file in commands for the user
	current atomic.Pointer[lock.File]
}

// openLock reads the lock file. It returns nil if the default file does not exist.
func openLock(flag string, files *dialing.ConfigFlags) (*lockFile, error) {
	path, err := lockPath(flag, files)
	if err != nil {
		return nil, err
	}
	l := &lockFile{path: path, flags: files.Words()}
	if flag != "" {
		l.flags = append(l.flags, "--lock", flag)
	}
	content, err := lock.Load(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && flag == "":
		return nil, nil
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("lock file %s does not exist; create it with parley lock", path)
	case err != nil:
		return nil, err
	}
	l.current.Store(content)
	return l, nil
}

// prepare reads the file again. The content is used when commit is called.
func (l *lockFile) prepare() (commit func(), err error) {
	content, err := lock.Load(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("lock file %s was removed; restore it, or restart parley to serve without it", l.path)
	}
	return func() { l.current.Store(content) }, err
}

// review returns nil if the lock file has a definition.
func (l *lockFile) review(d host.Definition) error { return l.current.Load().Check(d, l.flags) }
