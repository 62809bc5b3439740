package transport

import (
	"os"
	"syscall"
)

// pipeSize is the size of the pipe for the messages of a server, in bytes. In a pipe of the usual 64 KiB, a large
// message waits for its reader again and again. The pipes of a user other than root may take 64 MiB in total.
const pipeSize = 256 << 10

// enlarge sets the size of a pipe, unless it is larger or may not be changed. It does nothing to other files.
func enlarge(file *os.File) {
	const (
		setSize = 1031 // F_SETPIPE_SZ
		getSize = 1032 // F_GETPIPE_SZ
	)
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		size, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, getSize, 0)
		if errno == 0 && size < pipeSize {
			_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, setSize, pipeSize)
		}
	})
}

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
			return // the file cannot be polled
		}
		events := make([]syscall.EpollEvent, 1)
		n, _ := syscall.EpollWait(poller, events, 0)
		gone = n > 0
	})
	return err == nil && !gone
}
