//go:build integration && unix

package faults

import (
	"os/exec"
	"syscall"
)

// endWithTest makes the system end the process when the test process dies.
func endWithTest(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
