//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package atomicfile

import (
	"errors"
	"os"
)

// tryLock fails: this operating system has no file locks that Go supports.
func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
