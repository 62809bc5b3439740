package httpcodec

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// Event is one server-sent event. The receiver owns the data.
type Event struct {
	Name string // "" for "message"
	Data []byte
}

// Limits of the fields that the client keeps from one connection of a stream to the next.
const (
	// maxEventID is the limit of an event id, in bytes. The id becomes a header of the request that resumes the stream.
	maxEventID = 1024
	// maxRetry is the longest reconnection delay. A longer one is reduced.
	maxRetry = time.Hour
)

// ErrEventTooLarge means that an event exceeds the limit of the reader.
var ErrEventTooLarge = errors.New("event too large")

// EventTooLargeError reports an event that the reader has skipped because it was too large. Next can be called again.
type EventTooLargeError struct {
	Limit    int               // in bytes
	Envelope jsonscan.Envelope // envelope of the message in the data
}

// Error implements the error interface.
func (e *EventTooLargeError) Error() string {
	return fmt.Sprintf("%s: the limit is %d bytes", ErrEventTooLarge, e.Limit)
}

// Unwrap returns ErrEventTooLarge.
func (e *EventTooLargeError) Unwrap() error { return ErrEventTooLarge }

// maxSkipped is how many times as long as the limit an event may be to be skipped. The stream of a longer one ends.
const maxSkipped = 16

// EventReader reads server-sent events (HTML Living Standard, section 9.2.6). Lines end with CR, LF or CRLF. It skips
// one leading BOM, comments and unknown fields. It is not safe for concurrent use.
type EventReader struct {
	Retry    time.Duration // the value of the last retry field; negative if there was none
	ID       string        // ID of the last complete event, even one without data: where to resume the stream
	Received bool          // Next has returned an event

	r       *bufio.Reader
	max     int             // limit of one event, in bytes
	newID   string          // ID of the next complete event
	monitor *silenceMonitor // nil: a silent stream remains open
	fresh   bool            // nothing has been read yet
	skip    bool            // the last line ended with CR: ignore an LF that follows
	line    []byte
}

// NewEventReader returns a reader of the events of r. limit is the maximum size of one event, in bytes.
func NewEventReader(r io.Reader, limit int) *EventReader {
	return &EventReader{r: bufio.NewReader(r), max: limit, Retry: -1, fresh: true}
}

// CloseWhenSilent closes body when the keep-alive comments of the stream stop. It must be called before Next.
func (e *EventReader) CloseWhenSilent(body io.Closer) { e.monitor = &silenceMonitor{body: body} }

// End ends the effect of CloseWhenSilent. It returns a *call.SilentError if the stream was closed for its silence, and
// otherwise err.
func (e *EventReader) End(err error) error { return e.monitor.end(err) }

// ResumeAfter sets the ID that applies until the stream sends another one.
func (e *EventReader) ResumeAfter(id string) { e.ID, e.newID = id, id }

// Next returns the next event that has data. At the end of the stream it drops an incomplete event and returns io.EOF.
// Other errors are an *EventTooLargeError, after which Next can be called again, ErrEventTooLarge for an event that is
// too large to be skipped, and errors of the underlying reader.
func (e *EventReader) Next() (Event, error) {
	var ev Event
	var data []byte
	hasData := false
	size := 0
	for {
		line, err := e.readLine()
		if err == errLineTooLarge {
			err = e.skipEvent(data, line, false)
		}
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			e.ID = e.newID
			if hasData && len(data) > 0 {
				ev.Data = data
				e.Received = true
				e.monitor.event()
				return ev, nil
			}
			ev, data, hasData, size = Event{}, nil, false, 0 // an event without data is not dispatched
			continue
		}
		if line[0] == ':' { // a comment
			e.monitor.comment()
			continue
		}
		if size += len(line); size > e.max {
			return Event{}, e.skipEvent(data, line, true)
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
			ev.Name = string(value)
		case "id":
			if isEventID(value) {
				e.newID = string(value)
			}
		case "retry":
			ms, err := strconv.ParseUint(string(value), 10, 64)
			if err == nil || errors.Is(err, strconv.ErrRange) {
				e.Retry = time.Duration(min(ms, uint64(maxRetry/time.Millisecond))) * time.Millisecond
			}
		}
	}
}

// isEventID reports whether the reader uses an id field. The HTML standard ignores an ID with
// NUL. The reader also ignores an ID that is too long, or that no header can contain.
func isEventID(value []byte) bool {
	return len(value) <= maxEventID &&
		!bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7F })
}

// errLineTooLarge is the error of readLine for a line that exceeds the limit. The rest of the line is not read.
var errLineTooLarge = errors.New("line too large")

// readLine returns the next line without its line ending. The line is valid until the next call.
func (e *EventReader) readLine() ([]byte, error) {
	if e.fresh {
		e.fresh = false
		if bom, _ := e.r.Peek(3); bytes.Equal(bom, []byte("\xEF\xBB\xBF")) {
			_, _ = e.r.Discard(3)
		}
	}
	e.line = e.line[:0]
	for {
		part, ends, err := e.peekPart()
		if err != nil {
			return nil, err
		}
		if space := e.max - len(e.line); len(part) > space { // the beginning shows what kind of line it is
			e.line = append(e.line, part[:space]...)
			_, _ = e.r.Discard(space)
			return e.line, errLineTooLarge
		}
		e.line = append(e.line, part...)
		e.discard(part, ends)
		if ends {
			return e.line, nil
		}
	}
}

// peekPart returns the next part of a line, which the caller discards, and whether the line ends after it.
func (e *EventReader) peekPart() (part []byte, ends bool, err error) {
	for {
		waits := e.r.Buffered() == 0
		if _, err := e.r.Peek(1); err != nil {
			return nil, false, err
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
		if end := bytes.IndexAny(chunk, "\r\n"); end >= 0 {
			return chunk[:end], true, nil
		}
		return chunk, false, nil
	}
}

// discard discards what peekPart has returned, and the end of the line.
func (e *EventReader) discard(part []byte, ends bool) {
	if !ends {
		_, _ = e.r.Discard(len(part))
		return
	}
	ending, _ := e.r.Peek(len(part) + 1)
	e.skip = ending[len(part)] == '\r'
	_, _ = e.r.Discard(len(part) + 1)
}

// skipEvent reads the rest of an event that is too large. So far, it has read data and then line; complete reports
// whether the line is complete.
func (e *EventReader) skipEvent(data, line []byte, complete bool) error {
	tooLarge, size := &EventTooLargeError{Limit: e.max}, len(data)+len(line)
	tooLarge.Envelope.Write(data)
	value, isData := bytes.CutPrefix(line, []byte("data:"))
	if isData {
		tooLarge.Envelope.Write(value)
	}
	for {
		for !complete {
			part, ends, err := e.peekPart()
			if size += len(part); err != nil || size/maxSkipped > e.max {
				return fmt.Errorf("%w: the limit is %d bytes", ErrEventTooLarge, e.max)
			}
			if isData {
				tooLarge.Envelope.Write(part)
			}
			e.discard(part, ends)
			complete = ends
		}
		var err error
		isData, complete, err = e.beginLine(&size)
		if err != nil || size/maxSkipped > e.max {
			return fmt.Errorf("%w: the limit is %d bytes", ErrEventTooLarge, e.max)
		}
		if complete && len(e.line) == 0 {
			e.ID, e.Received = e.newID, true
			e.monitor.event()
			return tooLarge
		}
		if id, ok := bytes.CutPrefix(e.line, []byte("id:")); ok && complete {
			if id = bytes.TrimPrefix(id, []byte{' '}); isEventID(id) {
				e.newID = string(id)
			}
		}
	}
}

// beginLine reads "data:" at the beginning of a line, or the whole of any other line, of which it keeps as much as
// an ID may need. It adds the number of bytes to size.
func (e *EventReader) beginLine(size *int) (isData, complete bool, err error) {
	e.line = e.line[:0]
	for {
		part, ends, err := e.peekPart()
		if *size += len(part) + 1; err != nil || *size/maxSkipped > e.max {
			return false, false, err
		}
		rest := min(len("data:")-len(e.line), len(part))
		if rest > 0 && string(part[:rest]) == "data:"[len(e.line):len(e.line)+rest] && (!ends || rest < len(part)) {
			e.line = append(e.line, part[:rest]...)
			_, _ = e.r.Discard(rest)
			if string(e.line) == "data:" {
				return true, false, nil
			}
			continue
		}
		e.line = append(e.line, part[:min(len(part), max(0, len("id: ")+maxEventID-len(e.line)))]...)
		e.discard(part, ends)
		if ends {
			return false, true, nil
		}
	}
}
