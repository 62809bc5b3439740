package transport

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

// processGroup is the Windows job object that the child, and what it starts, belongs to.
type processGroup struct{ job syscall.Handle }

func setGroup(cmd *exec.Cmd) {
	// A group of its own, so that a Ctrl-C for us does not reach the child before Close does.
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// The layouts and constants of winnt.h that jobs need and package syscall does not have.
type (
	jobBasicLimits struct {
		perProcessUserTimeLimit, perJobUserTimeLimit int64
		limitFlags                                   uint32
		minimumWorkingSetSize, maximumWorkingSetSize uintptr
		activeProcessLimit                           uint32
		affinity                                     uintptr
		priorityClass, schedulingClass               uint32
	}
	jobExtendedLimits struct {
		basic                                    jobBasicLimits
		ioInfo                                   [6]uint64
		processMemoryLimit, jobMemoryLimit       uintptr
		peakProcessMemoryUsed, peakJobMemoryUsed uintptr
	}
)

const (
	jobObjectExtendedLimitInformation = 9
	jobObjectLimitKillOnJobClose      = 0x2000
)

// newGroup puts the process into a new job. What it started before that, in its first moments, is not
// in the job. If we die, the system closes the job and kills what is in it.
func newGroup(leader *os.Process) (processGroup, error) {
	kernel32 := syscall.NewLazyDLL("kernel32.dll")
	job, _, err := kernel32.NewProc("CreateJobObjectW").Call(0, 0)
	if job == 0 {
		return processGroup{}, fmt.Errorf("create job: %w", err)
	}
	g := processGroup{syscall.Handle(job)}
	limits := jobExtendedLimits{basic: jobBasicLimits{limitFlags: jobObjectLimitKillOnJobClose}}
	ok, _, err := kernel32.NewProc("SetInformationJobObject").Call(job, jobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), unsafe.Sizeof(limits))
	if ok == 0 {
		g.release()
		return processGroup{}, fmt.Errorf("limit job: %w", err)
	}
	assign := func(handle uintptr) {
		ok, _, err = kernel32.NewProc("AssignProcessToJobObject").Call(job, handle)
	}
	if handleErr := leader.WithHandle(assign); handleErr != nil {
		ok, err = 0, handleErr
	}
	if ok == 0 {
		g.release()
		return processGroup{}, fmt.Errorf("assign process to job: %w", err)
	}
	return g, nil
}

// terminate reports that there is no way to ask: a console control event would reach consoles only.
func (g processGroup) terminate() bool { return false }

func (g processGroup) kill() {
	const exitCode = 1
	syscall.NewLazyDLL("kernel32.dll").NewProc("TerminateJobObject").Call(uintptr(g.job), exitCode)
}

func (g processGroup) release() { syscall.CloseHandle(g.job) }

// awaitExit reports that the process has to be waited for in the ordinary way. The job keeps its
// identity without it.
func awaitExit(*os.Process) bool { return false }

func exitSignal(*os.ProcessState) os.Signal { return nil }
