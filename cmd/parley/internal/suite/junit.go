package suite

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

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
	attributes := append([]string{"name", name, "file", r.File, "timestamp", r.Time.UTC().Format("2006-01-02T15:04:05")}, countsOf(counts, unreachable, r.took())...)
	x.open("testsuite", attributes...)
	x.open("properties")
	x.empty("property", "name", "target", "value", r.Target)
	x.empty("property", "name", "revision", "value", string(r.Revision))
	x.close("properties")
	for _, t := range r.Tests {
		attributes := []string{"name", t.Name, "classname", name, "file", r.File, "line", fmt.Sprint(t.Line), "time", seconds(t.took)}
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
