//go:build unix

package transport_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

func wantSignal(t *testing.T, p *transport.CommandConn, want os.Signal) {
	t.Helper()
	var exit *transport.ExitError
	err := p.Wait()
	must.That(t, errors.As(err, &exit) && exit.Signal == want && exit.Code == -1, "Wait: %v, want signal %v", err, want)
}

// Rule S3: Close sends SIGTERM after ExitGrace.
func TestServerThatIgnoresEOFIsTerminated(t *testing.T) {
	mon := newMonitor(t)
	opts := as("ignore EOF", mon.env())
	opts.TermGrace = testTimeout // the child must end by SIGTERM
	p := start(t, opts)
	wantMessage(t, p, "ready")
	closeWithin(t, p, testTimeout/2)
	wantSignal(t, p, syscall.SIGTERM)
	mon.wantExited(mon.accept(1))
}

// Rule S3: Close sends SIGKILL after TermGrace.
func TestServerThatIgnoresSIGTERMIsKilled(t *testing.T) {
	mon := newMonitor(t)
	p := start(t, as("ignore SIGTERM", mon.env()))
	wantMessage(t, p, "ready")
	closeWithin(t, p, 2*time.Second)
	wantSignal(t, p, syscall.SIGKILL)
	mon.wantExited(mon.accept(1))
}

func TestInputReadReportsThatTheChildHasReadItsInput(t *testing.T) {
	switch runtime.GOOS {
	case "linux", "darwin", "freebsd":
	default:
		return // unknown
	}
	silent, busy, talking := start(t, as("never write")), start(t, as("never read")), start(t, as("echo"))
	for _, p := range []*transport.CommandConn{silent, busy, talking} {
		must.CheckThat(t, !p.InputRead(), "InputRead returns true before the first message")
		send(t, p, "{}")
	}
	wantMessage(t, talking, "{}")
	must.CheckThat(t, !talking.InputRead(), "InputRead returns true after the first output")
	for ctx := timeoutContext(t); !silent.InputRead(); runtime.Gosched() {
		must.Do(t, ctx.Err(), "InputRead returns false although the child reads")
	}
	must.CheckThat(t, !busy.InputRead(), "InputRead returns true although the child does not read")
	for _, p := range []*transport.CommandConn{silent, busy, talking} {
		p.Close()
	}
	must.CheckThat(t, silent.InputRead() && talking.InputRead() && !busy.InputRead(),
		"InputRead does not tell after the exit whether the child may have read its input")
}

func TestStoppedServerIsKilled(t *testing.T) {
	mon := newMonitor(t)
	p := start(t, as("ignore EOF", mon.env()))
	wantMessage(t, p, "ready")
	syscall.Kill(p.Pid(), syscall.SIGSTOP) // a stopped process does not handle SIGTERM
	closeWithin(t, p, 2*time.Second)
	wantSignal(t, p, syscall.SIGKILL)
	mon.wantExited(mon.accept(1))
}

func TestCommandConnClosesAllDescriptors(t *testing.T) {
	count := func() int {
		entries := must.Get(os.ReadDir("/dev/fd"))(t)
		return len(entries)
	}
	cycle := func() {
		p := start(t, as("echo"))
		send(t, p, "{}")
		wantMessage(t, p, "{}")
		p.Close()
		_, err := transport.StartCommand(transport.CommandOptions{Path: "/no/such/program"})
		must.That(t, err != nil, "StartCommand of a missing program returns nil")
	}
	cycle() // opens the descriptors that the runtime keeps open
	before := count()
	for range 5 {
		cycle()
	}
	must.Equal(t, count(), before)
}

func TestGrandchildrenDoNotOutliveClose(t *testing.T) {
	mon := newMonitor(t)
	opts := as("leave:on EOF", mon.env())
	opts.ExitGrace = testTimeout
	p := start(t, opts)
	wantMessage(t, p, "grandchild ready")
	processes := mon.accept(2)
	closeWithin(t, p, testTimeout/2)
	mon.wantExited(processes)
	must.Do(t, p.Err())
}

func TestGrandchildrenDoNotOutliveServer(t *testing.T) {
	mon := newMonitor(t)
	p := start(t, as("leave:at once", mon.env()))
	processes := mon.accept(2)
	mon.wantExited(processes) // the client does not call Close
	<-p.Done()
	for {
		if _, err := p.Read(timeoutContext(t)); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("Read: %v, want io.EOF", err)
		}
	}
	closeWithin(t, p, time.Second)
}

func TestProcessThatHasLeftGroupDoesNotBlock(t *testing.T) {
	mon := newMonitor(t)
	p := start(t, as("daemon", mon.env()))
	processes := mon.accept(2)
	wantMessage(t, p, "grandchild ready")
	<-p.Done()
	// The grandchild holds all three pipes open.
	_, err := p.Read(timeoutContext(t))
	must.That(t, err == io.EOF, "Read: %v, want io.EOF", err)
	must.Is(t, p.Write(timeoutContext(t), []byte("{}")), os.ErrProcessDone)
	closeWithin(t, p, time.Second)
	for _, conn := range processes {
		conn.Close() // ends the process
	}
}

func TestReadReturnsEOFWhenServerIsKilled(t *testing.T) {
	p := start(t, as("kill yourself"))
	_, err := p.Read(timeoutContext(t))
	must.That(t, err == io.EOF, "Read: %v, want io.EOF", err)
	wantSignal(t, p, syscall.SIGKILL)
}

// On Linux, a child receives SIGTERM when the thread that started it ends.
func TestChildOutlivesThreadThatCallsStartCommand(t *testing.T) {
	var p *transport.CommandConn
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // without unlocking, so that the thread ends with the goroutine
		p = start(t, as("echo"))
	})
	wg.Wait()
	for range 20 { // until the thread has ended
		var threads sync.WaitGroup
		threads.Go(func() { runtime.LockOSThread() })
		threads.Wait()
		send(t, p, "{}")
		wantMessage(t, p, "{}")
	}
}

// Nothing that a client has started outlives it, even if the client is killed and cannot clean up.
func TestNoProcessOutlivesKilledClient(t *testing.T) {
	for role, processes := range map[string]int{ // number of processes, including the client
		"echo":           2,
		"ignore EOF":     2,
		"ignore SIGTERM": 2,
		"leave:on EOF":   3, // the server exits, and the grandchild ignores the end of its input and SIGTERM
		"abandon":        3, // the grandchild holds none of the pipes
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			mon := newMonitor(t)
			p := start(t, as("host:"+role, mon.env()))
			if role != "echo" {
				wantMessage(t, p, "ready")
			}
			started := mon.accept(processes)
			syscall.Kill(p.Pid(), syscall.SIGKILL)
			mon.wantExited(started)
		})
	}
}

// The guard of a process group ends with the group: a client that lives on does not leave it behind.
func TestGuardEndsWithTheServer(t *testing.T) {
	p := start(t, as("echo"))
	group := p.Pid()
	p.Close()
	err := syscall.Kill(-group, 0)
	must.CheckThat(t, err == syscall.ESRCH, "the process group still exists: %v", err)
}

func newSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// startGrandchild starts a process that inherits the standard streams and ignores SIGTERM, and waits until
// it runs its role.
func startGrandchild(adjust func(*exec.Cmd)) {
	ready, w, err := os.Pipe()
	if err != nil {
		log.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=grandchild")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{w}
	if adjust != nil {
		adjust(cmd)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	w.Close()
	ready.Read(make([]byte, 1)) // returns when the grandchild has closed its end
}

// grandchildReady reports that the grandchild runs. It runs in the grandchild.
func grandchildReady() { os.NewFile(3, "ready").Close() }

// stdioStates writes the states of the descriptors during Stdio to standard error.
func stdioStates() {
	nonblocking := func(fd int) bool {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
		if errno != 0 {
			log.Fatal(errno)
		}
		return flags&syscall.O_NONBLOCK != 0
	}
	inode := func(fd int) uint64 {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil {
			log.Fatal(err)
		}
		return st.Ino
	}
	report := func(when string) {
		fmt.Fprintf(os.Stderr, "%s: stdin nonblocking %v, stdout nonblocking %v, stdout is stderr %v\n",
			when, nonblocking(0), nonblocking(1), inode(1) == inode(2))
	}
	stdout := inode(1)
	report("before")
	conn, err := transport.Stdio(transport.StdioOptions{})
	if err != nil {
		log.Fatal(err)
	}
	report("open")
	if _, err := transport.Stdio(transport.StdioOptions{}); err != transport.ErrStdioInUse {
		log.Fatalf("a second Stdio: %v", err)
	}
	if err := conn.Close(); err != nil {
		log.Fatal(err)
	}
	if inode(1) != stdout {
		log.Fatal("Close does not restore stdout")
	}
	report("closed")
	for range 2 { // Stdio can be used repeatedly
		conn, err := transport.Stdio(transport.StdioOptions{KeepStdout: true})
		if err != nil {
			log.Fatal(err)
		}
		report("kept")
		if err := conn.Close(); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("after Close")
}

func socketPair(t *testing.T) (parent, child *os.File) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds := must.Get(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0))(t)
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	must.Do(t, syscall.SetNonblock(fds[0], true))
	return os.NewFile(uintptr(fds[0]), "parent"), os.NewFile(uintptr(fds[1]), "child")
}
