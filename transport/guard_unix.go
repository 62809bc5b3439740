//go:build unix

package transport

import (
	"os"
	"os/exec"
	"syscall"
)

// guard is a shell in the process group of a child. If this process dies, the shell ends the group. A
// library has no other way: the kernel can signal the child but not its descendants, this process is
// gone, and a library must not start its own program again for another purpose.
//
// The shell is a member of the group, so that the ID of the group is not reused while the shell runs, and
// so that killing the group ends the shell, too.
type guard struct {
	shell *exec.Cmd
	alive *os.File // nothing is written to this pipe; the shell reads the end of its input when this process has died
}

// guardScript is the script of the shell. It waits for the end of its input and then ends the group as
// Close does.
const guardScript = `trap '' HUP INT QUIT TERM
read -r line && exit
sleep 1; kill -s TERM 0
sleep 2; kill -s KILL 0`

// newGuard starts the guard of a process group, whose leader must not have been waited for. It returns nil
// if there is no shell.
func newGuard(leader *os.Process) *guard {
	input, alive, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer input.Close()
	shell := exec.Command("/bin/sh", "-c", guardScript)
	shell.Stdin = input
	shell.Dir = "/"
	shell.Env = []string{"PATH=/usr/bin:/bin"}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: leader.Pid}
	if shell.Start() != nil {
		alive.Close()
		return nil
	}
	return &guard{shell, alive}
}

// release waits for the shell, which has been killed with the group.
func (g *guard) release() {
	if g != nil {
		g.shell.Wait()
		g.alive.Close()
	}
}
