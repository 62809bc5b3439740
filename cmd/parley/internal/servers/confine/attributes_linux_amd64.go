package confine

import "golang.org/x/sys/unix"

// olderAttributes are attributes that newer architectures do not have.
var olderAttributes = []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES,
	unix.SYS_FUTIMESAT}
