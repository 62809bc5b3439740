package connection

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// readyLine is what a background process writes to stdout when it serves its name.
const readyLine = "ready"

// ExitError reports that a background process has ended before it was ready. It has printed the reason.
type ExitError struct{ Code int }

// Error implements the error interface.
func (e *ExitError) Error() string {
	return fmt.Sprintf("the background process has ended with the exit code %d", e.Code)
}

// Start starts a background process of this program, which outlives it, and waits until it calls Ready of a Background.
// What the process writes to stderr until then is copied to stderr. When ctx ends before that, Start ends the process.
func Start(ctx context.Context, args []string, stderr io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	detach(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	messages, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	var copying sync.WaitGroup
	copying.Go(func() { _, _ = io.Copy(stderr, messages) })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if strings.TrimSpace(line) == readyLine {
		messages.Close() // the process writes nothing after its line
		copying.Wait()
		return cmd.Process.Release()
	}
	copying.Wait()
	err = cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return &ExitError{exit.ExitCode()}
	}
	return errors.Join(errors.New("the background process has ended before it was ready"), err)
}

// Background is the stderr of a background process. What is written after Ready is discarded, because the process that
// has started it is gone. The zero value is ready to use.
type Background struct {
	mu    sync.Mutex
	ready bool
}

// Write implements io.Writer.
func (b *Background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ready {
		return len(p), nil
	}
	return os.Stderr.Write(p)
}

// Ready lets Start return.
func (b *Background) Ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = true
	_, err := fmt.Fprintln(os.Stdout, readyLine)
	return errors.Join(err, os.Stdout.Close())
}
