package transport

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"time"
)

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

// lastLine returns the last line of b that is not blank, truncated to 256 bytes.
func lastLine(b []byte) []byte {
	b = bytes.TrimSpace(b)
	b = b[bytes.LastIndexByte(b, '\n')+1:]
	return b[:min(len(b), 256)]
}
