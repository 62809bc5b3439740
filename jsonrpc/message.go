package jsonrpc

import (
	"errors"
	"strconv"
	"strings"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages.
const (
	Invalid      Kind = iota // not a message; Parse returned an error
	Request                  // has an id and a method; gets one response
	Notification             // has a method and no id; is never answered
	Response                 // has a result or an error, for the request with its id
)

// Message is one parsed JSON-RPC message. Its fields are views of the parsed bytes.
type Message struct {
	Kind   Kind
	ID     ID      // zero for a notification, and for an error whose sender could not read an id
	Method string  // method of a request or notification
	Params Members // params of a request or notification
	Raw    []byte  // the params object (nil when absent), or the result of a successful response
	Err    *Error  // error of a response that reports one
}

// Parse reads one message from data. The caller must not change data while the
// message or anything taken from it is in use. Parse is safe for concurrent use.
//
// The error, if any, is an *InvalidMessageError. Then m contains only
//   - ID, if an id could be read;
//   - Kind, if it could be determined. A Response is never answered; its ID names
//     the call that gets no valid response. With CodeInvalidParams, and if the
//     message exceeds a limit, a Request is answered and a Notification is not.
//
// Programs that cut texts sometimes send lone surrogates. In the strings of a result or error, Parse replaces them by
// U+FFFD, and these are then views of a copy of data. Elsewhere they are errors.
//
// A batch is not a message: see [SplitBatch].
func Parse(data []byte, lim Limits) (m Message, err error) {
	err = m.Parse(data, lim)
	return m, err
}

// Parse reads one message into m, as the function Parse does, and replaces what m
// contained. It is for a Message that is part of something larger or is used
// again: copying a Message costs a good part of the time of scanning it.
func (m *Message) Parse(data []byte, lim Limits) error {
	*m = Message{}
	lim.setDefaults()
	s := newScanner(data, &lim)
	i := jsonscan.SkipSpace(data, 0)
	if i >= len(data) || data[i] != '{' {
		if !whole(&s) {
			return malformed(&s, &lim)
		}
		return reject(CodeInvalidRequest, "message must be a JSON object")
	}
	var e envelope
	if !e.scan(&s, i, &m.Params) {
		m.Params = Members{}
		err := malformed(&s, &lim)
		m.identify(data, &lim, err.limit != nil)
		return err
	}
	return m.classify(&e, &lim)
}

func reject(code int64, reason string) *InvalidMessageError {
	return &InvalidMessageError{Code: code, Reason: reason, Offset: -1}
}

// classify turns an envelope into a message.
func (m *Message) classify(e *envelope, lim *Limits) error {
	id, hasID := idOf(e.id)
	if hasID = hasID && len(e.id) <= lim.MaxID; hasID {
		m.ID = id
	}
	isResponse := e.method == nil && (e.result != nil || e.failure != nil)
	if isResponse {
		m.Kind, m.Params = Response, Members{}
		m.ID = m.ID.canonical() // the ID of a response is compared; the ID of a request is echoed
	}
	switch {
	case Unquote(e.version) != "2.0":
		return reject(CodeInvalidRequest, `jsonrpc must be "2.0"`)
	case e.id != nil && !hasID && !(isResponse && string(e.id) == "null"):
		return reject(CodeInvalidRequest, "id must be a string or an integer of at most "+strconv.Itoa(lim.MaxID)+
			" bytes")
	case isResponse:
		return m.response(e.result, e.failure)
	case e.method == nil:
		return reject(CodeInvalidRequest, "message must have a method, a result or an error")
	case e.result != nil || e.failure != nil:
		return reject(CodeInvalidRequest, "message must not have both a method and a result or an error")
	case e.method[0] != '"' || len(e.method) == 2 || len(e.method) > lim.MaxMethod+2:
		return reject(CodeInvalidRequest, "method must be a string of 1 to "+strconv.Itoa(lim.MaxMethod)+" bytes")
	}
	m.Method, m.Kind = Unquote(e.method), Notification
	if hasID {
		m.Kind = Request
	}
	switch {
	case isNull(e.params): // null counts as absent, as in Members.Get
		return nil
	case e.params != nil && e.params[0] != '{':
		return reject(CodeInvalidParams, "params must be an object")
	}
	m.Raw = e.params
	return nil
}

// response reads the fields of a response.
func (m *Message) response(result, failure []byte) error {
	switch {
	case result != nil && failure != nil:
		return reject(CodeInvalidRequest, "response must not have both a result and an error")
	case result == nil:
		return m.failure(failure)
	case m.ID.IsZero():
		return reject(CodeInvalidRequest, "response with a result must have an id")
	case result[0] != '{':
		return reject(CodeInvalidRequest, "result must be an object")
	}
	m.Raw = result
	return nil
}

var errorNames = []string{"code", "message", "data"}

// failure reads the error of a response.
func (m *Message) failure(raw []byte) error {
	if raw[0] != '{' {
		return reject(CodeInvalidRequest, "error must be an object")
	}
	var code, message, data []byte
	for name, value := range All(raw) {
		switch name {
		case "code":
			code = value
		case "message":
			message = value
		case "data":
			data = value
		default:
			if jsonscan.IsVariant(name, errorNames) {
				return reject(CodeInvalidRequest, "key of error differs from a known one in its case")
			}
		}
	}
	n, ok := jsonscan.Integer(code)
	if !ok || len(message) == 0 || message[0] != '"' {
		return reject(CodeInvalidRequest, "error must have an integer code and a string message")
	}
	m.Err = &Error{Code: n, Message: Unquote(message), Data: data}
	return nil
}

// ID identifies a request among those that its sender has in flight. It is a JSON
// string or integer. The zero ID means that there is no id, as in a notification.
// IDs are comparable: a string is kept as it was written, and an integer that is
// spelled 1.0 or 1e0 is kept as 1, except in a [Message] that is a request, whose
// response repeats the spelling.
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
	n, err := strconv.ParseInt(id.canonical().raw, 10, 64)
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

var errBadID = errors.New("id must be a JSON string or an integer")

// UnmarshalJSON implements json.Unmarshaler. It copies data, which may be of any
// length. Unlike most implementations it rejects null. It also rejects strings
// that [Check] rejects, which encoding/json passes on.
func (id *ID) UnmarshalJSON(data []byte) error {
	parsed, ok := idOf(data)
	if !ok || Check(data, Limits{}) != nil {
		return errBadID
	}
	id.raw = strings.Clone(parsed.canonical().raw)
	return nil
}

// idOf returns a valid JSON value as an ID, if it can be one. The ID is a view of value.
func idOf(value []byte) (ID, bool) {
	if isID(value) {
		return ID{jsonscan.View(value)}, true
	}
	if len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return ID{}, false
	}
	_, ok := jsonscan.Integer(value)
	return ID{jsonscan.View(value)}, ok
}

// canonical returns an integer ID with digits only, even if a program that has only floating-point numbers
// wrote it differently.
func (id ID) canonical() ID {
	if id.raw == "" || id.raw[0] == '"' {
		return id
	}
	for i := range len(id.raw) {
		if c := id.raw[i]; c == '.' || c|0x20 == 'e' {
			n, _ := jsonscan.Integer([]byte(id.raw))
			return IntID(n)
		}
	}
	return id
}

// isID reports whether a valid JSON value is a string, or an integer that consists of digits.
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

// AppendRequest appends a request. The id must not be zero. params must be a
// JSON object, or empty for none.
func AppendRequest(dst []byte, id ID, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.Append(dst)
	return appendCall(dst, method, params)
}

// AppendNotification appends a notification. params must be a JSON object, or empty for none.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	return appendCall(dst, method, params)
}

func appendCall(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `,"method":`...)
	dst = AppendString(dst, method)
	if len(params) > 0 {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendResult appends a successful response. The id must not be zero. The result
// must be a JSON object.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.Append(dst)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendError appends a response that reports e. A zero id is written as null if
// nullID is set, and left out otherwise. Revisions before 2025-11-25 require null
// for a request whose id could not be read, later ones require its absence.
// In e.Data, bytes that are not UTF-8 become U+FFFD. Data that is not JSON is left out.
func AppendError(dst []byte, id ID, e *Error, nullID bool) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if !id.IsZero() || nullID {
		dst = append(dst, `,"id":`...)
		dst = id.Append(dst)
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, e.Code, 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	if data := e.validData(); data != nil {
		dst = append(append(dst, `,"data":`...), data...)
	}
	return append(dst, "}}"...)
}

// IsBatch reports whether data begins like a JSON array. Only revision 2025-03-26
// has batches.
func IsBatch(data []byte) bool {
	i := jsonscan.SkipSpace(data, 0)
	return i < len(data) && data[i] == '['
}

// SplitBatch checks data, a JSON array, as strictly as [Parse] checks a message,
// but leaves lone surrogates to Parse. It returns the elements as views of data;
// the caller parses each of them. A batch that is empty or longer than
// lim.MaxBatch is rejected as a whole. The error is an *InvalidMessageError.
func SplitBatch(data []byte, lim Limits) ([][]byte, error) {
	lim.setDefaults()
	s := newScanner(data, &lim)
	s.Surrogates = jsonscan.KeepSurrogates
	if !whole(&s) {
		return nil, malformed(&s, &lim)
	}
	if !IsBatch(data) {
		return nil, reject(CodeInvalidRequest, "batch must be a JSON array")
	}
	var parts [][]byte
	first := jsonscan.SkipSpace(data, jsonscan.SkipSpace(data, 0)+1)
	for i := first; i < len(data) && data[i] != ']'; {
		if len(parts) == lim.MaxBatch {
			err := reject(CodeInvalidRequest, "too many messages in one batch, the limit is "+
				strconv.Itoa(lim.MaxBatch))
			err.limit = &LimitError{"MaxBatch", lim.MaxBatch}
			return nil, err
		}
		end := jsonscan.SkipValue(data, i)
		parts = append(parts, data[i:end:end])
		if i = jsonscan.SkipSpace(data, end); data[i] == ',' {
			i = jsonscan.SkipSpace(data, i+1)
		}
	}
	if len(parts) == 0 {
		return nil, reject(CodeInvalidRequest, "batch is empty")
	}
	return parts, nil
}
