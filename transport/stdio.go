package transport

import (
	"errors"
	"os"
	"sync/atomic"
)

// StdioOptions configure [Stdio]. The zero value means the defaults.
type StdioOptions struct {
	StreamOptions

	// KeepStdout disables the redirection of standard output; see Stdio.
	KeepStdout bool
}

// ErrStdioInUse is returned by Stdio while another Conn of Stdio is open.
var ErrStdioInUse = errors.New("transport: standard input and output are in use by another connection")

// stdioInUse is global because a process has only one standard input and output.
var stdioInUse atomic.Bool

// Stdio returns a Conn with one message per line over the standard input and output of this process.
// Only one can be open at a time. Read returns io.EOF when the client has closed the standard input; a
// server should exit then (all revisions, transports, stdio).
//
// Only messages may be written to standard output while the Conn is open. On Unix, Stdio therefore
// redirects descriptor 1 to standard error until Close, unless KeepStdout is set. This applies to
// fmt.Println, os.Stdout, C code and child processes. It has no effect if standard output and standard
// error are the same file, as after 2>&1. On other systems the program must not print.
//
// While the Conn is open, pipes and sockets are in non-blocking mode, unless standard error is the same
// pipe or socket, so that waiting for them blocks no thread. The mode affects other processes that use
// the same end of a pipe, which is unusual. Terminals, and all files on Windows, stay in blocking mode;
// a Read that waits for one continues after Close until the next line.
//
// Close leaves the descriptors 0 and 1 open and restores them.
func Stdio(opts StdioOptions) (Conn, error) {
	if !stdioInUse.CompareAndSwap(false, true) {
		return nil, ErrStdioInUse
	}
	in, out, release, err := openStdio(opts.KeepStdout)
	if err != nil {
		stdioInUse.Store(false)
		return nil, err
	}
	return newStream(in, out, func() error {
		defer stdioInUse.Store(false)
		return release()
	}, opts.StreamOptions), nil
}

var _ source = (*os.File)(nil) // so that standard input needs no asyncReader
