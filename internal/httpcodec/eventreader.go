package httpcodec

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
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

// EventReader reads server-sent events (HTML Living Standard, section 9.2.6). Lines end with CR, LF or CRLF. It skips
// one leading BOM, comments and unknown fields. It is not safe for concurrent use.
type EventReader struct {
	Retry    time.Duration // the value of the last retry field; negative if there was none
	ID       string        // of the last complete event, also without data: where to resume the stream
	Received bool          // Next has returned an event

	r       *bufio.Reader
	max     int             // limit of one event, in bytes
	newID   string          // the id of the next complete event
	monitor *silenceMonitor // nil: a silent stream remains open
	fresh   bool            // nothing has been read yet
	skip    bool            // the last line ended with CR: ignore an LF that follows
	line    []byte
}

// NewEventReader returns a reader of the events of r. Limit is that of one event, in bytes.
func NewEventReader(r io.Reader, limit int) *EventReader {
	return &EventReader{r: bufio.NewReader(r), max: limit, Retry: -1, fresh: true}
}

// CloseWhenSilent closes body when the keep-alive comments of the stream stop. It must be called before Next.
func (e *EventReader) CloseWhenSilent(body io.Closer) { e.monitor = &silenceMonitor{body: body} }

// End ends the effect of CloseWhenSilent. It returns a call.SilentError if the stream was closed for its silence, and
// otherwise err.
func (e *EventReader) End(err error) error { return e.monitor.end(err) }

// ResumeAfter sets the id that applies until the stream has another one.
func (e *EventReader) ResumeAfter(id string) { e.ID, e.newID = id, id }

// Next returns the next event that has data. At the end of the stream it drops an incomplete event and returns io.EOF.
// Other errors are ErrEventTooLarge and those of the underlying reader.
func (e *EventReader) Next() (Event, error) {
	var ev Event
	var data []byte
	hasData := false
	size := 0
	for {
		line, err := e.readLine()
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
			return Event{}, fmt.Errorf("%w: the limit is %d bytes", ErrEventTooLarge, e.max)
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

// isEventID reports whether the reader uses an id field. The HTML standard ignores an id with
// NUL. The reader also ignores one that is too long, or that no header can contain.
func isEventID(value []byte) bool {
	return len(value) <= maxEventID &&
		!bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7F })
}

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
			return nil, fmt.Errorf("%w: the limit is %d bytes", ErrEventTooLarge, e.max)
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
