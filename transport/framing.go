package transport

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
)

// windowSize is how much is read from a stream at once.
const windowSize = 64 << 10

// window is a buffer to read into. No caller of this package sees one.
type window [windowSize]byte

// windows are free for any connection to use: a message that needs many of them needs them briefly.
var windows = sync.Pool{New: func() any { return new(window) }}

// lineReader cuts a byte stream into messages. How the bytes are split over reads makes no difference
// to what it returns. It holds at most its limit and two windows, and while it puts a message together
// that message.
//
// Invariant: full, then buf[start:end], is what was read and not returned. Neither full nor the first
// scanned bytes from start hold a line feed.
type lineReader struct {
	src   io.Reader
	limit int

	full                []*window // the beginning of a message that did not fit into buf
	buf                 *window
	start, end, scanned int
	skipping            bool  // the rest of a line that was reported as too large
	err                 error // that src ended with
}

// next returns the next message. An os.ErrDeadlineExceeded of src is passed on and leaves the reader
// as it was.
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
			// What a broken stream leaves behind is a fragment; what an ended one leaves is a line.
			if size := l.scanned; l.err == io.EOF && len(l.full)*windowSize+size > 0 {
				msg, err := l.take(size)
				l.consume(size)
				if msg != nil || err != nil {
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

// tooLarge reports whether the unfinished line can only become a message above the limit. A carriage
// return does not count if it turns out to be the last byte.
func (l *lineReader) tooLarge() bool {
	size := len(l.full)*windowSize + l.scanned
	return size > l.limit+1 || size == l.limit+1 && l.lastByte(l.scanned) != '\r'
}

// lastByte returns the byte before buf[start+size]. There is one.
func (l *lineReader) lastByte(size int) byte {
	if size == 0 {
		return l.full[len(l.full)-1][windowSize-1]
	}
	return l.buf[l.start+size-1]
}

// take returns the message that ends at buf[start+size], nil if it is empty or is to be skipped.
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

// consume drops full and size bytes.
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

// fill reads more, into room that it makes.
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
	for range 100 { // as bufio does, for streams that return nothing and no error
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
			return nil // look at it first; the next read reports the deadline again
		}
		return err
	}
	l.err = err
	return nil
}
