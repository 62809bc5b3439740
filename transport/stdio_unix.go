//go:build unix

package transport

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// openStdio returns duplicates of the standard input and output, so that descriptors 0 and 1 stay open
// when the duplicates are closed. Children do not inherit the duplicates. release closes them and restores
// the previous state.
func openStdio(keepStdout bool) (in, out *os.File, release func() error, err error) {
	stdin, err := openEnd(syscall.Stdin, "stdin")
	if err != nil {
		return nil, nil, nil, err
	}
	stdout, err := openEnd(syscall.Stdout, "stdout")
	if err != nil {
		return nil, nil, nil, errors.Join(err, stdin.release())
	}
	enlarge(stdout.file)
	undo := func() error { return nil }
	if !keepStdout && canRedirect {
		if undo, err = redirect(syscall.Stderr, syscall.Stdout); err != nil {
			return nil, nil, nil, errors.Join(err, stdin.release(), stdout.release())
		}
	}
	return stdin.file, stdout.file, func() error {
		return errors.Join(undo(), stdin.release(), stdout.release())
	}, nil
}

// end is a duplicate of a standard stream.
type end struct {
	file        *os.File
	original    int  // the descriptor of the standard stream
	nonblocking bool // openEnd has set non-blocking mode
}

func openEnd(fd int, name string) (*end, error) {
	file, err := duplicate(fd, name)
	if err != nil {
		return nil, err
	}
	e := &end{file: file, original: fd}
	if polled(file) || !canPoll(fd) {
		return e, nil
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("transport: %s: %w", name, err), file.Close())
	}
	e.nonblocking = true
	// os.NewFile uses the poller only if the descriptor is in non-blocking mode, so create the File again.
	second, err := duplicate(fd, name)
	if err != nil {
		return nil, errors.Join(err, e.release())
	}
	e.file = second
	return e, file.Close()
}

// release closes the duplicate and restores the mode of the open file, which other processes may share.
func (e *end) release() error {
	err := e.file.Close()
	if e.nonblocking {
		err = errors.Join(err, os.NewSyscallError("fcntl", syscall.SetNonblock(e.original, false)))
	}
	return err
}

// polled reports whether f uses the poller of the runtime.
func polled(f *os.File) bool { return f.SetDeadline(time.Time{}) == nil }

// canPoll reports whether the open file can be set to non-blocking mode: it must be a pipe or socket other
// than standard error. Otherwise writes to os.Stderr would fail when the pipe is full.
func canPoll(fd int) bool {
	var this, stderr syscall.Stat_t
	if syscall.Fstat(fd, &this) != nil {
		return false
	}
	if syscall.Fstat(syscall.Stderr, &stderr) == nil && this.Dev == stderr.Dev && this.Ino == stderr.Ino {
		return false
	}
	switch this.Mode & syscall.S_IFMT {
	case syscall.S_IFSOCK:
		return true
	case syscall.S_IFIFO:
		// kqueue on Darwin does not report the end of a FIFO in the file system (golang.org/issue/24164).
		return runtime.GOOS != "darwin" && runtime.GOOS != "ios" || this.Nlink == 0
	}
	return false
}

func duplicate(fd int, name string) (*os.File, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	d, err := syscall.Dup(fd)
	if err != nil {
		return nil, fmt.Errorf("transport: %s: %w", name, os.NewSyscallError("dup", err))
	}
	syscall.CloseOnExec(d)
	return os.NewFile(uintptr(d), name), nil
}

// redirect makes the descriptor from refer to the open file of the descriptor to. undo restores it.
func redirect(to, from int) (undo func() error, err error) {
	saved, err := duplicate(from, "saved")
	if err != nil {
		return nil, err
	}
	if err := dup2(to, from); err != nil {
		return nil, errors.Join(os.NewSyscallError("dup2", err), saved.Close())
	}
	return func() error {
		raw, err := saved.SyscallConn()
		if err != nil {
			return err
		}
		var dupErr error
		err = raw.Control(func(fd uintptr) { dupErr = dup2(int(fd), from) })
		return errors.Join(err, os.NewSyscallError("dup2", dupErr), saved.Close())
	}, nil
}
