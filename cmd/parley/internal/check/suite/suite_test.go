package suite

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

const docs = "../../../../../docs/program/"

// env returns the variables of the tests.
func env(name string) (string, bool) {
	value, ok := map[string]string{"PORT": "80", "CITY": "Oslo"}[name]
	return value, ok
}

// read reads a file with the text.
func read(t *testing.T, text string) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return Read(path, env)
}

// options run all tests.
func options() Options {
	return Options{Selected: func(string) bool { return true }, Explain: error.Error, Done: func(*Result) {}}
}

// lines returns the results as text, without times and the names of files.
func lines(results []*Result) string {
	var b strings.Builder
	for _, r := range results {
		r.Print(&b, "f")
	}
	return regexp.MustCompile(`(?m) \([0-9.]+.?s\)$`).ReplaceAllString(b.String(), "")
}

// run runs the tests of a text with a client of a server, in one revision.
func run(t *testing.T, s *server.Server, r mcp.Revision, text string, o Options) string {
	t.Helper()
	f := must.Get(read(t, "tests:\n"+text))(t)
	c := mcptest.Dial(t, s, mcptest.WithRevision(r), f.Configure)
	results := must.Get(f.Run(t.Context(), c, o))(t)
	return lines(results)
}

func TestTheExampleOfTheDocumentationPassesEverywhere(t *testing.T) {
	f := must.Get(Read(docs+"demo.test.yaml", env))(t)
	must.CheckThat(t, f.AllRevisions && f.Revisions == nil && len(f.Command) == 3,
		"revisions %v, command %v", f.Revisions, f.Command)
	mcptest.Everywhere(t, func() *server.Server { return demo.New("1") }, func(t *testing.T, c *client.Client) {
		o := options()
		passed := 0
		o.Done = func(r *Result) {
			switch r.Status {
			case Passed:
				passed++
			case Failed:
				t.Error(lines([]*Result{r}))
			}
		}
		must.Get(f.Run(t.Context(), c, o))(t)
		want := 8
		if c.Revision() >= mcp.V20250618 {
			want = 12
		}
		must.CheckThat(t, passed == want, "%d tests passed, want %d", passed, want)
	}, f.Configure)
}

func TestMistakesInFilesAreReportedWithTheirPosition(t *testing.T) {
	for text, want := range map[string]string{
		"target: x":                          "f.yaml:1:1: tests: expected array, got nothing; it is required",
		"tests: []":                          "f.yaml:1:1: tests: expected ",
		"tests:\n  - call: x\n    expct: {}": `f.yaml:3:5: tests/0/expct: expected one of ` + `the properties `,
		"tests:\n  - name: x": "f.yaml:2:5: a test needs exactly one of call, read, prompt, complete, list and method; " +
			"this one has 0",
		"tests:\n  - {call: x, read: y}": "f.yaml:2:5: a test needs exactly one of call, read, prompt, complete, " +
			"list and method; this one has 2",
		"tests: [{read: x, arguments: {}}]":          "f.yaml:1:19: arguments belong to call and prompt",
		"tests: [{read: x, params: {}}]":             "f.yaml:1:19: params belong to method",
		"tests: [{prompt: x, arguments: {a: 1}}]":    "arguments of a prompt must be strings; write numbers in quotes",
		"tests: [{complete: {argument: x}}]":         "completion must have one of prompt and template",
		"tests: [{call: x, expect: {matches: '('}}]": "f.yaml:1:28: error parsing regexp: missing closing ): `(`",
		"tests: [{call: x, expect: {schema: {/a: {type: strin}}}}]": "f.yaml:1:37: schema: not a valid JSON " +
			"Schema: ",
		"tests: [{call: x, expect: {at: {a: 1}}}]": "tests/0/expect/at",
		"tests: [{call: x, expect: {has: a}}]": "has and missing only work with list and " +
			"complete; use contains for text",
		"tests: [{call: x, expect: {within: 5}}]": "f.yaml:1:28: tests/0/expect/within: " +
			"expected string",
		"tests: [{call: x, expect: {within: 0s}}]":                      "f.yaml:1:28: within must be positive",
		"timeout: 0s\ntests: [{call: x}]":                               "f.yaml:1:1: timeout must be positive",
		"tests: [{call: x, expect: {error: toll}}]":                     "tests/0/expect/error: expected ",
		"tests: [{call: x, expect: {error: false}}]":                    "tests/0/expect/error: expected ",
		"tests: [{call: x, answers: [{action: decline, content: {}}]}]": "content belongs to the action accept",
		"tests: [{call: x, arguments: {a: '${b}'}}]": "f.yaml:1:9: ${b} has no value; capture it " +
			"in an earlier test",
		"tests: [{read: '${env:NONE}'}]":              "environment variable NONE is not set",
		"target: ['${env:NONE}']\ntests: [{call: x}]": "f.yaml:1:1: environment variable NONE is not set",
		"revisions: [2025-11-26]\ntests: [{call: x}]": "revisions",
		"tests: [{call: x, capture: {a-b: /a}}]":      "tests/0/capture/a-b",
	} {
		_, err := read(t, text)
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), want), "%s\ngot  %v\nwant %s", text, err, want)
	}
}

func TestFailuresShowWhatWasExpected(t *testing.T) {
	for text, want := range map[string]string{
		`  - {call: greet, arguments: {name: Ada}, expect: {text: "Hello, Bob!"}}`: `text
          want "Hello, Bob!"
          got  "Hello, Ada!"
`,
		"  - {read: demo://guide, expect: {text: \"# The demo server\\n\\nThe end\"}}": `text: line 3 differs
          want "The end"
          got  "Its tools return example data. Try"
`,
		`  - {call: greet, arguments: {name: Ada}, expect: {contains: [Ada, Bob], excludes: Hello, matches: ` +
			`'^H.*\?$'}}`: `contains
          want "Bob"
          got  "Hello, Ada!"
        f:2: excludes
          want no "Hello"
          got  "Hello, Ada!"
        f:2: matches
          want ^H.*\?$
          got  "Hello, Ada!"
`,
		"  - call: add\n    arguments: {a: 1, b: 2}\n    expect:\n      at:\n        /structuredContent: {sum: 4,\n  " +
			"        more: true}\n        /none: 1": `at /structuredContent/more
          want true
          got  nothing
        f:6: at /structuredContent/sum
          want 4
          got  3
        f:8: at /none
          want 1
          got  nothing
`,
		"  - {call: add, arguments: {a: 1, b: 2}, expect: {schema: {/structuredContent: {properties: {sum: {maximum: " +
			"2}}}, /x: true}}}": `schema /structuredContent/sum
          want at most 2
          got  number 3
        f:2: schema /x
          want a value
          got  nothing
`,
		"  - {call: fail, expect: {contains: x}}": `error
          want a result
          got  a tool error: "this tool always fails"
`,
		"  - {call: fail, expect: {error: -32602}}": `error
          want error -32602
          got  a tool error: "this tool always fails"
`,
		"  - {read: demo://none}": `error
          want a result
          got  error -32602: "resource not found"
`,
		"  - {call: greet, arguments: {name: Ada}, expect: {error: true}}": `error
          want an error
          got  a result: "Hello, Ada!"
`,
		"  - {complete: {prompt: postcard, argument: city, value: O}, expect: {has: Rome, missing: Oslo, count: " +
			"3}}": `has
          want "Rome"
          got  ["Osaka", "Oslo"]
        f:2: missing
          want no "Oslo"
          got  "Oslo"
        f:2: count
          want 3
          got  2
`,
		"  - {call: count, arguments: {to: 1000}, timeout: 10ms}": "request: not finished within 10ms; set timeout " +
			"if that is not enough\n",
		"  - {call: book_table, arguments: {restaurant: Noma}, answers: [{question: " +
			"Who}]}": `answers: the server asks "When do you want to eat at Noma, and with how many people?"; add an answer
        f:2: answers: the server did not ask this question
`,
		"  - {call: greet, arguments: {name: Ada}, capture: {x: /structuredContent}}": `capture /structuredContent
          want a value
          got  nothing
`,
	} {
		got := run(t, demo.New("1"), mcp.Latest, text, options())
		_, got, _ = strings.Cut(got, "\n")
		_, got, _ = strings.Cut(got, ": ")
		diff := cmp.Diff(want, got)
		must.CheckThat(t, diff == "", "%s\n%s", text, diff)
	}
}

func TestCapturedValuesKeepTheirTypes(t *testing.T) {
	got := run(t, demo.New("1"), mcp.Latest, `
  - call: add
    arguments: {a: 2, b: 3}
    capture: {sum: /structuredContent/sum, all: /structuredContent}
  - call: add
    arguments: {a: "${sum}", b: 1}
    expect: {at: {/structuredContent: {sum: 6}}}
  - call: greet
    arguments: {name: "${sum} $${sum} ${env:CITY} ${all}"}
    expect: {text: 'Hello, ${sum} $${sum} Oslo {"sum":5}!', contains: "5 $${sum}"}
  - call: fail
    capture: {never: ""}
  - call: greet
    arguments: {name: "${never}"}
`, options())
	want := `  ok    call add
  ok    call add (2)
  ok    call greet
  FAIL  call fail
        f:12: error
          want a result
          got  a tool error: "this tool always fails"
  FAIL  call greet (2)
        f:14: request: ${never} has no value, because the test that captures it has failed or was left out
`
	must.CheckEqual(t, cmp.Diff(want, got), "")
}

func TestTestsAreSelectedAndSkipped(t *testing.T) {
	o := options()
	o.FailFast = true
	o.Selected = regexp.MustCompile("^(call|one)").MatchString
	got := run(t, demo.New("1"), mcp.V20251125, `
  - {name: one, call: greet, arguments: {name: Ada}, revisions: [2026-07-28]}
  - {name: two, call: fail}
  - {call: fail}
  - {call: greet, arguments: {name: Ada}}
`, o)
	want := `  skip  one (not for revision 2025-11-25)
  FAIL  call fail
        f:5: error
          want a result
          got  a tool error: "this tool always fails"
  skip  call greet (an earlier test has failed)
`
	must.CheckEqual(t, cmp.Diff(want, got), "")
}

func TestSeveralQuestionsAreAnsweredByTheirTexts(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.Latest} {
		got := run(t, demo.New("1"), r, `
  - call: plan_trip
    arguments: {to: Oslo}
    answers:
      - {question: Who, content: {people: 2, class: first}}
      - {question: When, content: {date: 2027-01-31}}
    expect: {contains: 2 to Oslo on 2027-01-31}
  - call: terms
    answers: [{}]
    expect: {contains: Thank you}
  - call: terms
    answers: [{action: cancel}]
    expect: {excludes: Thank you}
`, options())
		want := "  ok    call plan_trip\n  ok    call terms\n  ok    call terms (2)\n"
		must.CheckThat(t, got == want, "%s:\n%s", r, got)
	}
}

// wrong is a server whose tool add returns another result than its output schema promises.
func wrong() *server.Server {
	s := demo.New("1")
	s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			if r, ok := result.(*mcp.CallToolResult); ok {
				r.StructuredContent = []byte(`{"sum": "five"}`)
			}
			return result, err
		}
	}}
	return s
}

func TestOutputThatDoesNotMatchItsSchemaFailsTheTest(t *testing.T) {
	got := run(t, wrong(), mcp.Latest, "  - {call: add, arguments: {a: 2, b: 3}}", options())
	must.CheckThat(t, strings.Contains(got, "FAIL") &&
		strings.Contains(got, "the result does not match the tool's output schema"), "%v", got)
}

func TestRunEndsWithItsContext(t *testing.T) {
	f, err := read(t,
		"tests: [{call: greet, arguments: {name: Ada}}, {call: count, arguments: {to: 1000}}, {call: greet}]")
	must.Do(t, err)
	c := mcptest.Dial(t, demo.New("1"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	o := options()
	o.Done = func(*Result) { cancel(cause) }
	results, err := f.Run(ctx, c, o)
	if !errors.Is(err, cause) || len(results) != 1 || results[0].Status != Passed {
		t.Errorf("got %s, %v", lines(results), err)
	}
}

func TestReferencesAreReplacedInStringsOnly(t *testing.T) {
	v := &variables{captured: map[string]jsontext.Value{"a": []byte(`{"x":1.50}`), "b": []byte(`"text"`)}, env: env}
	got, err := v.value([]byte(`{"arguments":{"${a}":"${a}","b":["is ${b}","${b}",1e2,"${env:CITY}"]},"read":"${a}",` +
		`"expect":{"at":{"/c":"$${a}"},"text":"$a","matches":"${a}"}}`))
	want := `{"arguments":{"${a}":{"x":1.50},"b":["is text","text",1e2,"Oslo"]},"read":"{\"x\":1.50}",` +
		`"expect":{"at":{"/c":"${a}"},"text":"$a","matches":"${a}"}}`
	must.CheckThat(t, err == nil && string(got) == want, "got %s %v, want %s", got, err, want)
}

func TestAnswersAreUsedOnce(t *testing.T) {
	q := &questions{answers: []answer{{Content: []byte(`{"n":1}`)}, {}, {Action: mcp.ElicitCancel}},
		used: make([]bool, 3)}
	for _, test := range []struct {
		mode mcp.ElicitMode
		want mcp.ElicitResult
	}{
		{mcp.ElicitModeForm, mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"n":1}`)}},
		{mcp.ElicitModeURL, mcp.ElicitResult{Action: mcp.ElicitAccept}},
		{mcp.ElicitModeForm, mcp.ElicitResult{Action: mcp.ElicitCancel}},
	} {
		got, err := q.answer(&mcp.ElicitParams{Mode: test.mode})
		must.CheckThat(t, err == nil && got.Action == test.want.Action &&
			string(got.Content) == string(test.want.Content), "got %+v %v, want %+v", got, err, test.want)
	}
	if _, err := q.answer(&mcp.ElicitParams{Message: "More?"}); err == nil || len(q.unanswered) != 1 {
		t.Errorf("got %v, unanswered %q", err, q.unanswered)
	}
}

func TestCompletionSendsTheOtherArguments(t *testing.T) {
	c := &completion{Template: "demo://{a}/{b}", Argument: "b", Value: "x", Given: map[string]string{"a": "y"}}
	want := mcp.CompleteParams{
		Ref:      mcp.CompleteReference{Type: mcp.RefResource, URI: "demo://{a}/{b}"},
		Argument: mcp.CompleteArgument{Name: "b", Value: "x"},
		Context:  &mcp.CompleteContext{Arguments: map[string]string{"a": "y"}},
	}
	must.CheckEqual(t, cmp.Diff(want, c.params()), "")
}

func TestResultsAreComparedWithExpectations(t *testing.T) {
	f := must.Get(read(t, "tests:\n  - call: x\n    expect: {text: one, within: 1s}"))(t)
	check := func(o *outcome) string {
		all := &failures{test: f.tests[0], file: f}
		f.tests[0].Expect.check(o, all)
		return lines([]*Result{{Name: "x", Status: Failed, Failures: all.all}})
	}
	if got := check(&outcome{text: "one\n\n", took: time.Second}); strings.Contains(got, "f:") {
		t.Error(got)
	}
	got := check(&outcome{text: strings.Repeat("é", 1000), took: 1234567 * time.Microsecond})
	for _, want := range []string{"got  \"" + strings.Repeat("é", maxShown-1) + "…\n",
		"want 1s\n          got  1.23s\n"} {
		must.CheckThat(t, strings.Contains(got, want), "no %q in\n%s", want, got)
	}
}

func TestReferencesWorkInRequestsAndLinesAreThoseOfTheMembers(t *testing.T) {
	got := run(t, demo.New("1"), mcp.Latest, `  - read: demo://cities/${env:CITY}
    expect: {contains: Norway}
  - call: greet
    arguments: {name: Ada}
    expect:
      at:
        /content:
          - type: text
            text: Hello, Bob!
        /content/9: {}
  - call: none
    expect: {error: tool}
`, options())
	want := `  ok    read demo://cities/${env:CITY}
  FAIL  call greet
        f:10: at /content/0/text
          want "Hello, Bob!"
          got  "Hello, Ada!"
        f:11: at /content/9
          want {}
          got  nothing
  FAIL  call none
        f:13: error
          want a tool error
          got  error -32602: "unknown tool: \"none\""
`
	must.CheckEqual(t, cmp.Diff(want, got), "")
}

// junit returns reports in the form of JUnit, as a decoder of XML reads them.
func junit(t *testing.T, reports []*Report) (decoded junitSuites, text string) {
	t.Helper()
	var b strings.Builder
	must.Do(t, WriteJUnit(&b, reports))
	decoder := xml.NewDecoder(strings.NewReader(b.String()))
	err := decoder.Decode(&decoded)
	must.That(t, err == nil, "%v:\n%s", err, b.String())
	for {
		token, err := decoder.Token()
		if space, ok := token.(xml.CharData); ok && strings.TrimSpace(string(space)) == "" {
			continue
		}
		must.CheckThat(t, errors.Is(err, io.EOF), "%v follows (%v):\n%s", token, err, b.String())
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
	must.That(t, got.Tests == 5 && got.Failures == 1 && got.Errors == 1 && got.Skipped == 1 && got.Time == 2.5 &&
		len(got.Suites) == 2, "%+v", got)
	for _, want := range []string{
		`<testsuites tests="5" failures="1" errors="1" skipped="1" time="2.500">`,
		`<testsuite name="a.yaml (2026-07-28)" file="a.yaml" timestamp="2026-08-01T12:00:00" tests="3" failures="1"`,
		`<property name="target" value="http://127.0.0.1/mcp?a=1&amp;b=&#34;2&#34;"></property>`,
		`<testcase name="call greet" classname="a.yaml (2026-07-28)" file="a.yaml" line="3" time="1.500"></testcase>`,
		`<failure message="a.yaml:7: at /structuredContent/unit" type="at">a.yaml:7: at `,
		`<skipped message="not for revision 2026-07-28"></skipped>`,
		`<error message="connection refused" type="connection">connection refused</error>`,
	} {
		must.CheckThat(t, strings.Contains(written, want), "%s\nhas no %s", written, want)
	}
	a, b := got.Suites[0], got.Suites[1]
	must.That(t, a.Name == "a.yaml (2026-07-28)" && a.Tests == 3 && a.Failures == 1 && a.Errors == 0 &&
		a.Skipped == 1 && a.Timestamp == "2026-08-01T12:00:00" && len(a.Cases) == 3, "%+v", a)
	want := &junitProblem{"a.yaml:7: at /structuredContent/unit", "at",
		"a.yaml:7: at /structuredContent/unit\n  want \"celsius\"\n  got  \"fahrenheit\"\na.yaml:5: request: not " +
			"finished\n"}
	must.CheckEqual(t, cmp.Diff(want, a.Cases[1].Failure), "")
	must.CheckThat(t, b.Name == "b.yaml" && b.Tests == 2 && b.Failures == 0 && b.Errors == 1 && len(b.Cases) == 2 &&
		b.Cases[1].Error != nil && b.Cases[1].Error.Message == "connection refused", "%+v", b)
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
		must.CheckThat(t, got.Suites[0].Name == want && c[0].Name == want && c[0].Skipped.Message == want &&
			c[1].Error.Text == want, "%q: got %+v, want %q", text, got, want)
	}
}
