package suite

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/check/jsondiff"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
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
		for _, c := range jsondiff.Compare(e.At[place], valueAt(o.result, place)) {
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

// Report contains the results of the tests of a file in one revision.
type Report struct {
	File   string `json:"file"`
	Target string `json:"target"`
	// empty if there was no connection and the newest one was asked for
	Revision mcp.Revision `json:"revision,omitempty"`
	Time     time.Time    `json:"time"`            // of the beginning
	Error    string       `json:"error,omitempty"` // why there was no connection, or why it ended
	Tests    []*Result    `json:"tests"`
}

// Status is the outcome of a test.
type Status string

// The outcomes of tests.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Result is the result of a test.
type Result struct {
	Name     string    `json:"name"`
	Line     int       `json:"line"`
	Status   Status    `json:"status"`
	Reason   string    `json:"reason,omitempty"` // why it was skipped
	Duration float64   `json:"durationMs"`
	Failures []Failure `json:"failures,omitempty"`

	took time.Duration
}

func (r *Result) setDuration(d time.Duration) {
	r.took, r.Duration = d, float64(d.Microseconds())/1000
}

// Failure is one thing that is not as expected.
type Failure struct {
	// the member of expect, or capture or answers; request if there was no result
	Check   string `json:"check"`
	Path    string `json:"path,omitempty"` // a JSON Pointer in the result
	Line    int    `json:"line"`           // of the expectation
	Message string `json:"message,omitempty"`
	Want    string `json:"want,omitempty"`
	Got     string `json:"got,omitempty"`
}

// failures collects the failures of a test.
type failures struct {
	test *test
	file *File
	all  []Failure
}

// add adds a failure of an expectation, which is at a place in the test.
func (f *failures) add(at jsontext.Pointer, failure Failure) {
	failure.Line = f.file.document.Line(f.test.at + at)
	failure.Check = cmp.Or(failure.Check, "request")
	f.all = append(f.all, failure)
}

// inOrder returns the JSON Pointers that are members of an object in the test, in the order of the file.
func (f *failures) inOrder(object jsontext.Pointer, members map[jsontext.Pointer]jsontext.Value) []jsontext.Pointer {
	line := func(p jsontext.Pointer) int {
		return f.file.document.Line(f.test.at + object.AppendToken(string(p)))
	}
	places := slices.Sorted(maps.Keys(members))
	sort.SliceStable(places, func(i, j int) bool { return line(places[i]) < line(places[j]) })
	return places
}

// Counts are numbers of tests.
type Counts struct{ Passed, Failed, Skipped int }

// Add adds the results of a report. A report without a connection counts as a failed test.
func (c *Counts) Add(r *Report) {
	for _, t := range r.Tests {
		switch t.Status {
		case Passed:
			c.Passed++
		case Failed:
			c.Failed++
		case Skipped:
			c.Skipped++
		}
	}
	if r.Error != "" {
		c.Failed++
	}
}

// String returns the numbers as text.
func (c Counts) String() string {
	text := fmt.Sprintf("%d passed, %d failed", c.Passed, c.Failed)
	if c.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", c.Skipped)
	}
	return text
}

// Print writes the result of a test of the file at path for people.
func (r *Result) Print(w io.Writer, path string) {
	name := terminal.Line(r.Name)
	switch r.Status {
	case Passed:
		fmt.Fprintf(w, "  ok    %s (%v)\n", name, terminal.Duration(r.took))
	case Skipped:
		fmt.Fprintf(w, "  skip  %s (%s)\n", name, r.Reason)
	case Failed:
		fmt.Fprintf(w, "  FAIL  %s (%v)\n", name, terminal.Duration(r.took))
		for _, f := range r.Failures {
			fmt.Fprintf(w, "%s", f.lines("        ", path))
		}
	}
}

// lines returns a failure as lines of text that begin with indent.
func (f *Failure) lines(indent, path string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s:%d: %s", indent, path, f.Line, f.Check)
	if f.Path != "" {
		b.WriteString(" " + terminal.Line(f.Path))
	}
	if f.Message != "" {
		b.WriteString(": " + terminal.Line(f.Message))
	}
	b.WriteByte('\n')
	if f.Want != "" {
		fmt.Fprintf(&b, "%s  want %s\n%s  got  %s\n", indent, terminal.JSON(f.Want), indent, terminal.JSON(f.Got))
	}
	return b.String()
}

// The XML form of JUnit.
type (
	junitSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		junitCounts
		Suites []junitSuite `xml:"testsuite"`
	}

	junitCounts struct {
		Tests    int     `xml:"tests,attr"`
		Failures int     `xml:"failures,attr"`
		Errors   int     `xml:"errors,attr"` // revisions without a connection
		Skipped  int     `xml:"skipped,attr"`
		Time     seconds `xml:"time,attr"`
	}

	junitSuite struct {
		Name      string `xml:"name,attr"`
		File      string `xml:"file,attr"`
		Timestamp string `xml:"timestamp,attr"`
		junitCounts
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}

	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}

	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr,omitempty"`
		Time    seconds       `xml:"time,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
		Skipped *junitProblem `xml:"skipped"`
	}

	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// seconds is a duration as JUnit writes it.
type seconds float64

// MarshalText implements encoding.TextMarshaler.
func (s seconds) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%.3f", s), nil }

// WriteJUnit writes reports in the XML form of JUnit, which CI systems read: a test suite for each report.
func WriteJUnit(w io.Writer, reports []*Report) error {
	var all junitSuites
	for _, r := range reports {
		suite := r.junit()
		all.Tests += suite.Tests
		all.Failures += suite.Failures
		all.Errors += suite.Errors
		all.Skipped += suite.Skipped
		all.Time += suite.Time
		all.Suites = append(all.Suites, suite)
	}
	encoded, err := xml.MarshalIndent(all, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, encoded)
	}
	return err
}

// junit returns a report as a test suite.
func (r *Report) junit() junitSuite {
	suite := junitSuite{Name: r.File, File: r.File, Timestamp: r.Time.UTC().Format("2006-01-02T15:04:05"),
		Properties: []junitProperty{{"target", r.Target}, {"revision", string(r.Revision)}}}
	if r.Revision != "" {
		suite.Name += " (" + string(r.Revision) + ")"
	}
	for _, t := range r.Tests {
		c := junitCase{Name: t.Name, Class: suite.Name, File: r.File, Line: t.Line, Time: seconds(t.took.Seconds())}
		switch t.Status {
		case Failed:
			var text strings.Builder
			for _, f := range t.Failures {
				text.WriteString(f.lines("", r.File))
			}
			first, _, _ := strings.Cut(text.String(), "\n")
			c.Failure = &junitProblem{first, t.Failures[0].Check, text.String()}
			suite.Failures++
		case Skipped:
			c.Skipped = &junitProblem{Message: t.Reason}
			suite.Skipped++
		}
		suite.Time += c.Time
		suite.Cases = append(suite.Cases, c)
	}
	if r.Error != "" {
		suite.Errors = 1
		suite.Cases = append(suite.Cases, junitCase{Name: "connection", Class: suite.Name, File: r.File,
			Error: &junitProblem{r.Error, "connection", r.Error}})
	}
	suite.Tests = len(suite.Cases)
	return suite
}
