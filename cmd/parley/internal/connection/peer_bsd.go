//go:build darwin || freebsd

package connection

import "golang.org/x/sys/unix"

// peerUser returns the user of the process at the other end of a socket.
func peerUser(fd int) (uid int, known bool, err error) {
	credentials, err := unix.GetsockoptXucred(fd, 0, unix.LOCAL_PEERCRED) // level SOL_LOCAL
	if err != nil {
		return 0, false, err
	}
	return int(credentials.Uid), true, nil
}
