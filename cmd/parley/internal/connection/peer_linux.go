package connection

import "syscall"

// peerUser returns the user of the process at the other end of a socket.
func peerUser(fd int) (uid int, known bool, err error) {
	credentials, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return 0, false, err
	}
	return int(credentials.Uid), true, nil
}
