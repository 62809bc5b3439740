//go:build unix

package server

import "syscall"

// openFlags keep the open of a pipe from blocking, and a terminal from becoming that of the
// process.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY
