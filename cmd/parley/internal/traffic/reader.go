package traffic

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Reader reads a recording. It is not safe for concurrent use.
type Reader struct {
	header Header
	r      *bufio.Reader
	number int // of the last line
	buffer []byte
}

// NewReader reads the header of a recording. The error says what is wrong if r has no recording.
func NewReader(r io.Reader) (*Reader, error) {
	in := &Reader{r: bufio.NewReaderSize(r, 64<<10)}
	text, err := in.line()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the recording is empty")
	}
	if err != nil {
		return nil, err
	}
	if err := decode(text, &in.header); err != nil || in.header.Version == 0 {
		return nil, errors.New("line 1: not a recording: the first line must be an object with parleyRecording")
	}
	if in.header.Version > Version {
		return nil, fmt.Errorf("line 1: the recording has version %d, and this program reads versions up to %d; use a newer parley", in.header.Version, Version)
	}
	return in, nil
}

// IsRecording reports whether r begins like a recording of any version: with an object of one line that has
// parleyRecording. It reads at most 64 KiB.
func IsRecording(r io.Reader) bool {
	line, err := bufio.NewReaderSize(io.LimitReader(r, 64<<10), 64<<10).ReadSlice('\n')
	var h struct {
		Version jsontext.Value `json:"parleyRecording"`
	}
	return (err == nil || errors.Is(err, io.EOF)) && decode(line, &h) == nil && h.Version != nil
}

// Header returns the first line.
func (r *Reader) Header() Header { return r.header }

// Line returns the number of the line of the last event.
func (r *Reader) Line() int { return r.number }

// Next returns the next event, or io.EOF at the end. Other errors name the line. The caller owns the event.
func (r *Reader) Next() (Event, error) {
	for {
		text, err := r.line()
		if err != nil {
			return Event{}, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var l line
		if err := decode(text, &l); err != nil {
			return Event{}, fmt.Errorf("line %d: %w", r.number, err)
		}
		e := l.Event
		switch {
		case l.JSON != nil:
			e.Message = l.JSON
		case l.Text != "":
			e.Message = []byte(l.Text)
		default:
			e.Message = l.Base64
		}
		if err := e.check(); err != nil {
			return Event{}, fmt.Errorf("line %d: %w", r.number, err)
		}
		return e, nil
	}
}

func (e *Event) check() error {
	switch {
	case e.From != Client && e.From != Server:
		return fmt.Errorf("from must be %q or %q, not %.20q", Client, Server, e.From)
	case e.Wire != Stdio && e.Wire != HTTP:
		return fmt.Errorf("wire must be %q or %q, not %.20q", Stdio, HTTP, e.Wire)
	case e.Wire == HTTP && e.Exchange <= 0:
		return errors.New("exchange must be a positive number over HTTP")
	}
	return nil
}

// line returns the next line without its end. It is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	r.number++
	r.buffer = r.buffer[:0]
	for {
		part, err := r.r.ReadSlice('\n')
		if len(r.buffer)+len(part) > maxLine {
			return nil, fmt.Errorf("line %d: longer than %d bytes", r.number, maxLine)
		}
		r.buffer = append(r.buffer, part...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(r.buffer) > 0:
			return bytes.TrimSuffix(r.buffer, []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("line %d: %w", r.number, err)
		}
	}
}

func decode(text []byte, into any) error {
	return jsonv2.Unmarshal(text, into, jsontext.AllowDuplicateNames(true))
}

// Entry is an event with the number of its line.
type Entry struct {
	Line int
	Event
}

// ReadFile reads the whole recording at path. An error names the file.
func ReadFile(path string) (Header, []Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return Header{}, nil, err
	}
	defer f.Close()
	h, entries, err := ReadAll(f)
	if err != nil {
		err = fmt.Errorf("cannot read the recording %s: %w", path, err)
	}
	return h, entries, err
}

// ReadAll reads a whole recording, of at most MaxFile bytes of messages.
func ReadAll(r io.Reader) (Header, []Entry, error) {
	in, err := NewReader(r)
	if err != nil {
		return Header{}, nil, err
	}
	var entries []Entry
	size := 0
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return in.header, entries, nil
		}
		if err != nil {
			return Header{}, nil, err
		}
		if size += len(e.Message) + 1<<10; size > MaxFile {
			return Header{}, nil, fmt.Errorf("line %d: the recording is larger than %d bytes", in.number, MaxFile)
		}
		entries = append(entries, Entry{Line: in.number, Event: e})
	}
}
