// Package suite reads files with tests of an MCP server, runs the tests, and reports the results. [Schema] describes
// the files.
package suite

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/check/yamldoc"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// File is a file with tests.
type File struct {
	Path      string
	Target    string         // a URL or the name of a server; empty if the file has none or Command
	Command   []string       // the words of the command that starts the server
	Revisions []mcp.Revision // in which the tests run; none means the newest one that the server supports
	// AllRevisions means that the tests run in all revisions that the server supports.
	AllRevisions bool

	document *yamldoc.Document
	env      func(name string) (string, bool)
	timeout  time.Duration
	tests    []*test
}

// test is one test. The exported fields are the members in the file, which [Schema] describes.
type test struct {
	Name      string                      `json:"name"`
	Revisions []mcp.Revision              `json:"revisions"`
	Timeout   string                      `json:"timeout"`
	Call      string                      `json:"call"`
	Read      string                      `json:"read"`
	Prompt    string                      `json:"prompt"`
	Complete  *completion                 `json:"complete"`
	List      string                      `json:"list"`
	Method    string                      `json:"method"`
	Arguments jsontext.Value              `json:"arguments"`
	Params    jsontext.Value              `json:"params"`
	Answers   []answer                    `json:"answers"`
	Expect    expectation                 `json:"expect"`
	Capture   map[string]jsontext.Pointer `json:"capture"`

	raw     jsontext.Value
	at      jsontext.Pointer // the place in the file
	timeout time.Duration
}

type completion struct {
	Prompt   string            `json:"prompt"`
	Template string            `json:"template"`
	Argument string            `json:"argument"`
	Value    string            `json:"value"`
	Given    map[string]string `json:"given"`
}

type answer struct {
	Question string           `json:"question"`
	Action   mcp.ElicitAction `json:"action"`
	Content  jsontext.Value   `json:"content"`
}

type expectation struct {
	Error    jsontext.Value                      `json:"error"`
	Text     *string                             `json:"text"`
	Contains texts                               `json:"contains"`
	Excludes texts                               `json:"excludes"`
	Matches  texts                               `json:"matches"`
	Has      texts                               `json:"has"`
	Missing  texts                               `json:"missing"`
	Count    *int                                `json:"count"`
	At       map[jsontext.Pointer]jsontext.Value `json:"at"`
	Schema   map[jsontext.Pointer]jsontext.Value `json:"schema"`
	Within   string                              `json:"within"`

	matches []*regexp.Regexp
	schemas map[jsontext.Pointer]*schema.Schema
	within  time.Duration
}

// for schema.json

// SchemaURI identifies the JSON Schema of the files.
const SchemaURI = "https://raw.githubusercontent.com/parley-mcp/parley/main/cmd/parley/internal/check/suite/schema.json"

// Schema is the JSON Schema of the files.
//
//go:embed schema.json
var Schema []byte

// defaultTimeout is the time for a test if the file does not say another one.
const defaultTimeout = 30 * time.Second

// Read reads a file. env returns the environment variables to which the file refers. The error has a line for each
// mistake, with its position.
func Read(path string, env func(name string) (value string, ok bool)) (*File, error) {
	document, err := yamldoc.Read(path)
	if err != nil {
		return nil, err
	}
	by, err := schema.Compile(Schema)
	if err != nil {
		return nil, fmt.Errorf("invalid schema of parley: %w", err)
	}
	var form struct {
		Target    jsontext.Value   `json:"target"`
		Revisions jsontext.Value   `json:"revisions"`
		Timeout   string           `json:"timeout"`
		Tests     []jsontext.Value `json:"tests"`
	}
	if err := document.Decode(by, &form); err != nil {
		return nil, err
	}
	f := &File{Path: path, document: document, env: env}
	err = errors.Join(f.setTarget(form.Target), f.setRevisions(form.Revisions))
	if f.timeout = duration(form.Timeout, defaultTimeout); f.timeout <= 0 {
		err = errors.Join(err, document.Errorf("/timeout", "timeout must be positive"))
		f.timeout = defaultTimeout
	}
	known := &variables{captured: make(map[string]jsontext.Value), env: env}
	names := make(map[string]int)
	for i, raw := range form.Tests {
		t := &test{raw: raw, at: jsontext.Pointer("/tests").AppendToken(strconv.Itoa(i))}
		f.tests = append(f.tests, t)
		err = errors.Join(err, schema.Decode(raw, t), f.check(t))
		if _, unknown := known.expanded(t); unknown != nil {
			err = errors.Join(err, document.Errorf(t.at, "%w", unknown))
		}
		for name := range t.Capture {
			known.captured[name] = jsontext.Value(`""`)
		}
		if names[t.Name]++; names[t.Name] > 1 {
			t.Name += fmt.Sprintf(" (%d)", names[t.Name])
		}
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) setTarget(raw jsontext.Value) error {
	if raw == nil {
		return nil
	}
	expanded, err := (&variables{env: f.env}).value(raw)
	if err != nil {
		return f.document.Errorf("/target", "%w", err)
	}
	if expanded.Kind() == '"' {
		return schema.Decode(expanded, &f.Target)
	}
	return schema.Decode(expanded, &f.Command)
}

func (f *File) setRevisions(raw jsontext.Value) error {
	if raw == nil {
		return nil
	}
	if raw.Kind() == '"' { // all
		f.AllRevisions = true
		return nil
	}
	return schema.Decode(raw, &f.Revisions)
}

// duration returns the value of a text that matches the schema. It is 0 if the text is too large a number.
func duration(text string, otherwise time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// check checks what the schema does not, and completes the test.
func (f *File) check(t *test) error {
	var failed error
	fail := func(member jsontext.Pointer, format string, args ...any) {
		failed = errors.Join(failed, f.document.Errorf(t.at+member, format, args...))
	}
	kinds := t.kinds()
	if len(kinds) != 1 {
		fail("", "a test needs exactly one of call, read, prompt, complete, list and method; this one has %d",
			len(kinds))
		return failed
	}
	if t.Arguments != nil && t.Call == "" && t.Prompt == "" {
		fail("/arguments", "arguments belong to call and prompt")
	}
	if t.Params != nil && t.Method == "" {
		fail("/params", "params belong to method")
	}
	if t.Prompt != "" && t.Arguments != nil && schema.Decode(t.Arguments, new(map[string]string)) != nil {
		fail("/arguments", "arguments of a prompt must be strings; write numbers in quotes")
	}
	if c := t.Complete; c != nil && (c.Prompt == "") == (c.Template == "") {
		fail("/complete", "completion must have one of prompt and template")
	}
	for i, a := range t.Answers {
		if a.Content != nil && a.Action != "" && a.Action != mcp.ElicitAccept {
			fail(jsontext.Pointer("/answers").AppendToken(strconv.Itoa(i)), "content belongs to the action accept")
		}
	}
	if t.Name == "" {
		t.Name = kinds[0]
	}
	if t.timeout = duration(t.Timeout, f.timeout); t.timeout <= 0 {
		fail("/timeout", "timeout must be positive")
	}
	return errors.Join(failed, f.checkExpectation(t))
}

// kinds returns the requests of a test, as its name if it has none.
func (t *test) kinds() (kinds []string) {
	for _, kind := range []struct{ word, subject string }{
		{"call", t.Call}, {"read", t.Read}, {"prompt", t.Prompt}, {"list", t.List}, {"method", t.Method},
	} {
		if kind.subject != "" {
			kinds = append(kinds, kind.word+" "+kind.subject)
		}
	}
	if c := t.Complete; c != nil {
		kinds = append(kinds, "complete "+c.Argument+" of "+c.Prompt+c.Template)
	}
	return kinds
}

func (f *File) checkExpectation(t *test) error {
	e := &t.Expect
	var failed error
	fail := func(at jsontext.Pointer, err error) {
		failed = errors.Join(failed, f.document.Errorf(t.at+"/expect"+at, "%w", err))
	}
	for i, pattern := range e.Matches {
		compiled, err := regexp.Compile(pattern)
		if err != nil {
			fail(jsontext.Pointer("/matches").AppendToken(strconv.Itoa(i)), err)
		}
		e.matches = append(e.matches, compiled)
	}
	e.schemas = make(map[jsontext.Pointer]*schema.Schema)
	for place, raw := range e.Schema {
		compiled, err := schema.Compile(raw)
		if err != nil {
			fail(jsontext.Pointer("/schema").AppendToken(string(place)), err)
		}
		e.schemas[place] = compiled
	}
	if (e.Has != nil || e.Missing != nil) && t.List == "" && t.Complete == nil {
		fail("", errors.New("has and missing only work with list and complete; use contains for text"))
	}
	if e.within = duration(e.Within, 0); e.Within != "" && e.within <= 0 {
		fail("/within", errors.New("within must be positive"))
	}
	return failed
}

// texts are strings. In a file, one string needs no array.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*t = make(texts, 1)
		return schema.Decode(raw, &(*t)[0])
	}
	return schema.Decode(raw, (*[]string)(t))
}

// reference matches a reference to a variable, and $${, which is the text ${.
var reference = regexp.MustCompile(`\$\$\{|\$\{([^}]*)\}`)

// variables are the values to which strings of a file can refer.
type variables struct {
	captured map[string]jsontext.Value
	env      func(name string) (value string, ok bool)
}

// get returns the value of ${NAME} or ${env:NAME}.
func (v *variables) get(name string) (jsontext.Value, error) {
	if variable, isEnv := strings.CutPrefix(name, "env:"); isEnv {
		value, ok := v.env(variable)
		if !ok {
			return nil, fmt.Errorf("environment variable %s is not set", variable)
		}
		return jsontext.AppendQuote(nil, value)
	}
	value, ok := v.captured[name]
	if !ok {
		return nil, &unknownVariableError{name}
	}
	return value, nil
}

// unknownVariableError reports a reference to a value that no test has captured.
type unknownVariableError struct{ name string }

func (e *unknownVariableError) Error() string {
	return fmt.Sprintf("${%s} has no value; capture it in an earlier test, write ${env:NAME} for an environment "+
		"variable, or $${ for the text ${", e.name)
}

// text returns a string with the values of its references. A value that is not a string becomes its JSON.
func (v *variables) text(s string) (string, error) {
	var failed error
	expanded := reference.ReplaceAllStringFunc(s, func(match string) string {
		if match == "$${" {
			return "${"
		}
		value, err := v.get(match[2 : len(match)-1])
		if err != nil {
			failed = errors.Join(failed, err)
			return ""
		}
		if value.Kind() != '"' {
			return string(value)
		}
		var text string
		failed = errors.Join(failed, schema.Decode(value, &text))
		return text
	})
	return expanded, failed
}

// The places in a test whose strings have no references, and those in which a string that is only a reference becomes
// the value with its type.
var (
	literal = regexp.MustCompile(`^/(name|call|prompt|list|method|answers/\d+/question|expect/(matches|schema))(/|$)`)
	typed   = regexp.MustCompile(`^/(arguments|params|answers|expect/at)(/|$)`)
)

// value returns a JSON value with the values of the references in its strings. Names of members stay as they are.
func (v *variables) value(raw jsontext.Value) (expanded jsontext.Value, failed error) {
	expanded = recording.Edit(raw, func(place jsontext.Pointer, s string) ([]byte, bool) {
		if !strings.Contains(s, "${") || literal.MatchString(string(place)) {
			return nil, false
		}
		m := reference.FindStringSubmatch(s)
		if m != nil && m[0] == s && s != "$${" && typed.MatchString(string(place)) {
			value, err := v.get(m[1])
			failed = errors.Join(failed, err)
			return value, err == nil
		}
		text, err := v.text(s)
		failed = errors.Join(failed, err)
		return jsonrpc.AppendString(nil, text), err == nil
	})
	return expanded, failed
}

// expanded returns the test with the values of all references.
func (v *variables) expanded(t *test) (*test, error) {
	raw, err := v.value(t.raw)
	if err != nil {
		return nil, err
	}
	x := &test{at: t.at, timeout: t.timeout}
	err = schema.Decode(raw, x)
	x.Expect.matches, x.Expect.schemas, x.Expect.within = t.Expect.matches, t.Expect.schemas, t.Expect.within
	return x, err
}
