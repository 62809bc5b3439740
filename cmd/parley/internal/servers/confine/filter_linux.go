//go:build amd64 || arm64 || riscv64

package confine

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A filter of system calls closes what Landlock leaves open: Landlock knows TCP, but neither UDP nor other families of
// sockets, and no socket that has a name in the file system. A program that reaches the D-Bus of its user, or the
// Docker daemon, can let them run any command.

// architectures lists the ones on which sockets are created only with the system call socket, and not with socketcall.
var architectures = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "riscv64": unix.AUDIT_ARCH_RISCV64,
}

// checkArchitecture returns an error if there is no filter for the architecture.
func checkArchitecture() error { return nil }

// denied are system calls that no confined program can use.
var denied = []uint32{
	// io_uring creates sockets and opens files without the system calls that a filter sees.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	// The keys of the user in the kernel.
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// Memory, queues and semaphores of other processes of the user that are no files.
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV,
	unix.SYS_MSGCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}

// attributes are system calls that change the permissions, owner, times and attributes of a file by its path. Landlock
// does not know them. They are denied to a program that may write nothing. With a rule to write they are not, because
// programs that install packages need them, and a filter does not see paths.
var attributes = append([]uint32{
	unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR,
	unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
	unix.SYS_FILE_SETATTR,
}, olderAttributes...)

// offsets of struct seccomp_data. The architectures are little-endian, so the lower half of an argument comes first.
const (
	offsetNumber       = 0
	offsetArchitecture = 4
	offsetArguments    = 16
)

// x32 begins the numbers of the system calls of x86-64 for programs with short pointers.
const x32 = 0x40000000

func statement(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

// load loads a word of struct seccomp_data.
func load(offset uint32) unix.SockFilter {
	return statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset)
}

// argument loads the lower half of an argument of the system call.
func argument(i uint32) unix.SockFilter { return load(offsetArguments + 8*i) }

// otherwise jumps over n instructions unless the loaded word is k.
func otherwise(n uint8, k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: n, K: k}
}

var allow = statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)

// fail lets the system call return an error.
func fail(err unix.Errno) unix.SockFilter {
	return statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(err))
}

// filter returns the program that decides about each system call.
func (r *Rules) filter() []unix.SockFilter {
	all := []unix.SockFilter{
		// The numbers of other calling conventions, such as that of 32-bit programs, are others.
		load(offsetArchitecture),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: architectures[runtime.GOARCH]},
		fail(unix.ENOSYS),
		load(offsetNumber),
	}
	if runtime.GOARCH == "amd64" {
		all = append(all, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: x32},
			fail(unix.ENOSYS))
	}
	numbers := denied
	if len(r.Write) == 0 {
		numbers = slices.Concat(denied, attributes)
	}
	for _, number := range numbers {
		all = append(all, otherwise(1, number), fail(unix.EPERM))
	}
	call := func(number uint32, body ...unix.SockFilter) {
		all = append(append(all, otherwise(uint8(len(body)), number)), body...)
	}
	if r.Network {
		call(unix.SYS_SOCKET,
			argument(0), otherwise(1, unix.AF_INET), allow, otherwise(1, unix.AF_INET6), allow,
			// The C library asks for the addresses of the machine before it resolves a name.
			otherwise(3, unix.AF_NETLINK), argument(2), otherwise(1, unix.NETLINK_ROUTE), allow,
			fail(unix.EACCES))
	} else {
		call(unix.SYS_SOCKET, fail(unix.EACCES))
	}
	// Runtimes connect to their child processes with pairs. One of datagrams could be connected to another socket.
	call(unix.SYS_SOCKETPAIR,
		argument(0), otherwise(4, unix.AF_UNIX),
		argument(1), statement(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf),
		otherwise(1, unix.SOCK_STREAM), allow,
		fail(unix.EACCES))
	// A limit of another process can end it.
	call(unix.SYS_PRLIMIT64,
		argument(0), otherwise(1, 0), allow,
		argument(2), otherwise(3, 0), load(offsetArguments+8*2+4), otherwise(1, 0), allow,
		fail(unix.EPERM))
	if len(r.Write) == 0 { // without a path, the call is for an open file
		call(unix.SYS_UTIMENSAT, argument(1), otherwise(3, 0), load(offsetArguments+8+4), otherwise(1, 0), allow,
			fail(unix.EPERM))
	}
	if r.Memory != "" { // shared memory does not count as memory of a process
		call(unix.SYS_MEMFD_CREATE, fail(unix.EPERM))
		call(unix.SYS_MMAP,
			argument(3), statement(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, unix.MAP_SHARED|unix.MAP_ANONYMOUS),
			otherwise(1, unix.MAP_SHARED|unix.MAP_ANONYMOUS), fail(unix.ENOMEM), allow)
	}
	return append(all, allow)
}

// installFilter installs the filter for the calling thread, which must have no_new_privs.
func (r *Rules) installFilter() error {
	if err := install(r.filter()); err != nil {
		return fmt.Errorf("cannot install the filter of system calls: %w; use a kernel with seccomp", err)
	}
	return nil
}

// install installs a filter.
func install(program []unix.SockFilter) error {
	of := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&of)), 0, 0)
	runtime.KeepAlive(program)
	return err
}
