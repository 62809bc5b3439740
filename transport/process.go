package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// ExitError reports that a child process has ended other than with exit code 0.
type ExitError struct {
	// Code is the exit code, or -1 if a signal has ended the process.
	Code int

	// Signal is the signal that has ended the process, or nil if it has exited.
	Signal os.Signal

	// Stderr is the end of the child's standard error, at most 4 KiB. It is untrusted: escape it before
	// writing it to a terminal.
	Stderr []byte

	fault []byte // the message of a panic or an exception at the end of standard error; may be nil
}

// Error implements the error interface.
func (e *ExitError) Error() string {
	msg := fmt.Sprintf("transport: server process exited with code %d", e.Code)
	if e.Signal != nil {
		msg = fmt.Sprintf("transport: server process was terminated by signal %q", e.Signal)
	}
	line := lastLine(e.Stderr)
	switch {
	case len(e.fault) > 0 && !bytes.Equal(e.fault, line):
		msg += fmt.Sprintf("; stderr: %+q", e.fault)
	case len(line) > 0:
		msg += fmt.Sprintf("; last line of stderr: %+q", line)
	}
	return msg
}

// supervise starts the child, waits for it and ends its process group. It runs in a goroutine of the
// CommandConn. The only other permanent goroutine reads standard error.
func (p *CommandConn) supervise(ends *pipes, started chan<- error) {
	// Linux sends the parent-death signal when the thread that started the child ends, and Go may end
	// threads. Lock this goroutine to its thread until the child has exited. This needs no additional
	// thread, because waiting for a process blocks one anyway.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	err := p.start()
	ends.closeChildOutput()
	if err != nil {
		ends.closeParent()
		p.input.Close()
		started <- err
		return
	}
	go func() {
		defer close(p.drained)
		p.stderr.drain(ends.stderr)
	}()
	started <- nil

	// While the child is a zombie, the id of its process group cannot be reused, so it is safe to signal
	// the group. Where awaitExit is not supported, the id could be reused for a short time.
	zombie := awaitExit(p.cmd.Process)
	if !zombie {
		err = p.cmd.Wait()
	}
	p.endGroup(ends.stderr)
	if zombie {
		err = p.cmd.Wait()
	}

	p.err = exitError(err, p.stderr)
	unread, known := unreadBytes(p.input)
	p.read = p.stream.out.isUsed() && (!known || unread == 0)
	p.stream.out.fail(os.ErrProcessDone)
	p.stdin.Close()
	p.input.Close()
	p.stdout.end()
	close(p.done)
}

func (p *CommandConn) start() error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	group, err := newGroup(p.cmd.Process)
	if err != nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		return err
	}
	p.group, p.guard = group, newGuard(p.cmd.Process)
	return nil
}

// endGroup terminates and then kills the remaining processes of the group. For a short time, it waits
// for processes that hold standard error open to exit on their own.
func (p *CommandConn) endGroup(stderr *os.File) {
	p.terminate()
	timer := time.NewTimer(min(orphanGrace, p.termGrace))
	defer timer.Stop()
	select {
	case <-p.drained:
	case <-p.killing:
	case <-timer.C:
	}
	p.mu.Lock()
	p.group.kill()
	p.group.release()
	p.gone = true
	p.mu.Unlock()
	p.guard.release()

	timer.Reset(killGrace)
	select {
	case <-p.drained:
	case <-timer.C: // a process that left the group still holds it open
	}
	stderr.Close()
	<-p.drained
}

// terminate sends SIGTERM to the group and reports whether the system supports that.
func (p *CommandConn) terminate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.gone && p.group.terminate()
}

func (p *CommandConn) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		p.group.kill()
	}
}

// Close implements [Conn]. It ends the child process as described at [StartCommand] and returns an error
// only if that fails. [CommandConn.Err] reports how the child has ended.
func (p *CommandConn) Close() error {
	p.closeOnce.Do(func() { p.closeErr = p.end() })
	return p.closeErr
}

func (p *CommandConn) end() error {
	p.stream.closeReading()
	p.stream.out.close()

	// Read the child's output: a child that is blocked in a write can neither read nor exit.
	discarded := make(chan struct{})
	go func() {
		defer close(discarded)
		p.discardOutput()
	}()

	grace := time.NewTimer(p.exitGrace)
	defer grace.Stop()
	select {
	case <-p.stream.out.idle:
	case <-grace.C:
		grace.Reset(0)
	}
	p.stdin.Close()

	var err error
	if !p.doneBefore(grace) {
		if p.terminate() {
			grace.Reset(p.termGrace)
			p.doneBefore(grace)
		}
		close(p.killing)
		p.kill()
		grace.Reset(2 * killGrace)
		if !p.doneBefore(grace) {
			err = fmt.Errorf("transport: process %d has not exited after it was killed", p.Pid())
		}
	}
	if closeErr := p.stdout.file.Close(); err == nil && !errors.Is(closeErr, os.ErrClosed) {
		err = closeErr
	}
	<-discarded
	p.stream.awaitGoroutines()
	return err
}

func (p *CommandConn) doneBefore(timer *time.Timer) bool {
	select {
	case <-p.done:
		return true
	case <-timer.C:
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// discardOutput reads the child's output to its end.
func (p *CommandConn) discardOutput() {
	p.stream.readMu.Lock() // waits for a concurrent Read, which is interrupted
	defer p.stream.readMu.Unlock()
	p.stream.src.SetReadDeadline(time.Time{})
	io.Copy(io.Discard, p.stream.src)
}

// exitError converts the error of exec.Cmd.Wait.
func exitError(err error, stderr *stderrLines) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &ExitError{Code: exit.ExitCode(), Signal: exitSignal(exit.ProcessState), Stderr: stderr.tail.bytes(),
			fault: stderr.fault.message()}
	}
	return err
}
