package doctor

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/transport"
)

// serveBadly writes a log message to standard output, and does not exit when its input ends.
func serveBadly() {
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
	target := testServer("bad")
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
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no finding %q in\n%s", want, all)
		}
	}
}
