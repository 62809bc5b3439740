package suite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

const docs = "../../../../docs/program/"

// env returns the variables of the tests.
func env(name string) (string, bool) {
	value, ok := map[string]string{"PORT": "80", "CITY": "Oslo"}[name]
	return value, ok
}

// read reads a file with the text.
func read(t *testing.T, text string) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
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
	f, err := read(t, "tests:\n"+text)
	if err != nil {
		t.Fatal(err)
	}
	c := mcptest.Dial(t, s, mcptest.WithRevision(r), f.Configure)
	results, err := f.Run(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return lines(results)
}

func TestTheExampleOfTheDocumentationPassesEverywhere(t *testing.T) {
	f, err := Read(docs+"demo.test.yaml", env)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Revisions) != 5 || len(f.Command) != 3 {
		t.Errorf("revisions %v, command %v", f.Revisions, f.Command)
	}
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
		if _, err := f.Run(t.Context(), c, o); err != nil {
			t.Fatal(err)
		}
		want := 8
		if c.Revision() >= mcp.V20250618 {
			want = 12
		}
		if passed != want {
			t.Errorf("%d tests passed, want %d", passed, want)
		}
	}, f.Configure)
}

func TestMistakesInFilesAreReportedWithTheirPosition(t *testing.T) {
	for text, want := range map[string]string{
		"target: x": "f.yaml:1:1: tests: expected array, got " +
			"nothing; it is required",
		"tests: []": "f.yaml:1:1: tests: expected ",
		"tests:\n  - call: x\n    expct: {}": `f.yaml:3:5: tests/0/expct: expected one of ` +
			`the members `,
		"tests:\n  - name: x": "f.yaml:2:5: test must have one of call, " +
			"read, prompt, complete, list and method, not 0",
		"tests:\n  - {call: x, read: y}": "f.yaml:2:5: test must have one of call, " +
			"read, prompt, complete, list and method, not 2",
		"tests: [{read: x, arguments: {}}]": "f.yaml:1:19: arguments belong to call and " +
			"prompt",
		"tests: [{read: x, params: {}}]": "f.yaml:1:19: params belong to method",
		"tests: [{prompt: x, arguments: {a: 1}}]": "arguments of a prompt must be strings; " +
			"write numbers in quotes",
		"tests: [{complete: {argument: x}}]": "completion must have one of prompt and " +
			"template",
		"tests: [{call: x, expect: {matches: '('}}]": "f.yaml:1:28: error parsing regexp: missing " +
			"closing ): `(`",
		"tests: [{call: x, expect: {schema: {/a: {type: strin}}}}]": "f.yaml:1:37: schema: not a valid JSON " +
			"Schema: ",
		"tests: [{call: x, expect: {at: {a: 1}}}]": "tests/0/expect/at",
		"tests: [{call: x, expect: {has: a}}]": "has and missing belong to list and " +
			"complete; use contains for a text",
		"tests: [{call: x, expect: {within: 5}}]": "f.yaml:1:28: tests/0/expect/within: " +
			"expected string",
		"tests: [{call: x, expect: {within: 0s}}]":                      "f.yaml:1:28: within must be positive",
		"timeout: 0s\ntests: [{call: x}]":                               "f.yaml:1:1: timeout must be positive",
		"tests: [{call: x, expect: {error: toll}}]":                     "tests/0/expect/error: expected ",
		"tests: [{call: x, expect: {error: false}}]":                    "tests/0/expect/error: expected ",
		"tests: [{call: x, answers: [{action: decline, content: {}}]}]": "content belongs to the action accept",
		"tests: [{call: x, arguments: {a: '${b}'}}]": "f.yaml:1:9: ${b} has no value; capture it " +
			"in an earlier test",
		"tests: [{read: '${env:NONE}'}]": "environment variable NONE is not set",
		"target: ['${env:NONE}']\ntests: [{call: x}]": "f.yaml:1:1: environment variable NONE is " +
			"not set",
		"revisions: [2025-11-26]\ntests: [{call: x}]": "revisions",
		"tests: [{call: x, capture: {a-b: /a}}]":      "tests/0/capture/a-b",
	} {
		_, err := read(t, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
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
        f:2: answers: the server has not asked for this answer
`,
		"  - {call: greet, arguments: {name: Ada}, capture: {x: /structuredContent}}": `capture /structuredContent
          want a value
          got  nothing
`,
	} {
		got := run(t, demo.New("1"), mcp.Latest, text, options())
		_, got, _ = strings.Cut(got, "\n")
		_, got, _ = strings.Cut(got, ": ")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
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
		if want := "  ok    call plan_trip\n  ok    call terms\n  ok    call terms (2)\n"; got != want {
			t.Errorf("%s:\n%s", r, got)
		}
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
	if !strings.Contains(got, "FAIL") || !strings.Contains(got, "the result does not match the tool's output schema") {
		t.Error(got)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	f, err := read(t,
		"tests: [{call: greet, arguments: {name: Ada}}, {call: count, arguments: {to: 1000}}, {call: greet}]")
	if err != nil {
		t.Fatal(err)
	}
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
