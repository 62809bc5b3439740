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
// looks up names in the session of the request only.

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

// AppendNumbered appends an event with its id.
func AppendNumbered(dst []byte, stream string, seq uint64, message []byte) []byte {
	dst = append(AppendEventID(append(dst, "id: "...), stream, seq), '\n')
	return AppendEvent(dst, "", message)
}

// AppendPriming appends an event without a message. It has the id to resume the stream from and the reconnection delay
// retry in milliseconds (2025-11-25, basic/transports, Sending Messages to the Server).
func AppendPriming(dst []byte, stream string, seq uint64, retry int64) []byte {
	dst = append(AppendEventID(append(dst, "id: "...), stream, seq), "\nretry: "...)
	return append(strconv.AppendInt(dst, retry, 10), "\ndata: \n\n"...)
}

// AppendEvent appends one server-sent event. A message with line breaks becomes several
// data lines, which the reader joins with LF.
func AppendEvent(dst []byte, name string, message []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	for {
		end := bytes.IndexAny(message, "\r\n")
		if end < 0 {
			return append(append(append(dst, "data: "...), message...), "\n\n"...)
		}
		dst = append(append(append(dst, "data: "...), message[:end]...), '\n')
		if message[end] == '\r' && end+1 < len(message) && message[end+1] == '\n' {
			end++
		}
		message = message[end+1:]
	}
}

func AppendComment(dst []byte) []byte { return append(dst, ":\n\n"...) }
