//go:build unix

package transport

import (
	"os"
	"syscall"
)

// processGroup is the Unix process group that the child leads.
type processGroup struct{ id int }

func newGroup(leader *os.Process) (processGroup, error) { return processGroup{leader.Pid}, nil }

// terminate asks every process of the group to exit. That none is left is fine.
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
