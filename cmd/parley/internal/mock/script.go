package mock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// script has the responses to the requests for one tool, prompt, resource or template.
type script struct {
	subject   string // such as "tools/call greet"
	responses []*response

	mu   sync.Mutex
	used map[*response]int
}

// response is one response, and what the server does before it.
type response struct {
	when     map[string]json.RawMessage // values of arguments; others may have any value
	exactly  bool                       // there are no other arguments
	redacted bool                       // a value such as redacted-1 represents any value
	times    int                        // 0 means without limit
	latency  *time.Duration             // nil means that of the server
	steps    []step
	outcome
	unfinished bool // the recording ends with the questions
	template   bool // strings have references such as ${NAME}
	echo       bool // the result has the arguments
}

// outcome is the end of a request: a result, or one of the others.
type outcome struct {
	result     json.RawMessage // of the method
	raw        json.RawMessage // a result that is sent unchanged
	err        *jsonrpc.Error
	fault      string
	status     int // of HTTP; 0 for none
	retryAfter time.Duration
}

// The faults of an outcome.
const (
	disconnect = "disconnect"
	truncate   = "truncate"
	malformed  = "malformed"
	noResponse = "no-response"
	rateLimit  = "rate-limit"
)

// step is one thing that a server does before a response. One of its fields is set.
type step struct {
	wait        time.Duration
	progress    *progress
	log         *logMessage
	elicit      *form
	sample      string
	roots       bool
	changed     string // tools or prompts
	updated     string // a URI
	requests    []rpc.InputRequest
	task        bool           // the call becomes a task
	closeStream *time.Duration // the time after which the client reconnects
}

type progress struct {
	done, total float64
	message     string
}

type logMessage struct {
	level, logger string
	data          json.RawMessage
}

type form struct {
	message string
	schema  json.RawMessage
}

// next returns the first response that matches the arguments and was not used as often as it may be.
func (s *script) next(arguments map[string]json.RawMessage) (*response, error) {
	if len(s.responses) == 0 {
		return nil, unmatchedError(nil, "the recording has no response to %s", s.subject)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	exhausted := false
	for _, r := range s.responses {
		if !r.matches(arguments) {
			continue
		}
		if r.times > 0 && s.used[r] >= r.times {
			exhausted = true
			continue
		}
		if s.used == nil {
			s.used = make(map[*response]int)
		}
		s.used[r]++
		return r, nil
	}
	if exhausted {
		return nil, s.unmatched("each response to %s for these arguments was used as often as its times allow",
			s.subject)
	}
	return nil, s.unmatched("no response to %s for these arguments", s.subject)
}

// index returns the position of a response, for a later run of the same handler.
func (s *script) index(of *response) int {
	for i, r := range s.responses {
		if r == of {
			return i
		}
	}
	return -1
}

// Bounds of the error for a request without a response.
const (
	maxListed      = 20
	maxListedBytes = 200
)

// unmatched returns an error whose data has the arguments that have a response.
func (s *script) unmatched(format string, args ...any) *jsonrpc.Error {
	var listed []string
	for _, r := range s.responses {
		text := r.arguments()
		if len(listed) > 0 && listed[len(listed)-1] == text {
			continue
		}
		if listed = append(listed, text); len(listed) == maxListed {
			break
		}
	}
	e := unmatchedError(listed, format, args...)
	e.Message += "; there are responses for " + strings.Join(listed, ", ")
	return e
}

// unmatchedError returns an error about a request without a response. Available are the arguments that have one.
func unmatchedError(available []string, format string, args ...any) *jsonrpc.Error {
	data, _ := json.Marshal(struct { // strings have an encoding
		Mock      string   `json:"mock"`
		Available []string `json:"available"`
	}{"no response", append([]string{}, available...)})
	e := jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "mock: "+format, args...)
	e.Data = data
	return e
}

// arguments describes the arguments for which a response is.
func (r *response) arguments() string {
	if len(r.when) == 0 {
		if r.exactly {
			return "{}"
		}
		return "all arguments"
	}
	text, _ := json.Marshal(r.when) // it was decoded from JSON
	if len(text) > maxListedBytes {
		text = append(bytes.ToValidUTF8(text[:maxListedBytes], nil), "…"...)
	}
	return string(text)
}

func (r *response) matches(arguments map[string]json.RawMessage) bool {
	if r.exactly && len(arguments) != len(r.when) {
		return false
	}
	for name, want := range r.when {
		got, given := arguments[name]
		if !given || !equal(got, want) && !(r.redacted && equalExceptSecrets(got, want)) {
			return false
		}
	}
	return true
}

// equal reports whether two JSON values are equal: the order of members and the spelling of numbers do not count.
func equal(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || bytes.Equal(canonical(a), canonical(b))
}

// equalExceptSecrets reports whether two JSON values are equal if secrets that a recording has replaced may have any
// value.
func equalExceptSecrets(got, recorded json.RawMessage) bool {
	if !bytes.Contains(recorded, []byte(`"redacted-`)) {
		return equal(got, recorded)
	}
	if recorded[0] == '"' {
		return true
	}
	a, b := membersOf(got), membersOf(recorded)
	if len(a) != len(b) {
		return false
	}
	for name, want := range b {
		if value, ok := a[name]; !ok || !equalExceptSecrets(value, want) {
			return false
		}
	}
	return true
}

// membersOf returns the members of an object, or the elements of an array by their index.
func membersOf(value json.RawMessage) map[string]json.RawMessage {
	var elements []jsontext.Value
	if len(value) > 0 && value[0] == '[' && jsonv2.Unmarshal(value, &elements) == nil {
		members := make(map[string]json.RawMessage, len(elements))
		for i, element := range elements {
			members[strconv.Itoa(i)] = json.RawMessage(element)
		}
		return members
	}
	return argumentsOf(value)
}

// canonical returns the value of RFC 8785, or the value itself if it has none, such as one with large integers.
func canonical(value json.RawMessage) []byte {
	v := jsontext.Value(bytes.Clone(value))
	if err := v.Canonicalize(); err != nil {
		return value
	}
	return v
}

// argumentsOf returns the members of an object of arguments, or none.
func argumentsOf(raw json.RawMessage) map[string]json.RawMessage {
	members := make(map[string]json.RawMessage)
	for name, value := range jsonrpc.All(raw) {
		members[name] = value
	}
	return members
}

// argumentsOfTexts returns the arguments of a prompt or the variables of a template.
func argumentsOfTexts(texts map[string]string) map[string]json.RawMessage {
	members := make(map[string]json.RawMessage, len(texts))
	for name, text := range texts {
		members[name] = jsonrpc.AppendString(nil, text)
	}
	return members
}

// statusText describes the status of an HTTP response.
func statusText(status int) string { return fmt.Sprintf("mock: HTTP status %d", status) }
