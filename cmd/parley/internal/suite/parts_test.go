package suite

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/mcp"
)

func TestReferencesAreReplacedInStringsOnly(t *testing.T) {
	v := &variables{captured: map[string]jsontext.Value{"a": []byte(`{"x":1.50}`), "b": []byte(`"text"`)}, env: env}
	got, err := v.value([]byte(`{"arguments":{"${a}":"${a}","b":["is ${b}","${b}",1e2,"${env:CITY}"]},"read":"${a}",` +
		`"expect":{"at":{"/c":"$${a}"},"text":"$a","matches":"${a}"}}`))
	want := `{"arguments":{"${a}":{"x":1.50},"b":["is text","text",1e2,"Oslo"]},"read":"{\"x\":1.50}",` +
		`"expect":{"at":{"/c":"${a}"},"text":"$a","matches":"${a}"}}`
	if err != nil || string(got) != want {
		t.Errorf("got %s %v, want %s", got, err, want)
	}
}

func TestAnswersAreUsedOnce(t *testing.T) {
	q := &questions{answers: []answer{{Content: []byte(`{"n":1}`)}, {}, {Action: mcp.ElicitCancel}},
		used: make([]bool, 3)}
	for _, test := range []struct {
		mode string
		want mcp.ElicitResult
	}{
		{mcp.ElicitModeForm, mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"n":1}`)}},
		{mcp.ElicitModeURL, mcp.ElicitResult{Action: mcp.ElicitAccept}},
		{mcp.ElicitModeForm, mcp.ElicitResult{Action: mcp.ElicitCancel}},
	} {
		got, err := q.answer(&mcp.ElicitParams{Mode: test.mode})
		if err != nil || got.Action != test.want.Action || string(got.Content) != string(test.want.Content) {
			t.Errorf("got %+v %v, want %+v", got, err, test.want)
		}
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
	if diff := cmp.Diff(want, c.params()); diff != "" {
		t.Error(diff)
	}
}

func TestResultsAreComparedWithExpectations(t *testing.T) {
	f, err := read(t, "tests:\n  - call: x\n    expect: {text: one, within: 1s}")
	if err != nil {
		t.Fatal(err)
	}
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
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
