//go:build unix

package http1

import "syscall"

const canPeek = true

// isOpen reports whether an idle connection is open, and nothing can be read from it. If it returns false, it may have read a byte,
// so that the connection cannot be used.
func isOpen(fd uintptr) bool {
	var b [1]byte
	_, err := syscall.Read(int(fd), b[:])
	return err == syscall.EAGAIN
}
