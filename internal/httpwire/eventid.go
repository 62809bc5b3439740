package httpwire

import (
	"crypto/rand"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
)

// The id of an event consists of the unguessable name of its stream, a dot, and the number
// of the event in the stream (2025-11-25, basic/transports, Resumability and Redelivery).
// Number 0 is the beginning of the stream. The server looks up names in the session of the
// request only.

// Kinds of streams. The name of a stream begins with its kind.
const (
	kindPost = 'p' // carries the response to a POST request and ends with it
	kindGet  = 'g' // the session's standalone stream
)

const (
	nameBytes = 12 // random bytes before encoding
	nameLen   = 1 + nameBytes/3*4
	maxSeqLen = 20 // digits
)

// newStreamName returns a random name for a stream of this kind.
func newStreamName(kind byte) string {
	var random [nameBytes]byte
	rand.Read(random[:])
	name := [nameLen]byte{kind}
	base64.RawURLEncoding.Encode(name[1:], random[:])
	return string(name[:])
}

// appendEventID appends the id of event seq of a stream.
func appendEventID(dst []byte, stream string, seq uint64) []byte {
	return strconv.AppendUint(append(append(dst, stream...), '.'), seq, 10)
}

// parseEventID reverses appendEventID. It reports false for all other input.
func parseEventID(id string) (stream string, seq uint64, ok bool) {
	if len(id) > nameLen+1+maxSeqLen {
		return "", 0, false
	}
	stream, digits, _ := strings.Cut(id, ".")
	if len(stream) != nameLen || stream[0] != kindPost && stream[0] != kindGet {
		return "", 0, false
	}
	for i := 1; i < nameLen; i++ {
		if c := stream[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return "", 0, false
		}
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || digits[0] == '0' && len(digits) > 1 || seq == math.MaxUint64 {
		return "", 0, false
	}
	return stream, seq, true
}

// appendNumbered appends an event with its id.
func appendNumbered(dst []byte, stream string, seq uint64, message []byte) []byte {
	dst = append(appendEventID(append(dst, "id: "...), stream, seq), '\n')
	return appendEvent(dst, "", message)
}

// appendPriming appends an event without a message. It has the id to resume the stream
// from and the reconnection delay retry in milliseconds (2025-11-25, basic/transports,
// Sending Messages to the Server).
func appendPriming(dst []byte, stream string, seq uint64, retry int64) []byte {
	dst = append(appendEventID(append(dst, "id: "...), stream, seq), "\nretry: "...)
	return append(strconv.AppendInt(dst, retry, 10), "\ndata: \n\n"...)
}
