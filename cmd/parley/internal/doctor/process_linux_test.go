package doctor

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/transport"
)

// pidsFile is the environment variable with the file to which bad servers append the number of the process that they
// start.
const pidsFile = "DOCTOR_TEST_PIDS"

// serveBadly writes a log message to standard output, starts a process that leaves the process group, and does not
// exit when its input ends.
func serveBadly() {
	child := exec.Command("sleep", "30")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		log.Fatal(err)
	}
	pids, err := os.OpenFile(os.Getenv(pidsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(pids, child.Process.Pid)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	// The library would redirect standard output.
	stdout := os.Stdout
	fmt.Fprintln(stdout, "Listening for requests")
	conn := transport.Stream(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, stdout}, transport.StreamOptions{})
	if err := newServer().ServeConn(context.Background(), conn); err != nil {
		log.Print(err)
	}
	<-signals
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func TestFaultsOfACommandAreFound(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	t.Cleanup(func() {
		started, _ := os.ReadFile(pids)
		for _, word := range strings.Fields(string(started)) {
			if pid, err := strconv.Atoi(word); err == nil {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	target := testServer("bad")
	target.Env = append(target.Env, pidsFile+"="+pids)
	target.ExitGrace, target.TermGrace = 100*time.Millisecond, 100*time.Millisecond
	findings, err := examine(t, target, func(e *Examination) { e.grace = 300 * time.Millisecond })
	if err != nil {
		t.Error(err)
	}
	all := strings.Join(findings, "\n")
	for _, want := range []string{
		`problem process: writes a line to standard output that is not a message: "Listening for requests"`,
		"ok process: serves on after an invalid line",
		"warning process: does not exit within 300ms after its standard input was closed",
		"problem process: leaves processes behind: sleep (",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no finding %q in\n%s", want, all)
		}
	}
}
