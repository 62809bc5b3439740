package atomicfile

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

const (
	lockExclusive       = 2 // LOCKFILE_EXCLUSIVE_LOCK
	lockFailImmediately = 1 // LOCKFILE_FAIL_IMMEDIATELY
	errLockViolation    = syscall.Errno(33)
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

// tryLock locks a file, and reports whether it did: another process may hold the lock.
func tryLock(f *os.File) (bool, error) {
	var at syscall.Overlapped
	ok, _, err := lockFileEx.Call(f.Fd(), lockExclusive|lockFailImmediately, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	if ok != 0 {
		return true, nil
	}
	if errors.Is(err, errLockViolation) || errors.Is(err, syscall.ERROR_IO_PENDING) {
		return false, nil
	}
	return false, err
}
