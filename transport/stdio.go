package transport

import (
	"errors"
	"os"
	"sync/atomic"
)

// StdioOptions says how to use this process's standard streams. The zero value is useful.
type StdioOptions struct {
	StreamOptions

	// KeepStdout leaves the descriptor of standard output as it is; see Stdio.
	KeepStdout bool
}

// ErrStdioInUse is returned by Stdio while another Conn of Stdio is open.
var ErrStdioInUse = errors.New("transport: standard input and output are in use by another connection")

// stdioInUse is global because what it guards is: a process has one standard input and output.
var stdioInUse atomic.Bool

// Stdio returns a Conn with one message per line over this process's standard input and output. Only
// one may be open at a time. Read returns io.EOF when the client has closed our input, upon which a
// server exits (all revisions, transports, stdio).
//
// Nothing but messages may be written to standard output while the Conn is open. On Unix, Stdio sees to
// that unless KeepStdout is set: it keeps the real standard output to itself and lets descriptor 1,
// and so fmt.Println, os.Stdout, C code and child processes, write to standard error until Close. If
// the two are one file, as after 2>&1, that does not help. On other systems, do not print.
//
// Pipes and sockets are put into non-blocking mode while the Conn is open, unless standard error
// shares them, so that reading and writing cost no threads. The mode belongs to the pipe, not to this
// process: another process that uses the same end of it, which is unusual, notices. A terminal is left
// in blocking mode, as is everything on Windows: a read that waits there outlives Close, until the next
// line.
//
// Close leaves the descriptors 0 and 1 open, as they were before.
func Stdio(opts StdioOptions) (Conn, error) {
	if !stdioInUse.CompareAndSwap(false, true) {
		return nil, ErrStdioInUse
	}
	in, out, release, err := claimStdio(opts.KeepStdout)
	if err != nil {
		stdioInUse.Store(false)
		return nil, err
	}
	return newStream(in, out, func() error {
		defer stdioInUse.Store(false)
		return release()
	}, opts.StreamOptions), nil
}

var _ source = (*os.File)(nil) // or standard input would cost a goroutine
