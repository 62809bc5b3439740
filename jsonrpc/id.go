package jsonrpc

import (
	"errors"
	"strconv"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// ID identifies a request among those that its sender has in flight. It is a JSON
// string or integer, kept as it was written. The zero ID means that there is no
// id, as in a notification. IDs are comparable: two are equal if their bytes on
// the wire are.
//
// An ID taken from a [Message] is a view of the message's input, and keeps all of
// the input in memory.
type ID struct {
	raw string
}

// StringID returns the id that is the JSON string s.
func StringID(s string) ID { return ID{string(AppendString(nil, s))} }

// IntID returns the id that is the integer n.
func IntID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.raw == "" }

// String returns the id as written on the wire: 7, or "seven" with its quotes.
func (id ID) String() string { return id.raw }

// Int returns the id as an integer and reports whether it is an integer of 64 bits.
func (id ID) Int() (int64, bool) {
	if id.raw == "" || id.raw[0] == '"' {
		return 0, false
	}
	n, err := strconv.ParseInt(id.raw, 10, 64)
	return n, err == nil
}

// Append appends the id as written on the wire, or null for the zero ID.
func (id ID) Append(dst []byte) []byte {
	if id.raw == "" {
		return append(dst, "null"...)
	}
	return append(dst, id.raw...)
}

// MarshalJSON implements json.Marshaler. An encoder may change the escapes of the
// result; to echo an id byte for byte, use Append.
func (id ID) MarshalJSON() ([]byte, error) { return id.Append(nil), nil }

var errBadID = errors.New("id must be a JSON string or an integer without fraction and exponent")

// UnmarshalJSON implements json.Unmarshaler. It copies data, which may be of any
// length. Unlike most implementations it rejects null. It also rejects strings
// that [Check] rejects, which encoding/json passes on.
func (id *ID) UnmarshalJSON(data []byte) error {
	if !isID(data) || Check(data, Limits{}) != nil {
		return errBadID
	}
	id.raw = string(data)
	return nil
}

// isID reports whether a valid JSON value is a string or an integer as MCP means
// it: digits only, so 1.0 and 1e3 are not ids although they are whole numbers.
func isID(value []byte) bool {
	if len(value) == 0 {
		return false
	}
	if value[0] == '"' {
		return true
	}
	if value[0] == '-' {
		value = value[1:]
	}
	return len(value) > 0 && jsonscan.SkipDigits(value, 0) == len(value)
}
