package suite

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

// Report has the results of the tests of a file in one revision.
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
	if failure.Check == "" {
		failure.Check = "request"
	}
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

// WriteJUnit writes reports in the XML form of JUnit, which CI systems read: a test suite for each report.
func WriteJUnit(w io.Writer, reports []*Report) error {
	x := &xmlWriter{}
	x.b.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
	var total Counts
	var took time.Duration
	unreachable := 0
	for _, r := range reports {
		total.Add(r)
		took += r.took()
		if r.Error != "" {
			unreachable++
		}
	}
	x.open("testsuites", countsOf(total, unreachable, took)...)
	for _, r := range reports {
		x.suite(r)
	}
	x.close("testsuites")
	_, err := io.WriteString(w, x.b.String())
	return err
}

func (r *Report) took() (sum time.Duration) {
	for _, t := range r.Tests {
		sum += t.took
	}
	return sum
}

// countsOf returns the attributes of a suite, or of all. failed tests that had no connection are errors.
func countsOf(c Counts, unreachable int, took time.Duration) []string {
	return []string{
		"tests", fmt.Sprint(c.Passed + c.Failed + c.Skipped),
		"failures", fmt.Sprint(c.Failed - unreachable),
		"errors", fmt.Sprint(unreachable),
		"skipped", fmt.Sprint(c.Skipped),
		"time", seconds(took),
	}
}

// suite writes a report.
func (x *xmlWriter) suite(r *Report) {
	name := r.File
	if r.Revision != "" {
		name += " (" + string(r.Revision) + ")"
	}
	var counts Counts
	counts.Add(r)
	unreachable := counts.Failed
	for _, t := range r.Tests {
		if t.Status == Failed {
			unreachable--
		}
	}
	attributes := append([]string{"name", name, "file", r.File, "timestamp",
		r.Time.UTC().Format("2006-01-02T15:04:05")},
		countsOf(counts, unreachable, r.took())...)
	x.open("testsuite", attributes...)
	x.open("properties")
	x.empty("property", "name", "target", "value", r.Target)
	x.empty("property", "name", "revision", "value", string(r.Revision))
	x.close("properties")
	for _, t := range r.Tests {
		attributes := []string{"name", t.Name, "classname", name, "file", r.File, "line", fmt.Sprint(t.Line), "time",
			seconds(t.took)}
		if t.Status == Passed {
			x.empty("testcase", attributes...)
			continue
		}
		x.open("testcase", attributes...)
		switch t.Status {
		case Failed:
			var all strings.Builder
			for _, f := range t.Failures {
				all.WriteString(f.lines("", r.File))
			}
			first, _, _ := strings.Cut(all.String(), "\n")
			x.text("failure", all.String(), "message", first, "type", t.Failures[0].Check)
		case Skipped:
			x.empty("skipped", "message", t.Reason)
		}
		x.close("testcase")
	}
	if r.Error != "" {
		x.open("testcase", "name", "connection", "classname", name, "file", r.File, "time", seconds(0))
		x.text("error", r.Error, "message", r.Error, "type", "connection")
		x.close("testcase")
	}
	x.close("testsuite")
}

// seconds returns a duration as JUnit writes it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// xmlWriter writes XML. Attributes are names and values.
type xmlWriter struct {
	b     strings.Builder
	depth int
}

// tag writes the beginning of a tag.
func (x *xmlWriter) tag(name string, attributes []string) {
	x.b.WriteString(strings.Repeat("  ", x.depth) + "<" + name)
	for i := 0; i < len(attributes); i += 2 {
		x.b.WriteString(" " + attributes[i] + `="` + escapeXML(attributes[i+1]) + `"`)
	}
}

func (x *xmlWriter) open(name string, attributes ...string) {
	x.tag(name, attributes)
	x.b.WriteString(">\n")
	x.depth++
}

func (x *xmlWriter) close(name string) {
	x.depth--
	x.b.WriteString(strings.Repeat("  ", x.depth) + "</" + name + ">\n")
}

func (x *xmlWriter) empty(name string, attributes ...string) {
	x.tag(name, attributes)
	x.b.WriteString("/>\n")
}

func (x *xmlWriter) text(name, text string, attributes ...string) {
	x.tag(name, attributes)
	x.b.WriteString(">" + strings.ReplaceAll(escapeXML(text), "&#10;", "\n") + "</" + name + ">\n")
}

// escapeXML escapes a text for XML 1.0, also in attributes. Characters that XML cannot have become U+FFFD.
func escapeXML(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '"':
			b.WriteString("&quot;")
		case r == '\n' || r == '\t' || r == '\r':
			fmt.Fprintf(&b, "&#%d;", r)
		case r < 0x20 || r == 0xFFFE || r == 0xFFFF:
			b.WriteRune(utf8.RuneError)
		default: // of invalid UTF-8, r is U+FFFD
			b.WriteRune(r)
		}
	}
	return b.String()
}
