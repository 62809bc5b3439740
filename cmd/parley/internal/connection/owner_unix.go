//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package connection

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
)

// checkOwner returns an error if a directory is another user's, or if other users can access it.
func checkOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && int(stat.Uid) != os.Getuid():
		return fmt.Errorf("the directory %s must be yours; set PARLEY_RUNTIME_DIR to another directory", path)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("the directory %s must be accessible by you only; run: chmod 700 %s", path,
			quoting.OfUser().Quote(path))
	}
	return nil
}

// lock locks a directory. The lock ends with the process at the latest.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	timeout, poll := time.NewTimer(dialTimeout), time.NewTicker(10*time.Millisecond)
	defer timeout.Stop()
	defer poll.Stop()
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { dir.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			dir.Close()
			return nil, err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			dir.Close()
			return nil, context.Cause(ctx)
		case <-timeout.C:
			dir.Close()
			return nil, fmt.Errorf("cannot lock %s: another process has the lock for %v", path, dialTimeout)
		}
	}
}
