//go:build unix && !linux

package transport

import (
	"os"
	"os/exec"
	"syscall"
)

func setGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitExit returns false: it is not supported. Some of these systems have no waitid, and on others it
// also returns for stopped processes.
func awaitExit(*os.Process) bool { return false }
