package jsonrpc

import (
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// Codes that JSON-RPC 2.0 itself defines.
const (
	CodeParseError     int64 = -32700 // not JSON, or JSON that two parsers could read differently
	CodeInvalidRequest int64 = -32600 // JSON, but not a JSON-RPC message
	CodeMethodNotFound int64 = -32601
	CodeInvalidParams  int64 = -32602
	CodeInternalError  int64 = -32603
)

// Error is the error in a response. A handler that returns an *Error answers the request with exactly this error.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitzero"` // any JSON value; nil when absent
}

// Error implements the error interface.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (code %d)", e.Message, e.Code)
}

// Is reports whether target is an *Error with the same code and, if target has a
// message, the same message. So errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams})
// matches every error with that code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Message == "" || t.Message == e.Message)
}

// validData returns the data as it is sent, or nil.
func (e *Error) validData() json.RawMessage {
	if len(e.Data) == 0 {
		return nil
	}
	if Check(e.Data, Limits{}) == nil {
		return e.Data
	}
	if data := jsonscan.AppendUTF8(nil, e.Data); Check(data, Limits{}) == nil {
		return data
	}
	return nil
}

// Errorf returns an Error with a formatted message.
func Errorf(code int64, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// InvalidMessageError reports bytes that are not one acceptable message. Code is CodeParseError if the bytes are not
// strict JSON or exceed a limit of the scanner, else CodeInvalidRequest or CodeInvalidParams. It wraps a *[LimitError]
// if a message or batch is nested too deeply, or contains too many keys, values or messages.
type InvalidMessageError struct {
	Code   int64
	Reason string
	Offset int // byte offset of the fault; -1 if the fault concerns the whole message

	limit *LimitError // may be nil
}

// Error implements the error interface.
func (e *InvalidMessageError) Error() string {
	if e.Offset < 0 {
		return "invalid message: " + e.Reason
	}
	return fmt.Sprintf("invalid message: %s at byte %d", e.Reason, e.Offset)
}

// Unwrap returns the *LimitError, if there is one.
func (e *InvalidMessageError) Unwrap() error {
	if e.limit == nil {
		return nil
	}
	return e.limit
}

// Wire returns the error with which to answer the sender.
func (e *InvalidMessageError) Wire() *Error {
	return &Error{Code: e.Code, Message: e.Error()}
}

// LimitError reports that a message or batch exceeds a limit.
type LimitError struct {
	Name  string // the field of [Limits]
	Limit int    // the value of the limit
}

// Error implements the error interface.
func (e *LimitError) Error() string { return fmt.Sprintf("the limit %s is %d", e.Name, e.Limit) }

// Limits bounds the input that the parser accepts. Zero or less means the default of a field. The reader of the input
// must bound its length.
type Limits struct {
	MaxDepth   int // nesting of objects and arrays; default 128
	MaxMembers int // keys of one object; default 10,000
	MaxTokens  int // values and keys in one message; default 1,000,000
	MaxID      int // bytes of an id as written, including the quotes of a string; default 256
	MaxMethod  int // bytes of a method name as written, without its quotes; default 128
	MaxBatch   int // messages in one batch; default 100
}

func (l *Limits) setDefaults() {
	if l.MaxDepth <= 0 {
		l.MaxDepth = 128
	}
	if l.MaxMembers <= 0 {
		l.MaxMembers = 10_000
	}
	if l.MaxTokens <= 0 {
		l.MaxTokens = 1_000_000
	}
	if l.MaxID <= 0 {
		l.MaxID = 256
	}
	if l.MaxMethod <= 0 {
		l.MaxMethod = 128
	}
	if l.MaxBatch <= 0 {
		l.MaxBatch = 100
	}
}
