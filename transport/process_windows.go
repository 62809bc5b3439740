package transport

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

// processGroup is the Windows job object of the child and its descendants.
type processGroup struct{ job syscall.Handle }

func setGroup(cmd *exec.Cmd) {
	// A new group, so that the child does not receive a Ctrl-C for this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// Types and constants of winnt.h for jobs that package syscall lacks.
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

// newGroup adds the process to a new job. Processes that it has already started are not in the job. If
// this process ends, the system closes the job and kills its processes.
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

// terminate returns false: it is not supported. A console control event would reach only console
// processes.
func (g processGroup) terminate() bool { return false }

func (g processGroup) kill() {
	const exitCode = 1
	syscall.NewLazyDLL("kernel32.dll").NewProc("TerminateJobObject").Call(uintptr(g.job), exitCode)
}

func (g processGroup) release() { syscall.CloseHandle(g.job) }

// awaitExit returns false: it is not needed, because the handle of a job cannot be reused.
func awaitExit(*os.Process) bool { return false }

func exitSignal(*os.ProcessState) os.Signal { return nil }
