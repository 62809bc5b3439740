//go:build linux

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// build builds the servers and the HTTP service, and installs the packages of the TypeScript server.
func build() error {
	if err := os.MkdirAll(filepath.Join(output, "results"), 0o755); err != nil {
		return err
	}
	if err := run(".", "go", "build", "-trimpath", "-o", output+"/", "./api", "./servers/..."); err != nil {
		return err
	}
	if _, err := os.Stat("servers/ts/node_modules"); err == nil {
		return nil
	}
	return run("servers/ts", "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
}

func run(dir string, argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}

// pin keeps this program on one CPU.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads { // later threads inherit the CPU of the thread that starts them
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, &set); err != nil {
			return fmt.Errorf("cannot use CPU %d: %w", cpu, err)
		}
	}
	return nil
}

// process is a program on one CPU.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// start starts a program on a CPU. Its output goes to the log. The program ends with the thread that calls start, which
// has to be the main goroutine's.
func start(cpu int, log *os.File, argv ...string) (*process, error) {
	cmd := exec.Command("taskset", append([]string{"-c", strconv.Itoa(cpu)}, argv...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, make(chan struct{})}
	go func() { _ = cmd.Wait(); close(p.done) }()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(2 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// awaitHealth waits until GET /health succeeds.
func (p *process) awaitHealth(addr string) error {
	program := p.cmd.Args[3]
	for range 100 {
		select {
		case <-p.done:
			return fmt.Errorf("%s has ended: see %s", program, logName)
		case <-time.After(100 * time.Millisecond):
		}
		if r, err := http.Get("http://" + addr + "/health"); err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	return fmt.Errorf("%s does not answer on %s: see %s", program, addr, logName)
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

const tick = 10 * time.Millisecond

// cpuTime returns the CPU time that all threads of a process have used.
func cpuTime(pid int) time.Duration {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick
}

// busyTime returns the time that the CPUs of the machine have worked or were taken by other virtual machines, and their
// number.
func busyTime() (busy time.Duration, cpus int) {
	data, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(data), "\n")
	const idle, wait, guest = 3, 4, 8 // the time of guests is also in that of user
	for i, field := range strings.Fields(line)[1:] {
		if n, _ := strconv.Atoi(field); i != idle && i != wait && i < guest {
			busy += time.Duration(n) * tick
		}
	}
	return busy, strings.Count(string(data), "\ncpu")
}

// peakMemory returns the largest resident set since resetPeak, in bytes.
func peakMemory(pid int) int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(data), "VmHWM:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[0], 10, 64)
	return n << 10
}

func resetPeak(pid int) { _ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) }
