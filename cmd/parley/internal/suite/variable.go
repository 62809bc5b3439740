package suite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/schema"
)

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
	return fmt.Sprintf("${%s} has no value; capture it in an earlier test, write ${env:NAME} for an environment variable, or $${ for the text ${", e.name)
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

// texts is text for each element.
func (v *variables) texts(all texts) (texts, error) {
	var expanded texts
	for _, s := range all {
		one, err := v.text(s)
		if err != nil {
			return nil, err
		}
		expanded = append(expanded, one)
	}
	return expanded, nil
}

// value returns a JSON value with the values of the references in its strings. A string that is one reference becomes the
// value with its type. Names of members stay as they are. A nil value stays nil.
func (v *variables) value(raw jsontext.Value) (jsontext.Value, error) {
	if !bytes.Contains(raw, []byte("${")) {
		return raw, nil
	}
	in := jsontext.NewDecoder(bytes.NewReader(raw))
	var b bytes.Buffer
	out := jsontext.NewEncoder(&b)
	for {
		kind, length := in.StackIndex(in.StackDepth())
		isName := kind == '{' && length%2 == 0
		token, err := in.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return bytes.TrimSpace(b.Bytes()), nil
		case err != nil:
			return nil, err
		case token.Kind() != '"' || isName:
			err = out.WriteToken(token)
		default:
			var expanded jsontext.Value
			if expanded, err = v.stringValue(token.String()); err == nil {
				err = out.WriteValue(expanded)
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

// stringValue returns the value of a string in a JSON value.
func (v *variables) stringValue(s string) (jsontext.Value, error) {
	if m := reference.FindStringSubmatch(s); m != nil && m[0] == s && s != "$${" {
		return v.get(m[1])
	}
	text, err := v.text(s)
	if err != nil {
		return nil, err
	}
	return jsontext.AppendQuote(nil, text)
}

// expanded returns the test with the values of all references.
func (v *variables) expanded(t *test) (*test, error) {
	x := *t
	var failed error
	text := func(s string) string {
		expanded, err := v.text(s)
		failed = errors.Join(failed, err)
		return expanded
	}
	value := func(raw jsontext.Value) jsontext.Value {
		expanded, err := v.value(raw)
		failed = errors.Join(failed, err)
		return expanded
	}
	list := func(all texts) texts {
		expanded, err := v.texts(all)
		failed = errors.Join(failed, err)
		return expanded
	}
	x.Read = text(t.Read)
	x.Arguments, x.Params = value(t.Arguments), value(t.Params)
	if t.Complete != nil {
		c := *t.Complete
		c.Value = text(c.Value)
		c.Given = make(map[string]string)
		for name, s := range t.Complete.Given {
			c.Given[name] = text(s)
		}
		x.Complete = &c
	}
	x.Answers = nil
	for _, a := range t.Answers {
		a.Content = value(a.Content)
		x.Answers = append(x.Answers, a)
	}
	e := &x.Expect
	if e.Text != nil {
		whole := text(*e.Text)
		e.Text = &whole
	}
	e.Contains, e.Excludes, e.Has, e.Missing = list(e.Contains), list(e.Excludes), list(e.Has), list(e.Missing)
	e.At = make(map[jsontext.Pointer]jsontext.Value)
	for place, raw := range t.Expect.At {
		e.At[place] = value(raw)
	}
	return &x, failed
}
