package transport

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

func setGroup(cmd *exec.Cmd) {
	// SIGTERM rather than SIGKILL: package runners and container clients pass it on to the server
	// that they started, and are not able to pass on their own sudden death.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// awaitExit waits until the process has exited, and leaves it to be waited for. It reports whether it
// could.
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
