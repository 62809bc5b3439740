//go:build linux || darwin || freebsd

package transport

import (
	"os"
	"syscall"
	"unsafe"
)

// isEmpty reports whether the pipe contains no bytes. The file is the end that is read.
func isEmpty(pipe *os.File) bool {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return false
	}
	empty := false
	err = conn.Control(func(fd uintptr) {
		var unread int32
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, fionread, uintptr(unsafe.Pointer(&unread)))
		empty = errno == 0 && unread == 0
	})
	return err == nil && empty
}
