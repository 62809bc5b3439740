package transport

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// ExitError says how a child process ended that did not exit with code 0.
type ExitError struct {
	// Code is the exit code, -1 if a signal ended the process.
	Code int

	// Signal is the signal that ended the process, nil if it exited.
	Signal os.Signal

	// Stderr is the end of what the child wrote to its standard error, at most 4 KiB. It is the
	// child's text: do not trust it, and do not show it raw on a terminal.
	Stderr []byte
}

// Error implements the error interface.
func (e *ExitError) Error() string {
	msg := fmt.Sprintf("transport: server process exited with code %d", e.Code)
	if e.Signal != nil {
		msg = fmt.Sprintf("transport: server process was ended by signal %q", e.Signal)
	}
	if line := lastLine(e.Stderr); len(line) > 0 {
		msg += fmt.Sprintf(", its last words were %+q", line)
	}
	return msg
}

// supervise starts the child, waits for it and clears up behind it. It is the one goroutine, beside
// that for standard error, of a Process.
func (p *Process) supervise(ends *pipes, started chan<- error) {
	// The parent-death signal of Linux is sent when the thread that started the child dies, and Go
	// may end threads. This one stays: the goroutine is locked to it until the child is gone. It
	// costs nothing, because waiting for a process occupies a thread anyway.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	err := p.start()
	ends.closeChild()
	if err != nil {
		ends.closeOurs()
		started <- err
		return
	}
	go func() {
		defer close(p.drained)
		p.stderr.drain(ends.stderr)
	}()
	started <- nil

	// Where the child can be kept a zombie, its process group keeps its id until we have signalled
	// what is left of it. Elsewhere there is a moment in which the id could be taken anew.
	zombie := awaitExit(p.cmd.Process)
	if !zombie {
		err = p.cmd.Wait()
	}
	p.clearGroup(ends.stderr)
	if zombie {
		err = p.cmd.Wait()
	}

	p.err = exitError(err, p.stderr.tail.bytes())
	p.stream.out.fail(os.ErrProcessDone)
	p.stdin.Close()
	p.stdout.end()
	close(p.done)
}

func (p *Process) start() error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	group, err := newGroup(p.cmd.Process)
	if err != nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		return err
	}
	p.group = group
	return nil
}

// clearGroup ends what the child has left behind. Who holds the standard error is taken to be alive,
// and is given a moment to exit by itself.
func (p *Process) clearGroup(stderr *os.File) {
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

	timer.Reset(killGrace)
	select {
	case <-p.drained:
	case <-timer.C: // held open by somebody who left the group
	}
	stderr.Close()
	<-p.drained
}

// terminate asks the group to exit and reports whether it can be asked.
func (p *Process) terminate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.gone && p.group.terminate()
}

func (p *Process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		p.group.kill()
	}
}

// Close implements [Conn]. It ends the child process as described at [Command] and returns an error
// only if that failed; how the child ended is told by [Process.Err].
func (p *Process) Close() error {
	p.closeOnce.Do(func() { p.closeErr = p.end() })
	return p.closeErr
}

func (p *Process) end() error {
	p.stream.closeReading()
	p.stream.out.close()

	// The child may be unable to exit, or to read, before somebody takes its output.
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
			err = fmt.Errorf("transport: process %d was killed and has not exited", p.Pid())
		}
	}
	if closeErr := p.stdout.file.Close(); err == nil && !errors.Is(closeErr, os.ErrClosed) {
		err = closeErr
	}
	<-discarded
	p.stream.awaitGoroutines()
	return err
}

func (p *Process) doneBefore(timer *time.Timer) bool {
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

// discardOutput reads on, after Close, until the child's output ends.
func (p *Process) discardOutput() {
	p.stream.readMu.Lock() // until the reader has noticed
	defer p.stream.readMu.Unlock()
	p.stream.src.SetReadDeadline(time.Time{})
	io.Copy(io.Discard, p.stream.src)
}

// exitError translates what exec.Cmd.Wait returned.
func exitError(err error, stderr []byte) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &ExitError{Code: exit.ExitCode(), Signal: exitSignal(exit.ProcessState), Stderr: stderr}
	}
	return err
}
