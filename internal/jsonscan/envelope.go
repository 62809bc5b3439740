package jsonscan

import (
	"slices"
	"strings"
)

// Envelope finds the id and the kind of a JSON-RPC message that arrives in pieces and is not kept, because it is too
// large. It uses bounded memory, and does not check the message. The zero Envelope is ready for use.
type Envelope struct {
	depth             int
	quoted, escaped   bool // in a string; after a backslash
	value             bool // after the colon of a key of the message
	name, id          []byte
	ids               int // number of keys called id
	hasMethod         bool
	hasResult, hasErr bool
	invalid           bool
}

// Limits of what an Envelope keeps, in bytes.
const (
	maxEnvelopeName = 64
	maxEnvelopeID   = 1 << 10
)

// Write reads the next piece of the message.
func (e *Envelope) Write(piece []byte) {
	for i, c := range piece {
		if e.quoted {
			switch {
			case e.escaped:
				e.escaped = false
			case c == '\\':
				e.escaped = true
			case c == '"':
				e.quoted = false
			}
			if e.depth == 1 {
				e.keep(piece[i : i+1])
			}
			continue
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '{', '[':
			e.invalid = e.invalid || e.depth == 0 && c == '['
			e.depth++
			continue
		case '}', ']':
			e.depth--
			continue
		}
		switch {
		case c == '"':
			e.quoted = true
		case e.depth == 1 && c == ':':
			e.beginValue()
			continue
		case e.depth == 1 && c == ',':
			e.name, e.value = e.name[:0], false
			continue
		}
		if e.depth == 1 {
			e.keep(piece[i : i+1])
		} else if e.depth < 1 {
			e.invalid = true
		}
	}
}

// keep keeps a byte of a name, or of the id.
func (e *Envelope) keep(c []byte) {
	switch {
	case !e.value && len(e.name) <= maxEnvelopeName:
		e.name = append(e.name, c...)
	case e.value && string(e.name) == `"id"` && len(e.id) <= maxEnvelopeID:
		e.id = append(e.id, c...)
	}
}

// beginValue begins the value of a key of the message. The end of the value may never be read.
func (e *Envelope) beginValue() {
	e.value = true
	switch string(e.name) {
	case `"id"`:
		e.ids++
	case `"method"`:
		e.hasMethod = true
	case `"result"`:
		e.hasResult = true
	case `"error"`:
		e.hasErr = true
	}
}

// IsNotification reports whether the message has a method and no id.
func (e *Envelope) IsNotification() bool {
	return e.hasMethod && e.ids == 0 && !e.hasResult && !e.hasErr && !e.invalid
}

// ID returns the id as it was written, and whether the message is a request or a response. It returns nil if the
// message contains no ID, or several.
func (e *Envelope) ID() (id []byte, request, response bool) {
	isResponse := e.hasResult || e.hasErr
	if e.invalid || e.ids != 1 || len(e.id) > maxEnvelopeID || e.hasMethod && isResponse {
		return nil, false, false
	}
	return e.id, e.hasMethod, isResponse
}

// IsVariant reports whether name is not one of known, but equals one of them if
// case is ignored. It folds case as encoding/json does, which takes "ſ" for an s.
func IsVariant(name string, known []string) bool {
	if slices.Contains(known, name) {
		return false
	}
	for _, k := range known {
		if strings.EqualFold(name, k) {
			return true
		}
	}
	return false
}
