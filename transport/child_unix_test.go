//go:build unix

package transport_test

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

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
