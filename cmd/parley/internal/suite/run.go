package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// Options are the options of a run.
type Options struct {
	Selected func(name string) bool // reports whether a test runs; others are left out
	FailFast bool                   // skip all tests after one that fails
	Explain  func(error) string     // returns the text of an error
	Done     func(*Result)          // is called after each test
}

// Run runs the tests with a client that [File.Configure] has configured. If the context ends, Run returns the results so far
// and the cause.
func (f *File) Run(ctx context.Context, c *client.Client, o Options) ([]*Result, error) {
	r := &runner{file: f, client: c, options: o, listed: make(map[string]bool)}
	r.variables = &variables{captured: make(map[string]jsontext.Value), env: f.env}
	var results []*Result
	failed := false
	for _, t := range f.tests {
		if !o.Selected(t.Name) {
			continue
		}
		result := &Result{Name: t.Name, Line: f.document.Line(t.at), Status: Passed}
		switch {
		case len(t.Revisions) > 0 && !slices.Contains(t.Revisions, c.Revision()):
			result.Status, result.Reason = Skipped, "not for revision "+string(c.Revision())
		case failed && o.FailFast:
			result.Status, result.Reason = Skipped, "an earlier test has failed"
		default:
			begin := time.Now()
			result.Failures = r.run(ctx, t)
			result.setDuration(time.Since(begin))
			if len(result.Failures) > 0 {
				result.Status, failed = Failed, true
			}
		}
		if ctx.Err() != nil {
			return results, context.Cause(ctx)
		}
		results = append(results, result)
		o.Done(result)
	}
	return results, nil
}

// runner runs the tests of a file in one revision.
type runner struct {
	file      *File
	client    *client.Client
	options   Options
	variables *variables
	listed    map[string]bool // tools
}

// errTime is the cause of the end of a test that takes too long.
var errTime = errors.New("the time of the test is over")

// run runs a test and returns what is not as expected.
func (r *runner) run(ctx context.Context, t *test) []Failure {
	failures := &failures{test: t, file: r.file}
	expanded, err := r.variables.expanded(t)
	if err != nil {
		var unknown *unknownVariableError
		if errors.As(err, &unknown) {
			err = fmt.Errorf("${%s} has no value, because the test that captures it has failed or was left out", unknown.name)
		}
		failures.add("", Failure{Message: err.Error()})
		return failures.all
	}
	asked := &questions{answers: expanded.Answers, used: make([]bool, len(expanded.Answers))}
	ctx, cancel := context.WithTimeoutCause(context.WithValue(ctx, questionsKey{}, asked), t.timeout, errTime)
	defer cancel()
	o := r.send(ctx, expanded)
	unanswered := asked.check(failures)
	switch {
	case unanswered: // the outcome is not that of the answers
	case o.err != nil && context.Cause(ctx) == errTime:
		failures.add("", Failure{Message: fmt.Sprintf("not finished within %v; set timeout if that is not enough", t.timeout)})
	case o.err != nil:
		failures.add("", Failure{Message: r.options.Explain(o.err)})
	default:
		expanded.Expect.check(o, failures)
	}
	if len(failures.all) == 0 {
		r.capture(t, o.result, failures)
	}
	return failures.all
}

// capture stores the values that later tests use.
func (r *runner) capture(t *test, result jsontext.Value, failures *failures) {
	for _, name := range slices.Sorted(maps.Keys(t.Capture)) {
		value := valueAt(result, t.Capture[name])
		if value == nil {
			failures.add(jsontext.Pointer("/capture").AppendToken(name), Failure{Check: "capture", Path: string(t.Capture[name]), Want: "a value", Got: "nothing"})
			continue
		}
		r.variables.captured[name] = value
	}
}

// Configure lets a client answer the questions of the server during the tests, if a test has answers.
func (f *File) Configure(d *client.Dialer) {
	if f.asks() {
		d.Elicit, d.ElicitURL = respond, respond
	}
}

func (f *File) asks() bool {
	return slices.ContainsFunc(f.tests, func(t *test) bool { return len(t.Answers) > 0 })
}

type questionsKey struct{}

// respond returns the answer of the test whose request has the context.
func respond(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	q, ok := ctx.Value(questionsKey{}).(*questions)
	if !ok {
		return nil, errUnanswered
	}
	return q.answer(params)
}
