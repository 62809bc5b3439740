package httpcodec

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
)

// The id of an event consists of the unguessable name of its stream, a dot, and the number of the event in the stream
// (2025-11-25, basic/transports, Resumability and Redelivery). Number 0 is the beginning of the stream. The server
// looks up names only in the session of the request.

// Kinds of streams. The name of a stream begins with its kind.
const (
	KindPost = 'p' // carries the response to a POST request and ends with it
	KindGet  = 'g' // the session's standalone stream
)

const (
	nameBytes = 12 // random bytes before encoding
	nameLen   = 1 + nameBytes/3*4
	maxSeqLen = 20 // digits
)

// NewStreamName returns a random name for a stream of this kind.
func NewStreamName(kind byte) string {
	var random [nameBytes]byte
	rand.Read(random[:])
	name := [nameLen]byte{kind}
	base64.RawURLEncoding.Encode(name[1:], random[:])
	return string(name[:])
}

// AppendEventID appends the id of event seq of a stream.
func AppendEventID(dst []byte, stream string, seq uint64) []byte {
	return strconv.AppendUint(append(append(dst, stream...), '.'), seq, 10)
}

// ParseEventID reverses AppendEventID. It reports false for all other input.
func ParseEventID(id string) (stream string, seq uint64, ok bool) {
	if len(id) > nameLen+1+maxSeqLen {
		return "", 0, false
	}
	stream, digits, _ := strings.Cut(id, ".")
	if len(stream) != nameLen || stream[0] != KindPost && stream[0] != KindGet {
		return "", 0, false
	}
	for i := 1; i < nameLen; i++ {
		if c := stream[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' ||
			c == '_') {
			return "", 0, false
		}
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || digits[0] == '0' && len(digits) > 1 || seq == math.MaxUint64 {
		return "", 0, false
	}
	return stream, seq, true
}

// The event streams of a server use only what every reader in use understands; the table of [wiretest.Readers] gives
// the reasons. Each message has the event name "message", because some readers do not assume it. An event consists of
// the lines id, event and data, in this order. A comment is one line without an empty line after it. There is no retry
// line, because it ends some readers.

// AppendMessage appends a message as an event.
func AppendMessage(dst, message []byte) []byte { return AppendEvent(dst, "message", message) }

// AppendNumbered appends a message as an event with its id.
func AppendNumbered(dst []byte, stream string, seq uint64, message []byte) []byte {
	return AppendMessage(appendID(dst, stream, seq), message)
}

func appendID(dst []byte, stream string, seq uint64) []byte {
	return append(AppendEventID(append(dst, "id: "...), stream, seq), '\n')
}

// AppendPriming appends an event without a message. Its ID is where to resume the stream (2025-11-25,
// basic/transports, Sending Messages to the Server).
func AppendPriming(dst []byte, stream string, seq uint64) []byte {
	return append(appendID(dst, stream, seq), "data:\n\n"...)
}

// AppendEvent appends one server-sent event. If the message contains line breaks, it becomes several data lines,
// which the reader joins with LF. Other characters that some readers take for line breaks can occur only in the
// strings of a message, and are escaped there.
func AppendEvent(dst []byte, name string, message []byte) []byte {
	dst = append(append(append(dst, "event: "...), name...), "\ndata: "...)
	if hasLineBreak(message) {
		dst = appendLines(dst, message)
	} else {
		dst = append(dst, message...)
	}
	return append(dst, "\n\n"...)
}

// Characters that are not line breaks in an event stream, but that some readers take for line breaks: NEL, LS
// and PS.
const (
	nextLine           = "\u0085"
	lineSeparator      = "\u2028"
	paragraphSeparator = "\u2029"
)

// hasLineBreak reports whether appendLines would change the message.
func hasLineBreak(message []byte) bool {
	return bytes.IndexByte(message, '\n') >= 0 || bytes.IndexByte(message, '\r') >= 0 ||
		bytes.Contains(message, []byte(nextLine)) || bytes.Contains(message, []byte(lineSeparator)) ||
		bytes.Contains(message, []byte(paragraphSeparator))
}

// appendLines appends a message as the values of data lines.
func appendLines(dst, message []byte) []byte {
	for i := 0; i < len(message); i++ {
		switch c := message[i]; {
		case c == '\r' && i+1 < len(message) && message[i+1] == '\n':
		case c == '\r' || c == '\n':
			dst = append(dst, "\ndata: "...)
		case c == nextLine[0] && bytes.HasPrefix(message[i:], []byte(nextLine)):
			dst = append(dst, `\u0085`...)
			i += len(nextLine) - 1
		case c == lineSeparator[0] && bytes.HasPrefix(message[i:], []byte(lineSeparator)):
			dst = append(dst, `\u2028`...)
			i += len(lineSeparator) - 1
		case c == lineSeparator[0] && bytes.HasPrefix(message[i:], []byte(paragraphSeparator)):
			dst = append(dst, `\u2029`...)
			i += len(paragraphSeparator) - 1
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// AppendComment appends a comment, without the empty line that would end an event.
func AppendComment(dst []byte) []byte { return append(dst, ":\n"...) }
