//go:build unix && !linux

package transport

import (
	"os"
	"os/exec"
	"syscall"
)

func setGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitExit reports that the process has to be waited for in the ordinary way: waitid is missing from
// some of these systems, and on others also returns for processes that were only stopped.
func awaitExit(*os.Process) bool { return false }
