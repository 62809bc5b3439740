package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/childenv"
)

// CommandOptions configure the server that [StartCommand] runs. Only Path is required.
type CommandOptions struct {
	// Path is the program. If it contains no slash it is looked up in PATH, but not in the current
	// directory.
	Path string

	// Args are the arguments, without the name of the program. They are not interpreted by a shell.
	Args []string

	// Dir is the working directory. Empty means the working directory of this process.
	Dir string

	// Env are additional environment variables of the form "KEY=value". They override inherited
	// variables. Use them for the credentials of the server (all revisions, authorization).
	Env []string

	// InheritEnv makes the child inherit the whole environment of this process. By default it inherits
	// only variables that most programs need, so that it does not receive secrets: on Unix HOME, LANG,
	// LC_*, LOGNAME, PATH, SHELL, TERM, TMPDIR, TZ and USER, and on all systems those of certificates,
	// proxies and the registries of package runners, such as SSL_CERT_FILE, NODE_EXTRA_CA_CERTS,
	// HTTPS_PROXY and npm_config_registry.
	InheritEnv bool

	// Stderr, if set, is called with each line that the child writes to standard error. The line has no
	// line break and is truncated to 8 KiB. Calls are sequential. A slow call blocks the child when its
	// pipe is full.
	Stderr func(line string)

	// Logger receives the same lines, at most 256 per second after a burst of 4,096, and the number of
	// omitted lines. The level is always Info, because not every line on standard error is an error.
	// Nil disables logging.
	Logger *slog.Logger

	// ExitGrace is the time that Close waits for the child to exit after its standard input was closed.
	// 0 means 2 seconds.
	ExitGrace time.Duration

	// TermGrace is the time that Close then waits after it has sent SIGTERM to the process group, before
	// it kills the group. 0 means 2 seconds. On systems without SIGTERM, such as Windows, Close kills
	// at once.
	TermGrace time.Duration

	// MaxMessage is the maximum size of a message that Read returns, in bytes. 0 means
	// DefaultClientMaxMessage.
	MaxMessage int
}

const (
	defaultExitGrace = 2 * time.Second
	defaultTermGrace = 2 * time.Second

	// orphanGrace is how long the descendants of a child may take to exit after the child has exited.
	orphanGrace = 250 * time.Millisecond

	// killGrace is how long a process may take to exit after it was killed.
	killGrace = 500 * time.Millisecond
)

// CommandConn is a connection to a server that runs as a child process. It must be closed, even if the
// child has exited. It is safe for concurrent use.
//
// The child is the leader of a new process group (on Windows, a job). When the child exits, or on Close,
// the remaining processes of the group are terminated and then killed. A process that has left the group
// is not killed and does not delay Close.
//
// If this process ends without Close, even by SIGKILL, the child's standard input is closed, and servers
// exit then (all revisions, transports, stdio). What happens to processes that do not exit, and to those
// that the child has started, depends on the system:
//
//   - On Unix, a shell in the process group, which StartCommand starts with the child, sends SIGTERM to the
//     group after one second and kills it after two more seconds. If the system has no /bin/sh, nothing
//     does. On Linux the child, but not its descendants, also receives SIGTERM at once.
//   - On Windows, the system kills all processes of the job at once.
//   - On other systems, nothing does.
type CommandConn struct {
	stream *stream
	cmd    *exec.Cmd
	stdin  *os.File
	input  *os.File // the child's end of stdin, for InputRead; closed at the first output
	stdout *childOutput
	stderr *stderrLines

	exitGrace, termGrace time.Duration

	started chan struct{} // closed at the first byte of output
	killing chan struct{} // closed when Close kills the group
	drained chan struct{} // closed when standard error has been read to its end
	done    chan struct{} // closed when the child has exited and its group was killed; err is set before

	mu    sync.Mutex
	group processGroup
	guard *guard
	gone  bool // send no more signals: the system may reuse the ID of the group

	err  error
	read bool // see InputRead; set before done is closed

	closeOnce sync.Once
	closeErr  error
}

// StartCommand starts a server as a child process and connects to its standard input and output. The
// error wraps the one from os/exec, such as exec.ErrNotFound.
//
// Close sends the queued messages, closes the child's standard input, waits for ExitGrace, sends SIGTERM
// to the process group, waits for TermGrace, and kills the group. With the default times this takes at
// most 5 seconds.
func StartCommand(opts CommandOptions) (*CommandConn, error) {
	cmd := exec.Command(opts.Path, opts.Args...)
	cmd.Dir = opts.Dir
	cmd.Env = childenv.New(opts.InheritEnv, opts.Env)
	setGroup(cmd)

	var ends pipes
	p := &CommandConn{
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
	p.input = ends.child[0]
	p.stdout = &childOutput{file: ends.stdout, begin: p.begin}
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

// Read implements [Conn]. It returns io.EOF when the child has closed its output or has exited; see
// [CommandConn.Err].
func (p *CommandConn) Read(ctx context.Context) ([]byte, error) { return p.stream.Read(ctx) }

// Write implements [Conn]. After the child has exited it returns a *WriteError with os.ErrProcessDone.
func (p *CommandConn) Write(ctx context.Context, msg []byte) error { return p.stream.Write(ctx, msg) }

// Pid returns the process id of the child.
func (p *CommandConn) Pid() int { return p.cmd.Process.Pid }

// Started returns a channel that is closed when Read has received the first byte of the child's output.
// This can take long if the child is a package runner such as npx.
func (p *CommandConn) Started() <-chan struct{} { return p.started }

// begin handles the child's first output.
func (p *CommandConn) begin() {
	close(p.started)
	p.input.Close()
}

// InputRead reports whether the child has read all messages that were written, at least one, and has not
// written any output. The child then runs and leaves them unanswered. It is known on Linux, macOS and
// FreeBSD; on other systems InputRead returns false. After Done is closed, InputRead reports whether a
// message may be why the child has exited: it returns false if none was written, or if they are known to be
// unread.
func (p *CommandConn) InputRead() bool {
	select {
	case <-p.done:
		return p.read
	default:
		return p.stream.out.isWritten() && isEmpty(p.input)
	}
}

// isEmpty reports whether a pipe is known to contain no bytes. The file is the end that is read.
func isEmpty(pipe *os.File) bool {
	n, known := unreadBytes(pipe)
	return known && n == 0
}

// Done returns a channel that is closed when the child has exited and its process group was killed.
func (p *CommandConn) Done() <-chan struct{} { return p.done }

// Err returns nil before Done is closed. Afterwards it returns nil if the child has exited with code 0,
// and an *[ExitError] otherwise.
func (p *CommandConn) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Wait waits until Done is closed and returns Err. It does not end the process; see Close.
func (p *CommandConn) Wait() error {
	<-p.done
	return p.err
}

// pipes contains the pipes to a child's standard streams.
type pipes struct {
	stdin, stdout, stderr *os.File    // the ends of this process
	child                 [3]*os.File // the ends of the child
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
		p.closeParent()
		p.closeChild()
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.child[0], p.child[1], p.child[2]
	return nil
}

func (p *pipes) closeParent() { closeAll(p.stdin, p.stdout, p.stderr) }

func (p *pipes) closeChild() { closeAll(p.child[:]...) }

// closeChildOutput closes the child's ends that the child writes to.
func (p *pipes) closeChildOutput() { closeAll(p.child[1:]...) }

// closeAll closes files. A file may be nil.
func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// childOutput is the child's standard output. After the child has exited it returns io.EOF when there is
// nothing to read, even if another process still has the other end open.
type childOutput struct {
	file  *os.File
	begin func() // called at the first byte
	first sync.Once

	mu    sync.Mutex
	ended bool
}

// Times that a Read after the child's exit waits for bytes in the pipe. The first attempt may reach the pipe after its
// deadline, and then does not look for bytes, so further attempts get more time.
const (
	minLastRead = 10 * time.Millisecond
	maxLastRead = 200 * time.Millisecond
)

func (o *childOutput) Read(b []byte) (int, error) {
	n, err := o.file.Read(b)
	if n == 0 && os.IsTimeout(err) && o.hasEnded() {
		// With a deadline in the past, Read does not return bytes that are in the pipe.
		n, err = o.readLast(b, minLastRead)
	}
	if n > 0 {
		o.first.Do(o.begin)
	}
	return n, err
}

// readLast reads what is in the pipe, or returns io.EOF if it is empty. The first attempt takes at most timeout, and
// all attempts together less than twice maxLastRead; they take that long only where isEmpty is not supported.
func (o *childOutput) readLast(b []byte, timeout time.Duration) (n int, err error) {
	for ; timeout <= maxLastRead; timeout *= 2 {
		o.file.SetReadDeadline(time.Now().Add(timeout))
		n, err = o.file.Read(b)
		if n > 0 || !os.IsTimeout(err) || isEmpty(o.file) {
			break
		}
	}
	o.file.SetReadDeadline(longAgo)
	if n == 0 && os.IsTimeout(err) {
		err = io.EOF
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

// end records that the child has exited.
func (o *childOutput) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.file.SetReadDeadline(longAgo)
}

const (
	// maxStderrLine is the maximum length of a line, in bytes. The rest of a longer line is dropped.
	maxStderrLine = 8 << 10

	// stderrTail is the maximum length of ExitError.Stderr, in bytes.
	stderrTail = 4 << 10

	// The number of lines that are logged, per second and in a burst.
	stderrRate  = 256
	stderrBurst = 4096
)

// stderrLines splits a child's standard error into lines. It always reads to the end, so that the child is
// not blocked, and never interprets the text (all revisions, transports, stdio).
type stderrLines struct {
	line  func(string) // may be nil
	log   *slog.Logger // may be nil
	limit rateLimit
	tail  tail
	fault fault
}

func newStderrLines(opts CommandOptions) *stderrLines {
	return &stderrLines{line: opts.Stderr, log: opts.Logger, limit: rateLimit{tokens: stderrBurst}}
}

// drain reads r to its end.
func (s *stderrLines) drain(r io.Reader) {
	buf := make([]byte, 32<<10)
	line := make([]byte, 0, maxStderrLine)
	for {
		n, err := r.Read(buf)
		s.tail.write(buf[:n])
		for rest := buf[:n]; len(rest) > 0; {
			part, after, complete := bytes.Cut(rest, []byte{'\n'})
			line = append(line, part[:min(len(part), maxStderrLine-len(line))]...)
			if rest = after; complete {
				s.emit(line)
				line = line[:0]
			}
		}
		if err != nil {
			if len(line) > 0 {
				s.emit(line)
			}
			s.emitDropped()
			return
		}
	}
}

func (s *stderrLines) emit(line []byte) {
	s.fault.see(line)
	if s.line == nil && s.log == nil {
		return
	}
	text := strings.ToValidUTF8(string(bytes.TrimSuffix(line, []byte{'\r'})), "\uFFFD")
	if s.line != nil {
		s.line(text)
	}
	if s.log != nil && s.limit.allow(time.Now()) {
		s.emitDropped()
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "server stderr", slog.String("line", text))
	}
}

func (s *stderrLines) emitDropped() {
	if n := s.limit.dropped; s.log != nil && n > 0 {
		s.limit.dropped = 0
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "server stderr lines omitted", slog.Int("lines", n))
	}
}

// rateLimit is a token bucket that counts rejected lines.
type rateLimit struct {
	tokens  float64
	last    time.Time
	dropped int
}

func (r *rateLimit) allow(now time.Time) bool {
	if !r.last.IsZero() {
		r.tokens = min(stderrBurst, r.tokens+now.Sub(r.last).Seconds()*stderrRate)
	}
	r.last = now
	if r.tokens < 1 {
		r.dropped++
		return false
	}
	r.tokens--
	return true
}

// tail keeps the last stderrTail bytes that are written to it.
type tail struct{ buf []byte }

func (t *tail) write(b []byte) {
	if len(b) >= stderrTail {
		t.buf = append(t.buf[:0], b[len(b)-stderrTail:]...)
		return
	}
	if over := len(t.buf) + len(b) - stderrTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, b...)
}

func (t *tail) bytes() []byte { return bytes.Clone(t.buf) }

// lastLine returns the last line of b that is not blank, truncated.
func lastLine(b []byte) []byte {
	b = bytes.TrimSpace(b)
	b = b[bytes.LastIndexByte(b, '\n')+1:]
	return b[:min(len(b), maxFault)]
}
