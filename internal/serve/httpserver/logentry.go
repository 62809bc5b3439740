package httpserver

import (
	"bytes"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/parley-mcp/parley/jsonrpc"
)

// An entry of the log of a stream consists of its kind, the origin of the stream, a line feed and the message.
type entry []byte

// Kinds of entries.
const (
	entryMessage = 'm' // more entries follow
	entryFinal   = 'f' // the last entry of the stream
	entryOpened  = 'o' // has no message: the client knows the stream, which has no event yet or was silent for long
	entryEnded   = 'e' // the last entry of a stream without a response; has no message
	// entryUnlogged is the last entry of a stream with an event that could not be logged. Its message is an error for
	// each request. Clients that have received an event with its number receive it, too.
	entryUnlogged = 'u'
)

// maxOrigin limits the origin, in bytes, because each entry has it. The stream of a batch with longer ids cannot be
// resumed.
const maxOrigin = 4 << 10

// originOf returns the origin of the stream of a request or a batch: the replica that serves it, a space,
// and the ids of the requests as JSON. A batch has an array. The origin is nil if it is longer than maxOrigin.
func originOf(replica string, request jsonrpc.ID, batch []jsonrpc.ID) []byte {
	origin := append([]byte(replica), ' ')
	if batch == nil {
		origin = request.Append(origin)
	} else {
		origin = append(origin, '[')
		for i, id := range batch {
			if i > 0 {
				origin = append(origin, ',')
			}
			origin = id.Append(origin)
		}
		origin = append(origin, ']')
	}
	if len(origin) > maxOrigin {
		return nil
	}
	return origin
}

func appendEntry(dst []byte, kind byte, origin, message []byte) entry {
	return append(append(append(append(dst, kind), origin...), '\n'), message...)
}

// isValid reports whether e is the result of appendEntry.
func (e entry) isValid() bool {
	return len(e) > 0 && bytes.IndexByte([]byte{entryMessage, entryFinal, entryOpened, entryEnded, entryUnlogged},
		e[0]) >= 0 && bytes.IndexByte(e, '\n') > 0
}

func (e entry) isLast() bool {
	return e[0] == entryFinal || e[0] == entryEnded || e[0] == entryUnlogged
}

// message returns the message, or nil if the entry has none.
func (e entry) message() []byte {
	if e[0] != entryMessage && e[0] != entryFinal && e[0] != entryUnlogged {
		return nil
	}
	_, message, _ := bytes.Cut(e, []byte{'\n'})
	return message
}

func (e entry) origin() []byte {
	origin, _, _ := bytes.Cut(e[1:], []byte{'\n'})
	return origin
}

// replica returns the replica that serves the requests of the stream.
func (e entry) replica() string {
	replica, _, _ := bytes.Cut(e.origin(), []byte{' '})
	return string(replica)
}

var errNoOrigin = errors.New("the log does not contain the ids of the requests")

// lostResponse returns the last entry of a stream without a response: an error for each of its requests. The kind is
// entryFinal if its replica has ended, or entryUnlogged.
func (e entry) lostResponse(kind byte) (entry, error) {
	_, raw, _ := bytes.Cut(e.origin(), []byte{' '})
	lost := &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
		Message: "the server process that served the request has ended: the outcome of the request is unknown"}
	if kind == entryUnlogged {
		lost.Message = "cannot resume the stream of the request: the server could not store an event: the outcome of " +
			"the request is unknown"
	}
	var ids []jsonrpc.ID
	batch := bytes.HasPrefix(raw, []byte{'['})
	if !batch {
		raw = append(append([]byte{'['}, raw...), ']')
	}
	if err := jsonv2.Unmarshal(raw, &ids); err != nil || len(ids) == 0 {
		return nil, errNoOrigin
	}
	var message []byte
	for i, id := range ids {
		if i > 0 {
			message = append(message, ',')
		}
		message = jsonrpc.AppendError(message, id, lost, false)
	}
	if batch {
		message = append(append([]byte{'['}, message...), ']')
	}
	return appendEntry(nil, kind, e.origin(), message), nil
}
