//go:build !(linux || darwin || freebsd)

package connection

// peerUser does not know the user.
func peerUser(int) (uid int, known bool, err error) { return 0, false, nil }
