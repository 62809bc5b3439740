// Package recording writes and reads recordings of MCP traffic. A recording is a file of JSON lines: a [Header], then
// one [Event] per line, in the order of their times. Programs that read recordings ignore unknown fields, and reject
// versions of the format that are newer than they know.
package recording

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the version of the format that [NewWriter] writes. [ReadAll] rejects higher versions.
const Version = 1

// Bounds of a recording.
const (
	// MaxMessage is the limit of one message, in bytes. A writer records the beginning of a longer one.
	MaxMessage = 16 << 20
	// maxLine is the limit of one line: a message of the largest size in base64, and the headers.
	maxLine = MaxMessage/3*4 + 4<<20
	// MaxFile is the limit of the messages that [ReadAll] keeps in memory, in bytes.
	MaxFile = 1 << 30
)

// Header is the first line of a recording.
type Header struct {
	Version  int       `json:"parleyRecording"`    // of the format
	Program  string    `json:"program,omitzero"`   // that has made the recording, with its version
	Time     time.Time `json:"time,omitzero"`      // of the beginning
	Target   string    `json:"target,omitzero"`    // URL or command of the server
	Redacted bool      `json:"redacted,omitempty"` // secrets were replaced
}

// Side is a side of the connection.
type Side string

// The sides of a connection.
const (
	Client Side = "client"
	Server Side = "server"
)

// Wire is the transport of a message.
type Wire string

// The transports.
const (
	Stdio Wire = "stdio" // also for other byte streams, and for messages whose transport is not known
	HTTP  Wire = "http"
)

// Event is one line of a recording after the first. It is a message, the end of a stream, or, over HTTP, a request or a
// response with its body. The body of a response that is an event stream follows as one Event for each event.
type Event struct {
	Time time.Time `json:"time"`
	From Side      `json:"from"` // the sender
	Wire Wire      `json:"wire"`
	// Peer is the name of the server in recordings of several servers.
	Peer string `json:"peer,omitzero"`
	// Exchange is the number of the HTTP request and its response, from 1. It is 0 for stdio.
	Exchange int64       `json:"exchange,omitzero"`
	Request  *Request    `json:"request,omitzero"`
	Response *Response   `json:"response,omitzero"`
	Stream   *StreamPart `json:"event,omitzero"`
	// Message is the message exactly: a line of stdio without its end, the body of a request or response, or
	// the data of an event. It is empty if there is none.
	Message []byte `json:"-"`
	// Truncated means that Message is only the beginning: the message was longer than MaxMessage, or was not sent
	// completely.
	Truncated bool `json:"truncated,omitempty"`
	// End means that the sender sends nothing more: on the exchange, or on stdio.
	End bool `json:"end,omitempty"`
	// Error is why a stream has ended, if it has not ended regularly.
	Error string `json:"error,omitzero"`
}

// StdioMessage returns the event of a message that the client has sent or received over a byte stream.
func StdioMessage(sent bool, message []byte) Event {
	e := Event{From: Server, Wire: Stdio, Message: message}
	if sent {
		e.From = Client
	}
	return e
}

// Request is the head of an HTTP request.
type Request struct {
	Method string      `json:"method"`
	URL    string      `json:"url"`
	Header http.Header `json:"headers,omitzero"`
}

// Response is the head of an HTTP response.
type Response struct {
	Status int         `json:"status"`
	Header http.Header `json:"headers,omitzero"`
}

// StreamPart contains the fields of a server-sent event except for its data.
type StreamPart struct {
	ID    string `json:"id,omitzero"`
	Name  string `json:"name,omitzero"` // empty for "message"
	Retry string `json:"retry,omitzero"`
}

// line is an Event as it is written. One of the last three fields has the message.
type line struct {
	Event
	JSON   json.RawMessage `json:"message,omitzero"`
	Text   string          `json:"text,omitzero"`
	Base64 []byte          `json:"base64,omitzero"`
}

// reader reads the lines of a recording.
type reader struct {
	r      *bufio.Reader
	number int // of the last line
	buffer []byte
}

// header reads the first line. The error says what is wrong if the file is no recording.
func (r *reader) header() (h Header, err error) {
	text, err := r.line()
	switch {
	case errors.Is(err, io.EOF):
		return h, errors.New("the recording is empty")
	case err != nil:
		return h, err
	case decode(text, &h) != nil || h.Version == 0:
		return h, errors.New("line 1: not a recording: the first line must be an object with parleyRecording")
	case h.Version > Version:
		return h,
			fmt.Errorf("line 1: the recording has version %d, but this program reads versions up to %d; use a newer "+
				"parley", h.Version, Version)
	}
	return h, nil
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

// next returns the next event, or io.EOF at the end. Other errors name the line. The caller owns the event.
func (r *reader) next() (Event, error) {
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
func (r *reader) line() ([]byte, error) {
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
	in := &reader{r: bufio.NewReaderSize(r, 64<<10)}
	h, err := in.header()
	if err != nil {
		return Header{}, nil, err
	}
	var entries []Entry
	size := 0
	for {
		e, err := in.next()
		if errors.Is(err, io.EOF) {
			return h, entries, nil
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

// Writer writes a recording. Its methods may be called concurrently.
type Writer struct {
	now    func() time.Time
	redact *redactor // nil: secrets are kept

	mu   sync.Mutex
	w    io.Writer
	file *os.File // of Create
	err  error    // of the first write that has failed
}

// WriterOptions change what a Writer writes. The zero value is the default.
type WriterOptions struct {
	// Program and Target are fields of the Header.
	Program, Target string
	// KeepSecrets keeps what the Writer replaces otherwise; see docs/program/testing.md.
	KeepSecrets bool
	// SecretHeaders returns the names of headers whose values are secret, besides those whose names say so; may be nil.
	SecretHeaders func() []string
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// NewWriter writes the header of a recording. The Writer writes each event with one call of w.Write, and keeps
// nothing of it.
func NewWriter(w io.Writer, o WriterOptions) (*Writer, error) {
	out := &Writer{now: o.Now, w: w}
	if out.now == nil {
		out.now = time.Now
	}
	h := Header{Version: Version, Program: o.Program, Time: out.now().UTC(), Target: o.Target, Redacted: !o.KeepSecrets}
	if h.Redacted {
		out.redact = newRedactor(o.SecretHeaders)
		h.Target = out.redact.url(h.Target)
	}
	text, err := encode(h)
	if err == nil {
		_, err = w.Write(text)
	}
	return out, err
}

// maxSiblings is how many files Create looks at for a free name.
const maxSiblings = 10_000

// Create creates the file of a recording, which only its owner can read. If the file exists, Create adds a number to
// its name: a client starts parley tap again and again with the same arguments. [Writer.Path] is the name of the file.
func Create(path string, o WriterOptions) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if info, failed := os.Stat(path); errors.Is(err, os.ErrExist) && failed == nil && info.Mode().IsRegular() {
		extension := filepath.Ext(path)
		for n := 2; n <= maxSiblings && errors.Is(err, os.ErrExist); n++ {
			sibling := fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, extension), n, extension)
			f, err = os.OpenFile(sibling, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		}
	}
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("cannot record: %w; choose another name", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot record: %w", err)
	}
	w, err := NewWriter(f, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot record: %w", err), f.Close())
	}
	w.file = f
	return w, nil
}

// Report writes an event, unless the Writer is nil. [Writer.Close] returns the error of a write that fails.
func (w *Writer) Report(e Event) {
	if w != nil {
		_ = w.Write(e)
	}
}

// Path returns the path of the file of [Create].
func (w *Writer) Path() string { return w.file.Name() }

// Close closes the file of [Create]. It returns the error of the first write that has failed.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.err, w.file.Close())
}

// Write writes an event. It sets the time if there is none. Write keeps and changes nothing of e. After a
// write has failed, Write returns that error and writes nothing more.
func (w *Writer) Write(e Event) error {
	if len(e.Message) > MaxMessage {
		e.Message, e.Truncated = e.Message[:MaxMessage], true
	}
	if w.redact != nil {
		w.redact.event(&e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if e.Time.IsZero() {
		e.Time = w.now() // in the order of the lines
	}
	e.Time = e.Time.UTC()
	text, err := appendEvent(e)
	if err == nil {
		var n int
		if n, err = w.w.Write(text); err == nil && n < len(text) {
			err = io.ErrShortWrite
		}
	}
	w.err = err
	return err
}

// appendEvent returns the line of an event. A message that is JSON without line feeds becomes a member without a
// change, which encoding/json would make.
func appendEvent(e Event) ([]byte, error) {
	l := line{Event: e}
	asIs := false
	switch {
	case len(e.Message) == 0:
	case !utf8.Valid(e.Message):
		l.Base64 = e.Message
	case isPlainJSON(e.Message):
		asIs = true
	default:
		l.Text = string(e.Message)
	}
	text, err := encode(l)
	if err != nil || !asIs {
		return text, err
	}
	text = append(bytes.TrimSuffix(text, []byte("}\n")), `,"message":`...)
	return append(append(text, e.Message...), "}\n"...), nil
}

// isPlainJSON reports whether a message can be a member of a line, and be read from it without a change.
func isPlainJSON(message []byte) bool {
	return !bytes.ContainsAny(message, "\r\n") && !isSpace(message[0]) && !isSpace(message[len(message)-1]) &&
		jsontext.Value(message).IsValid(jsontext.AllowDuplicateNames(true))
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
