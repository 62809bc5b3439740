package suite

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// junit returns reports in the form of JUnit, as a decoder of XML reads them.
func junit(t *testing.T, reports []*Report) (decoded junitSuites, text string) {
	t.Helper()
	var b strings.Builder
	if err := WriteJUnit(&b, reports); err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(strings.NewReader(b.String()))
	if err := decoder.Decode(&decoded); err != nil {
		t.Fatalf("%v:\n%s", err, b.String())
	}
	for {
		token, err := decoder.Token()
		if space, ok := token.(xml.CharData); ok && strings.TrimSpace(string(space)) == "" {
			continue
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%v follows (%v):\n%s", token, err, b.String())
		}
		return decoded, b.String()
	}
}

func TestJUnitHasEachResult(t *testing.T) {
	begin := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	got, written := junit(t, []*Report{
		{File: "a.yaml", Target: "http://127.0.0.1/mcp?a=1&b=\"2\"", Revision: "2026-07-28", Time: begin,
			Tests: []*Result{
				{Name: "call greet", Line: 3, Status: Passed, took: 1500 * time.Millisecond},
				{Name: "call weather", Line: 5, Status: Failed, took: time.Second, Failures: []Failure{
					{Check: "at", Path: "/structuredContent/unit", Line: 7, Want: `"celsius"`, Got: `"fahrenheit"`},
					{Check: "request", Line: 5, Message: "not finished"},
				}},
				{Name: "list tools", Line: 9, Status: Skipped, Reason: "not for revision 2026-07-28"},
			}},
		{File: "b.yaml", Time: begin, Error: "connection refused", Tests: []*Result{{Name: "x", Status: Passed}}},
	})
	if got.Tests != 5 || got.Failures != 1 || got.Errors != 1 || got.Skipped != 1 || got.Time != 2.5 ||
		len(got.Suites) != 2 {
		t.Fatalf("%+v", got)
	}
	for _, want := range []string{
		`<testsuites tests="5" failures="1" errors="1" skipped="1" time="2.500">`,
		`<testsuite name="a.yaml (2026-07-28)" file="a.yaml" timestamp="2026-08-01T12:00:00" tests="3" failures="1"`,
		`<property name="target" value="http://127.0.0.1/mcp?a=1&amp;b=&#34;2&#34;"></property>`,
		`<testcase name="call greet" classname="a.yaml (2026-07-28)" file="a.yaml" line="3" time="1.500"></testcase>`,
		`<failure message="a.yaml:7: at /structuredContent/unit" type="at">a.yaml:7: at `,
		`<skipped message="not for revision 2026-07-28"></skipped>`,
		`<error message="connection refused" type="connection">connection refused</error>`,
	} {
		if !strings.Contains(written, want) {
			t.Errorf("%s\nhas no %s", written, want)
		}
	}
	a, b := got.Suites[0], got.Suites[1]
	if a.Name != "a.yaml (2026-07-28)" || a.Tests != 3 || a.Failures != 1 || a.Errors != 0 || a.Skipped != 1 ||
		a.Timestamp != "2026-08-01T12:00:00" || len(a.Cases) != 3 {
		t.Fatalf("%+v", a)
	}
	want := &junitProblem{"a.yaml:7: at /structuredContent/unit", "at",
		"a.yaml:7: at /structuredContent/unit\n  want \"celsius\"\n  got  \"fahrenheit\"\na.yaml:5: request: not " +
			"finished\n"}
	if diff := cmp.Diff(want, a.Cases[1].Failure); diff != "" {
		t.Error(diff)
	}
	if b.Name != "b.yaml" || b.Tests != 2 || b.Failures != 0 || b.Errors != 1 || len(b.Cases) != 2 ||
		b.Cases[1].Error == nil || b.Cases[1].Error.Message != "connection refused" {
		t.Errorf("%+v", b)
	}
}

func TestJUnitIsValidXMLForEveryText(t *testing.T) {
	for text, want := range map[string]string{
		"a < b && c > \"d\" 'e'": "a < b && c > \"d\" 'e'",
		"]]> <!-- &amp;":         "]]> <!-- &amp;",
		"\x00\x1b[31m\x7f":       "\uFFFD\uFFFD[31m\x7f",
		"one\ntwo\tthree\r":      "one\ntwo\tthree\r",
		"\xff\xfe é😀 \uFFFE":     "\uFFFD\uFFFD é😀 \uFFFD",
	} {
		got, _ := junit(t, []*Report{{File: text, Target: text,
			Tests: []*Result{{Name: text, Status: Skipped, Reason: text}}, Error: text}})
		c := got.Suites[0].Cases
		if got.Suites[0].Name != want || c[0].Name != want || c[0].Skipped.Message != want || c[1].Error.Text != want {
			t.Errorf("%q: got %+v, want %q", text, got, want)
		}
	}
}
