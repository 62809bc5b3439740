package connection

import (
	"net"
	"syscall"
)

// peerUser returns the user of the process at the other end.
func peerUser(conn *net.UnixConn) (uid uint32, known bool, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	var credentials *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, false, err
	}
	return credentials.Uid, true, nil
}
