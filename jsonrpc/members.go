package jsonrpc

import (
	"encoding/json"
	"iter"
	"math"
	"slices"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// inlineMembers is how many keys of an object are recorded while it is scanned:
// as many as the params of tools/call can have.
const inlineMembers = 5

// Members locates the members, keys with their values, of a scanned object. Its values are views of the input. The zero
// Members is an empty object.
type Members struct {
	raw      []byte // the object
	n        int
	recorded int // how many keys, the first ones, are recorded in name and at
	name     [inlineMembers]string
	at       [inlineMembers]span
}

// span locates a value in its object. A slice would be three times as large, and
// the garbage collector would follow it.
type span struct{ from, to uint32 }

// add records a key whose value is object[from:to].
func (m *Members) add(name string, from, to int) {
	if m.recorded == m.n && m.n < inlineMembers && uint64(to) <= math.MaxUint32 {
		m.name[m.n], m.at[m.n] = name, span{uint32(from), uint32(to)}
		m.recorded++
	}
	m.n++
}

func (m *Members) value(i int) []byte {
	at := m.at[i]
	return m.raw[at.from:at.to:at.to]
}

// MembersOf returns the keys and values of an object that has been checked, or
// that this program has written itself. They are views of it.
func MembersOf(object []byte) *Members {
	m := &Members{raw: object}
	for w := walk(object); w.next(); {
		m.add(w.name, w.from, w.to)
	}
	return m
}

// Raw returns the object as it was written, or nil for the zero Members. It must not be modified.
func (m *Members) Raw() []byte { return m.raw }

// Len returns the number of keys.
func (m *Members) Len() int { return m.n }

// Get returns the raw value of a key, and whether it is present. Null counts as absent: null means nothing else
// anywhere in the protocol, and many encoders write it for fields that are not set.
func (m *Members) Get(name string) ([]byte, bool) {
	for i := range m.recorded {
		if m.name[i] == name {
			return present(m.value(i))
		}
	}
	if m.n > m.recorded {
		if value, ok := Get(m.raw, name); ok {
			return present(value)
		}
	}
	return nil, false
}

// All returns keys and values in the order of the input.
func (m *Members) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) { // a single function, so that a loop allocates nothing
		if m.n > m.recorded {
			All(m.raw)(yield)
			return
		}
		for i := range m.recorded {
			if !yield(m.name[i], m.value(i)) {
				return
			}
		}
	}
}

// All returns the keys and values of obj, which must be an object that has passed [Parse] or [Check]. For other bytes
// it does not panic, but what it yields is unspecified.
func All(obj []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for w := walk(obj); w.next(); {
			if !yield(w.name, obj[w.from:w.to:w.to]) {
				return
			}
		}
	}
}

// Get returns the raw value of a key of obj, which must be an object that has passed [Parse] or [Check], as for [All].
func Get(obj []byte, name string) ([]byte, bool) {
	for w := walk(obj); w.next(); {
		if w.name == name {
			return obj[w.from:w.to:w.to], true
		}
	}
	return nil, false
}

// Without returns obj without some of its keys, or obj itself if it contains none of them. It does not modify obj,
// which must have passed [Parse] or [Check], as for [All].
func Without(obj json.RawMessage, names ...string) json.RawMessage {
	if !slices.ContainsFunc(names, func(name string) bool { _, ok := Get(obj, name); return ok }) {
		return obj
	}
	kept := append(make(json.RawMessage, 0, len(obj)), '{')
	for name, value := range All(obj) {
		if slices.Contains(names, name) {
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(append(AppendString(kept, name), ':'), value...)
	}
	return append(kept, '}')
}

func present(value []byte) ([]byte, bool) {
	if isNull(value) {
		return nil, false
	}
	return value, true
}

func isNull(value []byte) bool { return string(value) == "null" }

// walker steps through the keys of an object that has been checked.
type walker struct {
	obj      []byte
	i        int // where the next key begins
	name     string
	from, to int // the value is obj[from:to]
}

func walk(obj []byte) walker {
	i := jsonscan.SkipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return walker{}
	}
	return walker{obj: obj, i: jsonscan.SkipSpace(obj, i+1)}
}

func (w *walker) next() bool {
	if w.i >= len(w.obj) || w.obj[w.i] != '"' {
		return false
	}
	end := jsonscan.SkipString(w.obj, w.i)
	w.name = Unquote(w.obj[w.i:end])
	colon := jsonscan.SkipSpace(w.obj, end)
	w.from = min(jsonscan.SkipSpace(w.obj, colon+1), len(w.obj))
	w.to = jsonscan.SkipValue(w.obj, w.from)
	if w.i = jsonscan.SkipSpace(w.obj, w.to); w.i < len(w.obj) && w.obj[w.i] == ',' {
		w.i = jsonscan.SkipSpace(w.obj, w.i+1)
	} else {
		w.i = len(w.obj)
	}
	return true
}

// identify sets Kind and ID of a message that the scanner has rejected, so that the request
// that waits for it fails at once. A message that exceeds a limit may be of any kind. A
// message with another fault is identified only if it is a response: a request that is not
// strict JSON has no id that two parsers agree on.
func (m *Message) identify(data []byte, lim *Limits, exceeds bool) {
	var e envelope
	for w := walk(data); w.next(); {
		member := e.member(w.name)
		if member == nil {
			continue
		}
		if *member != nil || w.from == w.to { // ambiguous or incomplete
			return
		}
		*member = data[w.from:w.to:w.to]
	}
	isResponse := e.method == nil && (e.result != nil || e.failure != nil)
	if Unquote(e.version) != "2.0" || !isResponse && (!exceeds || e.method == nil) {
		return
	}
	id, hasID := idOf(e.id)
	hasID = hasID && len(e.id) <= lim.MaxID && Check(e.id, Limits{}) == nil
	switch {
	case hasID && isResponse:
		m.Kind, id = Response, id.canonical()
	case hasID:
		m.Kind = Request
	case e.id == nil && !isResponse:
		m.Kind = Notification
	}
	if hasID {
		m.ID = id
	}
}

// Check reports whether data is one strict JSON value within lim. The error is
// an *InvalidMessageError. MaxID, MaxMethod and MaxBatch do not matter.
func Check(data []byte, lim Limits) error {
	lim.setDefaults()
	s := newScanner(data, &lim)
	if !whole(&s) {
		return malformed(&s, &lim)
	}
	return nil
}

func newScanner(data []byte, lim *Limits) jsonscan.Scanner {
	return jsonscan.Scanner{Data: data, MaxDepth: lim.MaxDepth, MaxMembers: lim.MaxMembers, MaxTokens: lim.MaxTokens}
}

// whole scans data as one value and nothing else.
func whole(s *jsonscan.Scanner) bool {
	var inline [jsonscan.InlineNames]string
	names := jsonscan.NamesIn(inline[:])
	return s.Whole(&names)
}

// malformed returns the error of a scanner that has failed.
func malformed(s *jsonscan.Scanner, lim *Limits) *InvalidMessageError {
	err := s.Err()
	return &InvalidMessageError{Code: CodeParseError, Reason: err.Fault.String(), Offset: err.Offset,
		limit: exceeded(err.Fault, lim)}
}

// exceeded returns the limit that was exceeded, or nil for any other fault.
func exceeded(fault jsonscan.Fault, lim *Limits) *LimitError {
	switch fault {
	case jsonscan.TooDeep:
		return &LimitError{"MaxDepth", lim.MaxDepth}
	case jsonscan.TooManyMembers:
		return &LimitError{"MaxMembers", lim.MaxMembers}
	case jsonscan.TooManyTokens:
		return &LimitError{"MaxTokens", lim.MaxTokens}
	}
	return nil
}

// envelopeNames lists the keys that JSON-RPC 2.0 defines.
var envelopeNames = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// envelope contains the fields of a message as written; absent ones are nil.
type envelope struct {
	version, id, method, params, result, failure []byte
}

// member returns the field for a key, or nil.
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

// scan scans the outermost object, which starts at i, and what follows it. It rejects keys that only a case-insensitive
// parser would take for the keys of JSON-RPC. Lone surrogates in the outcome of a request are replaced: the request has
// run, and its outcome must not be lost.
func (e *envelope) scan(s *jsonscan.Scanner, i int, params *Members) bool {
	var inline [jsonscan.InlineNames]string
	names := jsonscan.NamesIn(inline[:])
	var o jsonscan.Object
	for i = s.Open(i, &names, &o); i >= 0 && !o.Closed; i = s.Next(i, &names, &o) {
		start := i
		name, from := s.Member(i, &names, &o)
		if from < 0 {
			return false
		}
		known := e.member(name)
		if known == nil && jsonscan.IsVariant(name, envelopeNames) {
			s.Fail(jsonscan.SkipSpace(s.Data, start), jsonscan.NameCase)
			return false
		}
		switch known {
		case &e.params:
			i = params.scan(s, from, &names)
		case &e.result, &e.failure:
			s.Surrogates = jsonscan.ReplaceSurrogates
			i = s.Value(from, &names)
			s.Surrogates = jsonscan.RejectSurrogates
		default:
			i = s.Value(from, &names)
		}
		if i < 0 {
			return false
		}
		if known != nil {
			*known = s.Data[from:i:i]
		}
	}
	return i >= 0 && s.Rest(i)
}

// scan scans the value that starts at i and, if it is an object, records its
// keys.
func (m *Members) scan(s *jsonscan.Scanner, i int, names *jsonscan.Names) int {
	if i >= len(s.Data) || s.Data[i] != '{' {
		return s.Value(i, names)
	}
	start := i
	var o jsonscan.Object
	for i = s.Open(i, names, &o); i >= 0 && !o.Closed; i = s.Next(i, names, &o) {
		name, from := s.Member(i, names, &o)
		if from < 0 {
			return -1
		}
		if i = s.Value(from, names); i < 0 {
			return -1
		}
		m.add(name, from-start, i-start)
	}
	if i >= 0 {
		m.raw = s.Data[start:i:i]
	}
	return i
}

// Unquote returns the text of a JSON string that has passed [Parse] or [Check].
// The result is a view of raw if the string has no escapes, else a copy. For
// anything but a string Unquote returns "".
func Unquote(raw []byte) string { return jsonscan.Unquote(raw) }

// AppendString appends s as a JSON string, with as few escapes as JSON allows.
// Each byte that is not UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte { return jsonscan.AppendString(dst, s) }
