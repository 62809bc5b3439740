package suite

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

// Report has the results of the tests of a file in one revision.
type Report struct {
	File     string       `json:"file"`
	Target   string       `json:"target"`
	Revision mcp.Revision `json:"revision,omitempty"` // empty if there was no connection and the newest one was asked for
	Time     time.Time    `json:"time"`               // of the beginning
	Error    string       `json:"error,omitempty"`    // why there was no connection, or why it ended
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
	Check   string `json:"check"`          // the member of expect, or capture or answers; request if there was no result
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
