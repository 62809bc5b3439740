package httpwire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// event is one server-sent event. The receiver owns data.
type event struct {
	name string // "" for "message"
	data []byte
}

// Limits of the fields that the client keeps from one connection of a stream to the next.
const (
	// maxEventID is the limit of an event id, in bytes. The id becomes a header of the request
	// that resumes the stream.
	maxEventID = 1024
	// maxRetry is the longest reconnection delay. A longer one is reduced.
	maxRetry = time.Hour
)

// errEventTooLarge means that an event exceeds the limit of the reader.
var errEventTooLarge = errors.New("event too large")

// eventReader reads server-sent events (HTML Living Standard, section 9.2.6). Lines end
// with CR, LF or CRLF. It skips one leading BOM, comments and unknown fields. It is not
// safe for concurrent use.
type eventReader struct {
	r     *bufio.Reader
	max   int           // limit of one event, in bytes
	retry time.Duration // the value of the last retry field; negative if there was none
	id    string        // of the last complete event, also without data: where to resume the stream
	newID string        // the id of the next complete event

	monitor  *silenceMonitor // nil: a silent stream remains open
	received bool            // next has returned an event
	fresh    bool            // nothing has been read yet
	skip     bool            // the last line ended with CR: ignore an LF that follows
	line     []byte
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{r: bufio.NewReader(r), max: limit, retry: -1, fresh: true}
}

// resumeAfter sets the id that applies until the stream has another one.
func (e *eventReader) resumeAfter(id string) { e.id, e.newID = id, id }

// next returns the next event that has data. At the end of the stream it drops an
// incomplete event and returns io.EOF. Other errors are errEventTooLarge and those of the
// underlying reader.
func (e *eventReader) next() (event, error) {
	var ev event
	var data []byte
	hasData := false
	size := 0
	for {
		line, err := e.readLine()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			e.id = e.newID
			if hasData && len(data) > 0 {
				ev.data = data
				e.received = true
				e.monitor.event()
				return ev, nil
			}
			ev, data, hasData, size = event{}, nil, false, 0 // an event without data is not dispatched
			continue
		}
		if line[0] == ':' { // a comment
			e.monitor.comment()
			continue
		}
		if size += len(line); size > e.max {
			return event{}, fmt.Errorf("%w: the limit is %d bytes", errEventTooLarge, e.max)
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "data":
			if hasData {
				data = append(data, '\n')
			}
			data = append(data, value...)
			hasData = true
		case "event":
			ev.name = string(value)
		case "id":
			if isEventID(value) {
				e.newID = string(value)
			}
		case "retry":
			ms, err := strconv.ParseUint(string(value), 10, 64)
			if err == nil || errors.Is(err, strconv.ErrRange) {
				e.retry = time.Duration(min(ms, uint64(maxRetry/time.Millisecond))) * time.Millisecond
			}
		}
	}
}

// isEventID reports whether the reader uses an id field. The HTML standard ignores an id with
// NUL. The reader also ignores one that is too long, or that no header can contain.
func isEventID(value []byte) bool {
	return len(value) <= maxEventID && !bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7F })
}

// readLine returns the next line without its line ending. The line is valid until the
// next call.
func (e *eventReader) readLine() ([]byte, error) {
	if e.fresh {
		e.fresh = false
		if bom, _ := e.r.Peek(3); bytes.Equal(bom, []byte("\xEF\xBB\xBF")) {
			_, _ = e.r.Discard(3)
		}
	}
	e.line = e.line[:0]
	for {
		waits := e.r.Buffered() == 0
		if _, err := e.r.Peek(1); err != nil {
			return nil, err
		}
		if waits {
			e.monitor.bytes()
		}
		chunk, _ := e.r.Peek(e.r.Buffered())
		if e.skip {
			e.skip = false
			if chunk[0] == '\n' {
				_, _ = e.r.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		part := chunk
		if end >= 0 {
			part = chunk[:end]
		}
		if len(e.line)+len(part) > e.max {
			return nil, fmt.Errorf("%w: the limit is %d bytes", errEventTooLarge, e.max)
		}
		e.line = append(e.line, part...)
		if end < 0 {
			_, _ = e.r.Discard(len(chunk))
			continue
		}
		e.skip = chunk[end] == '\r'
		_, _ = e.r.Discard(end + 1)
		return e.line, nil
	}
}
