package transport

import (
	"os"
	"syscall"
)

// isRead reports whether another process can still read what is written to a pipe or socket. It is true for all other
// files.
func isRead(file *os.File) bool {
	conn, err := file.SyscallConn()
	if err != nil {
		return false // the file is closed
	}
	poller, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return true
	}
	defer syscall.Close(poller)
	gone := false
	err = conn.Control(func(fd uintptr) {
		// EPOLLERR and EPOLLHUP are always reported.
		if syscall.EpollCtl(poller, syscall.EPOLL_CTL_ADD, int(fd), &syscall.EpollEvent{}) != nil {
			return // a file that cannot be polled
		}
		events := make([]syscall.EpollEvent, 1)
		n, _ := syscall.EpollWait(poller, events, 0)
		gone = n > 0
	})
	return err == nil && !gone
}
