package transport

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"
)

// CommandOptions says which program to run as a server, and how. Only Path is required.
type CommandOptions struct {
	// Path is the program. Without a slash it is looked up in PATH, never in the current directory.
	Path string

	// Args are the arguments, without the program's name. No shell sees them.
	Args []string

	// Dir is the working directory; empty means the one of this process.
	Dir string

	// Env is added to the child's environment as "KEY=value", and wins over what is inherited. This
	// is how a server gets its credentials (all revisions, authorization).
	Env []string

	// InheritEnv passes the whole environment of this process on. By default the child gets what a
	// program needs to run at all (on Unix HOME, LANG, LC_*, LOGNAME, PATH, SHELL, TERM, TMPDIR, TZ
	// and USER), so that secrets of the host stay with the host.
	InheritEnv bool

	// Stderr, if set, is called with every line that the child writes to its standard error, without
	// the line break and cut after 8 KiB. Calls do not overlap; a slow one holds up the child.
	Stderr func(line string)

	// Logger gets the same lines, at most 256 a second after a burst of 4,096, with a count of those
	// left out. They are logged at level Info whatever they say: standard error does not mean error.
	// nil logs nothing.
	Logger *slog.Logger

	// ExitGrace is how long Close waits for the child to exit after its input ended. 0 means 2 s.
	ExitGrace time.Duration

	// TermGrace is how long Close then waits between asking the process group to terminate (SIGTERM)
	// and killing it. 0 means 2 s. Where the system has no such request, as on Windows, it is killed
	// at once.
	TermGrace time.Duration

	// MaxMessage is the largest message that Read delivers, in bytes. 0 means DefaultClientMaxMessage.
	MaxMessage int
}

const (
	defaultExitGrace = 2 * time.Second
	defaultTermGrace = 2 * time.Second

	// orphanGrace is how long what a child leaves behind has to exit when the child did.
	orphanGrace = 250 * time.Millisecond

	// killGrace is how long a killed process may take to disappear.
	killGrace = 500 * time.Millisecond
)

// Process is a server that runs as a child process, and the connection to it. It must be closed, also
// after the child exited. It is safe for concurrent use.
//
// The child leads a process group (on Windows a job) of its own, and nothing in that group outlives
// it: when the child exits, by itself or because of Close, what it started is asked to terminate and
// then killed. Only a process that has left the group can escape, and that does not hold up Close.
//
// When this process dies without closing, the child's input ends, on which servers exit (all
// revisions, transports, stdio); on Linux the child is also sent SIGTERM.
type Process struct {
	stream *stream
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *childOutput
	stderr *stderrLines

	exitGrace, termGrace time.Duration

	started chan struct{} // closed at the first byte of output
	killing chan struct{} // closed when there is no more time for orphans
	drained chan struct{} // closed when the standard error is read to its end
	done    chan struct{} // closed when the process and its group are gone; err is set before

	mu    sync.Mutex
	group processGroup
	gone  bool // the group's id may belong to others: send no more signals

	err error

	closeOnce sync.Once
	closeErr  error
}

// Command starts a server and connects to its standard input and output. The error wraps what os/exec
// returns, for example exec.ErrNotFound.
//
// Close ends it by steps: it sends what is queued, closes the child's standard input, waits for
// ExitGrace, asks the process group to terminate, waits for TermGrace, and kills the group. With the
// default times this takes 5 s at most.
func Command(opts CommandOptions) (*Process, error) {
	cmd := exec.Command(opts.Path, opts.Args...)
	cmd.Dir = opts.Dir
	cmd.Env = environ(opts)
	setGroup(cmd)

	var ends pipes
	p := &Process{
		cmd:       cmd,
		stderr:    newStderrLines(opts),
		exitGrace: orDefault(opts.ExitGrace, defaultExitGrace),
		termGrace: orDefault(opts.TermGrace, defaultTermGrace),
		started:   make(chan struct{}),
		killing:   make(chan struct{}),
		drained:   make(chan struct{}),
		done:      make(chan struct{}),
	}
	if err := ends.open(cmd); err != nil {
		return nil, fmt.Errorf("transport: start %s: %w", opts.Path, err)
	}
	p.stdin = ends.stdin
	p.stdout = &childOutput{file: ends.stdout, started: p.started}
	if opts.MaxMessage <= 0 {
		opts.MaxMessage = DefaultClientMaxMessage
	}
	p.stream = newStream(p.stdout, p.stdin, nil, StreamOptions{MaxMessage: opts.MaxMessage})

	started := make(chan error)
	go p.supervise(&ends, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("transport: start %s: %w", opts.Path, err)
	}
	return p, nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// Read implements [Conn]. io.EOF means that the child closed its output or exited; see [Process.Err].
func (p *Process) Read(ctx context.Context) ([]byte, error) { return p.stream.Read(ctx) }

// Write implements [Conn]. After the child exited it fails with a *WriteError of os.ErrProcessDone.
func (p *Process) Write(ctx context.Context, msg []byte) error { return p.stream.Write(ctx, msg) }

// Pid returns the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Started is closed when Read has received the first byte of the child's output. Package runners may
// take long to get there.
func (p *Process) Started() <-chan struct{} { return p.started }

// Done is closed when the child has exited and what it started is gone too.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns nil until Done, and then how the child ended: nil if it exited with code 0, else an
// *[ExitError].
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Wait waits for Done and returns Err. It does not end the process, and stops waiting for nothing but
// the process: see Close.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// pipes connect us to a child's standard streams.
type pipes struct {
	stdin, stdout, stderr *os.File // our ends
	child                 [3]*os.File
}

func (p *pipes) open(cmd *exec.Cmd) error {
	var err error
	pair := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	p.child[0], p.stdin = pair()
	p.stdout, p.child[1] = pair()
	p.stderr, p.child[2] = pair()
	if err != nil {
		p.closeOurs()
		p.closeChild()
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.child[0], p.child[1], p.child[2]
	return nil
}

func (p *pipes) closeOurs() { closeAll(p.stdin, p.stdout, p.stderr) }

func (p *pipes) closeChild() { closeAll(p.child[:]...) }

// closeAll closes files, some of which may be nil.
func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// childOutput is the child's standard output. Once the child has exited it ends where there is nothing
// to read, even if some process still holds the other end.
type childOutput struct {
	file    *os.File
	started chan struct{}
	first   sync.Once

	mu    sync.Mutex
	ended bool
}

// lastRead is how long a Read after the child's exit waits for what the kernel may still hold.
const lastRead = 10 * time.Millisecond

func (o *childOutput) Read(b []byte) (int, error) {
	n, err := o.file.Read(b)
	if n == 0 && os.IsTimeout(err) && o.hasEnded() {
		// A deadline that has passed hides what is there to read.
		o.file.SetReadDeadline(time.Now().Add(lastRead))
		n, err = o.file.Read(b)
		o.file.SetReadDeadline(longAgo)
		if n == 0 && os.IsTimeout(err) {
			err = io.EOF
		}
	}
	if n > 0 {
		o.first.Do(func() { close(o.started) })
	}
	return n, err
}

// SetReadDeadline makes childOutput a source.
func (o *childOutput) SetReadDeadline(t time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		t = longAgo
	}
	return o.file.SetReadDeadline(t)
}

func (o *childOutput) hasEnded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// end says that the child has exited.
func (o *childOutput) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.file.SetReadDeadline(longAgo)
}
