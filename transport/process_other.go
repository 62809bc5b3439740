//go:build !unix && !windows

package transport

import (
	"os"
	"os/exec"
)

// processGroup is the child only: the system has no process groups.
type processGroup struct{ leader *os.Process }

func setGroup(*exec.Cmd) {}

func newGroup(leader *os.Process) (processGroup, error) { return processGroup{leader}, nil }

func (g processGroup) terminate() bool { return g.leader.Signal(os.Interrupt) == nil }

func (g processGroup) kill() { g.leader.Kill() }

func (g processGroup) release() {}

func awaitExit(*os.Process) bool { return false }

func exitSignal(*os.ProcessState) os.Signal { return nil }
