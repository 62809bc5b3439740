//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package transport

import "syscall"

const canRedirect = true

func dup2(from, to int) error { return syscall.Dup2(from, to) }
