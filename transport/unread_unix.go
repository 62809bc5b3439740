//go:build linux || darwin || freebsd

package transport

import (
	"os"
	"syscall"
	"unsafe"
)

// unreadBytes returns how many bytes a pipe contains, unless the file is closed. The file is the end that is read.
func unreadBytes(pipe *os.File) (n int32, known bool) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = conn.Control(func(fd uintptr) {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, fionread, uintptr(unsafe.Pointer(&n)))
		known = errno == 0
	})
	return n, err == nil && known
}
