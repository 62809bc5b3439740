//go:build !linux

package doctor

// runningProcess identifies a process.
type runningProcess struct{}

// descendants returns nil: finding the processes that a process has started is supported on Linux only.
func descendants(int) []runningProcess { return nil }

// stillRunning returns nil.
func stillRunning([]runningProcess) []string { return nil }
