package traffic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Writer writes a recording. Its methods may be called concurrently.
type Writer struct {
	now    func() time.Time
	redact *redactor // nil: secrets are kept

	mu  sync.Mutex
	w   io.Writer
	err error // of the first write that has failed
}

// WriterOptions change what a Writer writes. The zero value is the default.
type WriterOptions struct {
	// Program and Target are fields of the Header.
	Program, Target string
	// KeepSecrets keeps what the Writer replaces otherwise; see docs/program/recording.md.
	KeepSecrets bool
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
		out.redact = newRedactor()
		h.Target = out.redact.url(h.Target)
	}
	text, err := encode(h)
	if err == nil {
		_, err = w.Write(text)
	}
	return out, err
}

// Create creates the file of a recording, which only its owner can read. An existing file is an error.
func Create(path string, o WriterOptions) (*Writer, *os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, nil, fmt.Errorf("cannot record: %w; remove the file, or choose another name", err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot record: %w", err)
	}
	w, err := NewWriter(f, o)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("cannot record: %w", err), f.Close())
	}
	return w, f, nil
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
		_, err = w.w.Write(text)
	}
	w.err = err
	return err
}

// Err returns the error of the first write that has failed.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
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
