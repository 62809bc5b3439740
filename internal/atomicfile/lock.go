package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"
)

// Intervals between attempts to lock a file.
const (
	minLockWait = 2 * time.Millisecond
	maxLockWait = 100 * time.Millisecond
)

// Lock waits until no other process and no other goroutine holds the lock at path, which is an empty file. The
// operating system releases the lock when the process ends. The directory must exist.
//
// The file is removed with the lock, except on Windows, where that fails while another process waits. Therefore a
// process that has locked the file checks that the file is still the one at path.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	for wait := minLockWait; ; wait = min(2*wait, maxLockWait) {
		file, err := tryLockAt(path)
		if err != nil {
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		if file != nil {
			return func() {
				if runtime.GOOS != "windows" {
					_ = os.Remove(path) // while it is locked
				}
				file.Close()
			}, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// tryLockAt returns the locked file, or nil if another process holds the lock.
func tryLockAt(path string) (locked *os.File, err error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() { // a link could create a file elsewhere
		return nil, errors.New("it must be a regular file; remove it")
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if locked == nil {
			file.Close()
		}
	}()
	if ok, err := tryLock(file); !ok || err != nil {
		return nil, err
	}
	own, err := file.Stat()
	if err != nil {
		return nil, err
	}
	current, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the process that held the lock has removed the file
		return nil, nil
	case err != nil:
		return nil, err
	case !os.SameFile(own, current):
		return nil, nil
	}
	return file, nil
}
