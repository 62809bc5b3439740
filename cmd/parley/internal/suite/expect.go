package suite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/jsondiff"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/schema"
)

// check adds what is not as expected. If the outcome is another one than expected, it adds only that.
func (e *expectation) check(o *outcome, f *failures) {
	if !e.checkError(o, f) {
		return
	}
	e.checkText(o, f)
	for _, name := range e.Has {
		if !slices.Contains(o.names, name) {
			f.add("/expect/has", Failure{Check: "has", Want: quote(name), Got: quoteAll(o.names)})
		}
	}
	for _, name := range e.Missing {
		if slices.Contains(o.names, name) {
			f.add("/expect/missing", Failure{Check: "missing", Want: "no " + quote(name), Got: quote(name)})
		}
	}
	if e.Count != nil && *e.Count != o.count {
		f.add("/expect/count", Failure{Check: "count", Want: strconv.Itoa(*e.Count), Got: strconv.Itoa(o.count)})
	}
	for _, place := range f.inOrder("/expect/at", e.At) {
		at := jsontext.Pointer("/expect/at").AppendToken(string(place))
		for _, c := range new(jsondiff.Comparison).Compare(e.At[place], valueAt(o.result, place)) {
			f.add(at+c.Path, Failure{Check: "at", Path: string(place + c.Path), Want: describe(c.A),
				Got: describe(c.B)})
		}
	}
	for _, place := range f.inOrder("/expect/schema", e.Schema) {
		e.checkSchema(place, valueAt(o.result, place), f)
	}
	if e.within > 0 && o.took > e.within {
		f.add("/expect/within", Failure{Check: "within", Want: e.within.String(),
			Got: terminal.Duration(o.took).String()})
	}
}

// checkError reports whether the outcome is a result, a tool error or an error of the protocol, as expected.
func (e *expectation) checkError(o *outcome, f *failures) bool {
	want, asExpected := "", false
	switch {
	case e.Error == nil:
		want, asExpected = "a result", !o.failed && o.rejected == nil
	case e.Error.Kind() == 't':
		want, asExpected = "an error", o.failed || o.rejected != nil
	case e.Error.Kind() == '"':
		want, asExpected = "a tool error", o.failed
	default:
		want = "error " + string(e.Error)
		asExpected = o.rejected != nil && jsondiff.Equal(e.Error,
			jsontext.Value(strconv.FormatInt(o.rejected.Code, 10)))
	}
	got := "a result: " + quote(o.text)
	switch {
	case o.rejected != nil:
		got = fmt.Sprintf("error %d: %s", o.rejected.Code, quote(o.text))
	case o.failed:
		got = "a tool error: " + quote(o.text)
	}
	if !asExpected {
		f.add("/expect/error", Failure{Check: "error", Want: want, Got: got})
	}
	return asExpected
}

func (e *expectation) checkText(o *outcome, f *failures) {
	if e.Text != nil {
		want, got := strings.TrimRight(*e.Text, "\n"), strings.TrimRight(o.text, "\n")
		if want != got {
			f.add("/expect/text", differentText(want, got))
		}
	}
	for _, part := range e.Contains {
		if !strings.Contains(o.text, part) {
			f.add("/expect/contains", Failure{Check: "contains", Want: quote(part), Got: quote(o.text)})
		}
	}
	for _, part := range e.Excludes {
		if strings.Contains(o.text, part) {
			f.add("/expect/excludes", Failure{Check: "excludes", Want: "no " + quote(part), Got: quote(o.text)})
		}
	}
	for _, pattern := range e.matches {
		if !pattern.MatchString(o.text) {
			f.add("/expect/matches", Failure{Check: "matches", Want: pattern.String(), Got: quote(o.text)})
		}
	}
}

// differentText returns the failure for two texts that differ: the texts, or their first different line.
func differentText(want, got string) Failure {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	if len(a) == 1 && len(b) == 1 {
		return Failure{Check: "text", Want: quote(want), Got: quote(got)}
	}
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	lineOf := func(lines []string) string {
		if n == len(lines) {
			return "the end of the text"
		}
		return quote(lines[n])
	}
	return Failure{Check: "text", Message: fmt.Sprintf("line %d differs", n+1), Want: lineOf(a), Got: lineOf(b)}
}

func (e *expectation) checkSchema(place jsontext.Pointer, value jsontext.Value, f *failures) {
	at := jsontext.Pointer("/expect/schema").AppendToken(string(place))
	if value == nil {
		f.add(at, Failure{Check: "schema", Path: string(place), Want: "a value", Got: "nothing"})
		return
	}
	err := e.schemas[place].Validate(value)
	var invalid *schema.ValidationError
	switch {
	case errors.As(err, &invalid):
		for _, issue := range invalid.Issues {
			f.add(at, Failure{Check: "schema", Path: string(place) + issue.Path, Want: issue.Expected, Got: issue.Got})
		}
	case err != nil:
		f.add(at, Failure{Check: "schema", Path: string(place), Message: err.Error()})
	}
}

// valueAt returns the value at a JSON Pointer, or nil.
func valueAt(v jsontext.Value, place jsontext.Pointer) jsontext.Value {
	for token := range place.Tokens() {
		var next jsontext.Value
		switch v.Kind() {
		case '{':
			var members map[string]jsontext.Value
			if schema.Decode(v, &members) == nil {
				next = members[token]
			}
		case '[':
			var elements []jsontext.Value
			if i, err := strconv.ParseUint(token, 10, 31); err == nil && schema.Decode(v, &elements) == nil &&
				i < uint64(len(elements)) {
				next = elements[i]
			}
		}
		if next == nil {
			return nil
		}
		v = next
	}
	return v
}

// describe returns a JSON value on one line.
func describe(v jsontext.Value) string {
	if v == nil {
		return "nothing"
	}
	line := v.Clone()
	if line.Compact() != nil {
		return "invalid JSON"
	}
	return shorten(string(line))
}

func quote(text string) string { return shorten(strconv.Quote(text)) }

func quoteAll(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, strconv.Quote(text))
	}
	return shorten("[" + strings.Join(all, ", ") + "]")
}

// maxShown is the number of characters of a value in a report.
const maxShown = 300

func shorten(text string) string {
	if runes := []rune(text); len(runes) > maxShown {
		return string(runes[:maxShown]) + "…"
	}
	return text
}
