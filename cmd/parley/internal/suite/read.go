package suite

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/yamldoc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// defaultTimeout is the time for a test if the file does not say another one.
const defaultTimeout = 30 * time.Second

// Read reads a file. env returns the environment variables to which the file refers. The error has a line for each mistake,
// with its position.
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
		Target    jsontext.Value `json:"target"`
		Revisions jsontext.Value `json:"revisions"`
		Timeout   string         `json:"timeout"`
		Tests     []*test        `json:"tests"`
	}
	if err := document.Decode(by, &form); err != nil {
		return nil, err
	}
	f := &File{Path: path, document: document, env: env, tests: form.Tests}
	err = errors.Join(f.setTarget(form.Target), f.setRevisions(form.Revisions))
	if f.timeout = duration(form.Timeout, defaultTimeout); f.timeout <= 0 {
		err = errors.Join(err, document.Errorf("/timeout", "timeout must be positive"))
		f.timeout = defaultTimeout
	}
	known := &variables{captured: make(map[string]jsontext.Value), env: env}
	names := make(map[string]int)
	for i, t := range f.tests {
		t.at = jsontext.Pointer("/tests").AppendToken(strconv.Itoa(i))
		err = errors.Join(err, f.check(t))
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
		f.Revisions = mcp.Revisions()
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
		fail("", "test must have one of call, read, prompt, complete, list and method, not %d", len(kinds))
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
		fail("", errors.New("has and missing belong to list and complete; use contains for a text"))
	}
	if e.within = duration(e.Within, 0); e.Within != "" && e.within <= 0 {
		fail("/within", errors.New("within must be positive"))
	}
	return failed
}
