package jsonrpc

import (
	"strconv"

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
	Method string  // of a request or notification
	Params Members // of a request or notification
	Raw    []byte  // the params object (nil when absent), or the result of a successful response
	Err    *Error  // of a response that reports an error
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
// Lone surrogates, which programs send that cut texts, are replaced by U+FFFD in the
// strings of the result or error of a response, and in nothing else. Then these are
// views of a copy of data.
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
	hasID := isID(e.id) && len(e.id) <= lim.MaxID
	if hasID {
		m.ID = ID{jsonscan.View(e.id)}
	}
	isResponse := e.method == nil && (e.result != nil || e.failure != nil)
	if isResponse {
		m.Kind, m.Params = Response, Members{}
	}
	switch {
	case Unquote(e.version) != "2.0":
		return reject(CodeInvalidRequest, `jsonrpc must be "2.0"`)
	case e.id != nil && !hasID && !(isResponse && string(e.id) == "null"):
		return reject(CodeInvalidRequest, "id must be a string or an integer of at most "+strconv.Itoa(lim.MaxID)+" bytes")
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
	if e.params != nil && e.params[0] != '{' {
		return reject(CodeInvalidParams, "params must be an object")
	}
	m.Raw = e.params
	return nil
}

// response reads the members of a response.
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
			if isVariant(name, errorNames) {
				return reject(CodeInvalidRequest, "member name of error differs from a known one in its case")
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
