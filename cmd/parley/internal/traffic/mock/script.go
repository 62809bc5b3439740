package mock

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/check/jsondiff"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// script contains the responses to the requests for one tool, prompt, resource or template.
type script struct {
	subject   string // such as "tools/call greet"
	responses []*response

	mu   sync.Mutex
	used map[*response]int
}

// response is one response, and what the server does before it. Its exported fields, and those of step, are fields of
// the YAML file.
type response struct {
	When              json.RawMessage `json:"when"`
	Steps             []step          `json:"steps"`
	Text              *string         `json:"text"`
	Content           json.RawMessage `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
	Blob              *string         `json:"blob"`
	Messages          json.RawMessage `json:"messages"`
	Error             *jsonrpc.Error  `json:"error"`
	Times             int             `json:"times"`   // 0 means without limit
	Latency           *time.Duration  `json:"latency"` // nil means that of the server

	result   json.RawMessage            // of the method; nil for an error
	when     map[string]json.RawMessage // values of arguments; others may have any value
	recorded bool                       // there are no other arguments, and strings have no references such as ${NAME}
	redacted bool                       // a value such as redacted-1 represents any value
	echo     bool                       // the result has the arguments
}

// step is one thing that a server does before a response.
type step struct {
	Wait     *time.Duration   `json:"wait"`
	Progress *float64         `json:"progress"`
	Total    float64          `json:"total"`
	Message  string           `json:"message"`
	Log      json.RawMessage  `json:"log"`
	Level    mcp.LoggingLevel `json:"level"`
	Logger   string           `json:"logger"`
	Elicit   *string          `json:"elicit"` // a message
	Schema   json.RawMessage  `json:"schema"`
	Sample   *string          `json:"sample"`
	Roots    bool             `json:"roots"`
	Changed  string           `json:"changed"` // tools, prompts or resources
	Updated  string           `json:"updated"` // a URI

	key    string          // of a question of 2026-07-28; empty: the server makes one
	url    string          // of the elicitation of a recording
	sample json.RawMessage // the params of sampling/createMessage
}

// asks reports whether a response has questions.
func (s *script) asks() bool {
	for _, r := range s.responses {
		for _, step := range r.Steps {
			if step.Elicit != nil || step.sample != nil || step.Roots {
				return true
			}
		}
	}
	return false
}

// next returns the index of the first response that matches the arguments and was not used as often as it may be.
func (s *script) next(arguments map[string]json.RawMessage) (int, error) {
	if len(s.responses) == 0 {
		return 0, unmatchedError(nil, "the recording has no response to %s", s.subject)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	exhausted := false
	for i, r := range s.responses {
		if !r.matches(arguments) {
			continue
		}
		if r.Times > 0 && s.used[r] >= r.Times {
			exhausted = true
			continue
		}
		if s.used == nil {
			s.used = make(map[*response]int)
		}
		s.used[r]++
		return i, nil
	}
	if exhausted {
		return 0, s.unmatched("all responses to %s for these arguments are used up (times)", s.subject)
	}
	return 0, s.unmatched("no response to %s for these arguments", s.subject)
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
		text := "all arguments"
		if r.recorded || len(r.when) > 0 {
			text = describe(r.when)
		}
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

// describe describes arguments.
func describe(arguments map[string]json.RawMessage) string {
	text, _ := json.Marshal(arguments) // they were decoded from JSON
	return terminal.Shorten(string(text), maxListedBytes)
}

func (r *response) matches(arguments map[string]json.RawMessage) bool {
	if r.recorded && len(arguments) != len(r.when) {
		return false
	}
	for name, want := range r.when {
		got, given := arguments[name]
		if !given {
			return false
		}
		for _, change := range jsondiff.Compare(jsontext.Value(want), jsontext.Value(got)) {
			if !r.redacted || change.B == nil || !bytes.HasPrefix(change.A, []byte(`"redacted-`)) {
				return false
			}
		}
	}
	return true
}

// subjectOf names what a request is for, such as "tools/call greet"; the subject of a method without entries is the
// method.
func subjectOf(method string, params json.RawMessage) string {
	if method == mcp.MethodComplete {
		ref, _ := jsonrpc.Get(params, "ref")
		argument, _ := jsonrpc.Get(params, "argument")
		return method + " " + string(canonical(ref)) + " " + nameOf(argument)
	}
	if !hasScript(method) {
		return method
	}
	return method + " " + nameOf(params)
}

// nameOf returns the name of the tool or prompt in params, or the URI.
func nameOf(params json.RawMessage) string {
	name, isName := jsonrpc.Get(params, "name")
	if !isName {
		name, _ = jsonrpc.Get(params, "uri")
	}
	return jsonrpc.Unquote(name)
}

// matchedBy returns what the responses to a request are selected by.
func matchedBy(method string, params json.RawMessage) map[string]json.RawMessage {
	switch method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		given, _ := jsonrpc.Get(params, "arguments")
		return argumentsOf(given)
	case mcp.MethodReadResource:
		uri, _ := jsonrpc.Get(params, "uri")
		return map[string]json.RawMessage{"uri": uri}
	case mcp.MethodComplete:
		argument, _ := jsonrpc.Get(params, "argument")
		value, _ := jsonrpc.Get(argument, "value")
		return map[string]json.RawMessage{"value": value}
	}
	members := argumentsOf(params)
	delete(members, "_meta")
	return members
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

// maxExpanded is the limit of the values that references in one result are replaced by, in bytes.
const maxExpanded = 4 << 20

// end returns the result or error of a response. Values contains the values of references, which do not occur in
// recordings.
func (r *response) end(values map[string]json.RawMessage) (json.RawMessage, error) {
	switch {
	case r.Error == nil && r.recorded:
		return r.result, nil
	case r.Error == nil:
		return expand(r.result, values), nil
	case r.recorded:
		return nil, r.Error
	}
	e := *r.Error
	e.Message, e.Data = expandText(e.Message, values), expand(e.Data, values)
	return nil, &e
}

// expand replaces references such as ${NAME} in the strings of a JSON value. A string below structuredContent
// that is only a reference becomes the value itself.
func expand(text json.RawMessage, values map[string]json.RawMessage) json.RawMessage {
	left := maxExpanded
	return recording.Edit(text, func(place jsontext.Pointer, value string) ([]byte, bool) {
		if !strings.Contains(value, "${") {
			return nil, false
		}
		if name, ok := onlyReference(value); ok && strings.HasPrefix(string(place), "/structuredContent/") {
			value, known := values[name]
			return value, known
		}
		return jsonrpc.AppendString(nil, expandBounded(value, values, &left)), true
	})
}

// onlyReference returns the name if a string is one reference.
func onlyReference(text string) (name string, ok bool) {
	name, ok = strings.CutPrefix(text, "${")
	if !ok || !strings.HasSuffix(name, "}") {
		return "", false
	}
	name = name[:len(name)-1]
	return name, !strings.ContainsAny(name, "${}")
}

// expandText replaces the references in a text.
func expandText(text string, values map[string]json.RawMessage) string {
	left := maxExpanded
	return expandBounded(text, values, &left)
}

// expandBounded replaces the references in a text. A reference to an unknown name remains, and $${ is a literal ${.
func expandBounded(text string, values map[string]json.RawMessage, left *int) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		name, after, closed := strings.Cut(rest, "}")
		switch value, known := values[name]; {
		case !found:
			b.WriteString(text)
			return b.String()
		case strings.HasSuffix(before, "$"):
			b.WriteString(before[:len(before)-1] + "${")
			text = rest
		case !closed || !known || len(value) > *left:
			b.WriteString(before + "${")
			text = rest
		default:
			*left -= len(value)
			shown := string(value)
			if len(value) > 0 && value[0] == '"' {
				shown = jsonrpc.Unquote(value)
			}
			b.WriteString(before + shown)
			text = after
		}
	}
}
