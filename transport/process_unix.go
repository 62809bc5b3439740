//go:build unix

package transport

import (
	"os"
	"syscall"
)

// processGroup is a Unix process group. The child is its leader.
type processGroup struct{ id int }

func newGroup(leader *os.Process) (processGroup, error) { return processGroup{leader.Pid}, nil }

// terminate sends SIGTERM to every process of the group. It ignores the error, because the group may be empty.
func (g processGroup) terminate() bool {
	syscall.Kill(-g.id, syscall.SIGTERM)
	return true
}

func (g processGroup) kill() { syscall.Kill(-g.id, syscall.SIGKILL) }

func (g processGroup) release() {}

func exitSignal(state *os.ProcessState) os.Signal {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return nil
}
