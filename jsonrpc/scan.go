package jsonrpc

import "github.com/parley-mcp/parley/internal/jsonscan"

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
	return &InvalidMessageError{Code: CodeParseError, Reason: err.Fault.String(), Offset: err.Offset, limit: exceeded(err.Fault, lim)}
}

// exceeded returns the limit that a fault means, or nil.
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

// envelopeNames are the members that JSON-RPC 2.0 defines.
var envelopeNames = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// envelope is the members of a message as written, nil when absent.
type envelope struct {
	version, id, method, params, result, failure []byte
}

// member returns the field for the member called name, or nil.
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

// scan scans the outermost object, which starts at i, and what follows it. It
// rejects member names that only a case-insensitive parser would take for those of
// JSON-RPC. Lone surrogates in the outcome of a request are replaced: the request
// has run, and its outcome must not be lost.
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
		if known == nil && isVariant(name, envelopeNames) {
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
// members.
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
