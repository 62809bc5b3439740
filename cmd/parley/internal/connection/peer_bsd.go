//go:build darwin || freebsd

package connection

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUser returns the user of the process at the other end.
func peerUser(conn *net.UnixConn) (uid uint32, known bool, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	var credentials *unix.Xucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, failed = unix.GetsockoptXucred(int(fd), 0, unix.LOCAL_PEERCRED) // level SOL_LOCAL
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, false, err
	}
	return credentials.Uid, true, nil
}
