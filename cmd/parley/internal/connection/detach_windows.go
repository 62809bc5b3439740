package connection

import (
	"os/exec"
	"syscall"
)

const detachedProcess = 0x8 // DETACHED_PROCESS

// detach lets a process outlive the console.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}
