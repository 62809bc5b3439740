//go:build unix && !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package transport

import "syscall"

const canRedirect = false

func dup2(int, int) error { return syscall.ENOSYS }
