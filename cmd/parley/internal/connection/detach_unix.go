//go:build unix

package connection

import (
	"os/exec"
	"syscall"
)

// detach lets a process outlive the terminal.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
