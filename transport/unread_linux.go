package transport

import "syscall"

const fionread = syscall.TIOCINQ
