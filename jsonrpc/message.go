package jsonrpc

import "strconv"

// Kind says what a message is.
type Kind uint8

// The kinds of messages.
const (
	Invalid      Kind = iota // not a message; Parse returned an error
	Request                  // has an id and a method; wants one response
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

// Parse reads one message from data, which must stay unmodified for as long as
// the message or anything taken from it is in use. It may be called concurrently.
//
// The error, if any, is an *InvalidMessageError; of m then hold
//   - ID, when one could be read;
//   - Kind, when it is known what was meant: a Response is never answered, and its
//     ID tells which caller will get no better one; with CodeInvalidParams a
//     Request is answered and a Notification is not.
//
// Batches are not messages: see [SplitBatch].
func Parse(data []byte, lim Limits) (m Message, err error) {
	err = m.Parse(data, lim)
	return m, err
}

// Parse reads one message into m, whatever that has been before, as the function Parse
// does: for a Message that is part of something larger, or used again and again. To copy
// one costs a good part of what scanning does.
func (m *Message) Parse(data []byte, lim Limits) error {
	*m = Message{}
	s := scanner{data: data, lim: lim}
	s.lim.setDefaults()
	i := s.space(0)
	if i >= len(data) || data[i] != '{' {
		if !s.whole() {
			return s.err()
		}
		return refuse(CodeInvalidRequest, "a message is a JSON object")
	}
	var e envelope
	if !s.envelope(i, &e, &m.Params) {
		m.Params = Members{}
		return s.err()
	}
	return m.classify(&e, &s.lim)
}

// envelopeNames are the members that JSON-RPC 2.0 defines, as in envelope.member.
var envelopeNames = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// envelope is the members of a message as written, nil when absent.
type envelope struct {
	version, id, method, params, result, failure []byte
}

func (e *envelope) member(name string) *[]byte {
	switch name {
	case "jsonrpc":
		return &e.version
	case "id":
		return &e.id
	case "method":
		return &e.method
	case "params":
		return &e.params
	case "result":
		return &e.result
	case "error":
		return &e.failure
	}
	return nil
}

// envelope scans the outermost object, which starts at i, and what follows it.
// Member names that only a case-insensitive parser would take for one of
// JSON-RPC's fail.
func (s *scanner) envelope(i int, e *envelope, params *Members) bool {
	var inline [inlineNames]string
	open := openNames{inline[:0]}
	names := open.object()
	s.depth, s.tokens = 1, 1
	if i = s.space(i + 1); i < len(s.data) && s.data[i] == '}' {
		return s.end(i + 1)
	}
	for {
		start := i
		name, from := s.member(i, &open, &names)
		if from < 0 {
			return false
		}
		known := e.member(name)
		if known == nil && isVariant(name, envelopeNames) {
			s.fail(start, "member name differs from a known one in its case")
			return false
		}
		if known == &e.params {
			i = s.params(from, &open, params)
		} else {
			i = s.value(from, &open)
		}
		if i < 0 {
			return false
		}
		if known != nil {
			*known = s.data[from:i:i]
		}
		if i = s.space(i); i >= len(s.data) {
			s.fail(i, "unexpected end")
			return false
		}
		switch s.data[i] {
		case ',':
			i = s.space(i + 1)
		case '}':
			return s.end(i + 1)
		default:
			s.fail(i, "expected , or }")
			return false
		}
	}
}

// params scans a value as [scanner.value] does, and if it is an object notes its members.
func (s *scanner) params(i int, open *openNames, members *Members) int {
	if i >= len(s.data) || s.data[i] != '{' {
		return s.value(i, open)
	}
	if s.tokens++; s.tokens > s.lim.MaxTokens {
		return s.fail(i, "too many values in one message")
	}
	end := s.object(i, open, members)
	if end > 0 {
		members.raw = s.data[i:end:end]
	}
	return end
}

func refuse(code int64, reason string) *InvalidMessageError {
	return &InvalidMessageError{Code: code, Reason: reason, Offset: -1}
}

// classify makes a message of its envelope.
func (m *Message) classify(e *envelope, lim *Limits) error {
	hasID := isID(e.id) && len(e.id) <= lim.MaxID
	if hasID {
		m.ID = ID{view(e.id)}
	}
	isResponse := e.method == nil && (e.result != nil || e.failure != nil)
	if isResponse {
		m.Kind, m.Params = Response, Members{}
	}
	switch {
	case Unquote(e.version) != "2.0":
		return refuse(CodeInvalidRequest, `jsonrpc must be "2.0"`)
	case e.id != nil && !hasID && !(isResponse && string(e.id) == "null"):
		return refuse(CodeInvalidRequest, "id must be a string or an integer of at most "+strconv.Itoa(lim.MaxID)+" bytes")
	case isResponse:
		return m.response(e.result, e.failure)
	case e.method == nil:
		return refuse(CodeInvalidRequest, "a message has a method, a result or an error")
	case e.result != nil || e.failure != nil:
		return refuse(CodeInvalidRequest, "a message with a method has neither result nor error")
	case e.method[0] != '"' || len(e.method) == 2 || len(e.method) > lim.MaxMethod+2:
		return refuse(CodeInvalidRequest, "method must be a string of 1 to "+strconv.Itoa(lim.MaxMethod)+" bytes")
	}
	m.Method, m.Kind = Unquote(e.method), Notification
	if hasID {
		m.Kind = Request
	}
	if e.params != nil && e.params[0] != '{' {
		return refuse(CodeInvalidParams, "params must be an object")
	}
	m.Raw = e.params
	return nil
}

func (m *Message) response(result, failure []byte) error {
	switch {
	case result != nil && failure != nil:
		return refuse(CodeInvalidRequest, "a response has a result or an error, not both")
	case result == nil:
		return m.failure(failure)
	case m.ID.IsZero():
		return refuse(CodeInvalidRequest, "a result has the id of its request")
	case result[0] != '{':
		return refuse(CodeInvalidRequest, "a result is an object")
	}
	m.Raw = result
	return nil
}

var errorNames = []string{"code", "message", "data"}

func (m *Message) failure(raw []byte) error {
	if raw[0] != '{' {
		return refuse(CodeInvalidRequest, "an error is an object")
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
				return refuse(CodeInvalidRequest, "a member name of the error differs from a known one in its case")
			}
		}
	}
	n, err := strconv.ParseInt(string(code), 10, 64)
	if err != nil || len(message) == 0 || message[0] != '"' {
		return refuse(CodeInvalidRequest, "an error has an integer code and a message")
	}
	m.Err = &Error{Code: n, Message: Unquote(message), Data: data}
	return nil
}
