package transport

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

func setGroup(cmd *exec.Cmd) {
	// Use SIGTERM instead of SIGKILL, because package runners and container clients can forward it to the
	// server that they started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// awaitExit waits until the process has exited and leaves it a zombie. It returns false if that fails.
func awaitExit(p *os.Process) bool {
	const pPID = 1 // P_PID of waitid(2)
	var info [128]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(p.Pid),
			uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}
