package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// windowSize is the size of a read buffer.
const windowSize = 64 << 10

// window is a read buffer. It is internal to this package.
type window [windowSize]byte

// windows are the unused buffers of all connections. A large message needs several for a short time.
var windows = sync.Pool{New: func() any { return new(window) }}

// lineReader splits a byte stream into messages. The result does not depend on how the bytes are split
// over reads. A lineReader uses at most the memory of its limit and two windows, and a copy of the
// message while it is assembled.
//
// Invariant: full followed by buf[start:end] are the bytes that were read and not returned. Neither full
// nor the first scanned bytes after start contain a line feed.
type lineReader struct {
	src   io.Reader
	limit int

	full                []*window // the beginning of a message that did not fit into buf
	buf                 *window
	start, end, scanned int
	skipping            bool  // the rest of a line that is too large
	err                 error // the final error of src
}

// next returns the next message. It returns os.ErrDeadlineExceeded if src does; the reader can be used
// again then.
func (l *lineReader) next() ([]byte, error) {
	if l.buf == nil {
		l.buf = windows.Get().(*window)
	}
	for {
		if i := bytes.IndexByte(l.buf[l.start+l.scanned:l.end], '\n'); i >= 0 {
			size := l.scanned + i
			msg, err := l.take(size)
			l.consume(size + 1)
			if msg != nil || err != nil {
				return msg, err
			}
			continue
		}
		l.scanned = l.end - l.start
		if l.skipping {
			l.consume(l.scanned)
		} else if l.tooLarge() {
			l.skipping = true
			l.consume(l.scanned)
			return nil, &MessageTooLargeError{Limit: l.limit}
		}
		if l.err != nil {
			// The rest is a complete line only if the stream has ended without an error.
			if size := l.scanned; l.err == io.EOF && len(l.full)*windowSize+size > 0 {
				msg, err := l.take(size)
				l.consume(size)
				if isCut(msg) {
					l.err = fmt.Errorf("transport: the stream has ended after %d bytes of a message: %w", len(msg), io.ErrUnexpectedEOF)
				} else if msg != nil || err != nil {
					return msg, err
				}
			}
			return nil, l.err
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

// isCut reports whether a last line without a line feed is the beginning of a JSON object or array, because the peer
// has died while it wrote the line.
func isCut(line []byte) bool {
	start := jsonscan.SkipSpace(line, 0)
	if start == len(line) || line[start] != '{' && line[start] != '[' {
		return false
	}
	return jsonscan.SkipValue(append(line, ' '), start) > len(line) // it skips the space if the value has no end
}

// buffered returns the next message if it has been read completely, else nil. It leaves a message that is
// too large to next.
func (l *lineReader) buffered() []byte {
	for l.buf != nil && !l.skipping {
		i := bytes.IndexByte(l.buf[l.start+l.scanned:l.end], '\n')
		if i < 0 {
			l.scanned = l.end - l.start
			return nil
		}
		size := l.scanned + i
		msg, err := l.take(size)
		if err != nil {
			return nil
		}
		l.consume(size + 1)
		if msg != nil {
			return msg
		}
	}
	return nil
}

// tooLarge reports whether the incomplete line already exceeds the limit. A carriage return at the end
// does not count, because a line feed may follow.
func (l *lineReader) tooLarge() bool {
	size := len(l.full)*windowSize + l.scanned
	return size > l.limit+1 || size == l.limit+1 && l.lastByte(l.scanned) != '\r'
}

// lastByte returns the byte before buf[start+size], which must exist.
func (l *lineReader) lastByte(size int) byte {
	if size == 0 {
		return l.full[len(l.full)-1][windowSize-1]
	}
	return l.buf[l.start+size-1]
}

// take returns the message that ends at buf[start+size], or nil if it is empty or skipped.
func (l *lineReader) take(size int) ([]byte, error) {
	if l.skipping {
		l.skipping = false
		return nil, nil
	}
	total := len(l.full)*windowSize + size
	if total > 0 && l.lastByte(size) == '\r' {
		total--
	}
	if total > l.limit {
		return nil, &MessageTooLargeError{Limit: l.limit}
	}
	if total == 0 {
		return nil, nil
	}
	msg := make([]byte, total)
	n := 0
	for _, w := range l.full {
		n += copy(msg[n:], w[:])
	}
	copy(msg[n:], l.buf[l.start:l.start+size])
	return msg, nil
}

// consume removes full and size bytes of buf.
func (l *lineReader) consume(size int) {
	for _, w := range l.full {
		windows.Put(w)
	}
	l.full = nil
	l.start += size
	l.scanned = 0
	if l.start == l.end {
		l.start, l.end = 0, 0
	}
}

// fill reads more bytes into buf. If buf is full, it first moves its contents.
func (l *lineReader) fill() error {
	if l.end == windowSize {
		if l.start > 0 {
			l.end = copy(l.buf[:], l.buf[l.start:])
			l.start = 0
		} else {
			l.full = append(l.full, l.buf)
			l.buf = windows.Get().(*window)
			l.end, l.scanned = 0, 0
		}
	}
	var n int
	var err error
	for range 100 { // like bufio, for streams that return 0 bytes and no error
		if n, err = l.src.Read(l.buf[l.end:]); n > 0 || err != nil {
			break
		}
	}
	l.end += n
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if n > 0 {
			return nil // scan the bytes first; the next Read returns the error again
		}
		return err
	}
	l.err = err
	return nil
}
