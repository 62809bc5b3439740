package doctor

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// runningProcess identifies a process. The system reuses the numbers of processes, but not with the same start.
type runningProcess struct {
	pid   int
	start string // in clock ticks since the boot of the system
}

// descendants returns the processes that a process has started, directly or not.
func descendants(pid int) []runningProcess {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := make(map[int][]runningProcess)
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if parent, start, ok := status(id); ok {
			children[parent] = append(children[parent], runningProcess{id, start})
		}
	}
	all := slices.Clone(children[pid])
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].pid]...)
	}
	return all
}

// stillRunning returns the names and numbers of the processes that have not ended.
func stillRunning(processes []runningProcess) (names []string) {
	for _, p := range processes {
		if _, start, ok := status(p.pid); ok && start == p.start {
			command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid)) // only for the text
			names = append(names, fmt.Sprintf("%s (%d)", bytes.TrimSpace(command), p.pid))
		}
	}
	return names
}

// status returns the parent and the start of a process that has not ended.
func status(pid int) (parent int, start string, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", false
	}
	_, rest, _ := strings.Cut(string(raw[bytes.LastIndexByte(raw, ')')+1:]), " ") // the name can contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" {
		return 0, "", false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, fields[19], err == nil
}
