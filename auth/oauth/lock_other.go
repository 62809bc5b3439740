//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package oauth

import (
	"errors"
	"os"
)

// tryLock cannot tell here whether somebody else is using the file.
func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
