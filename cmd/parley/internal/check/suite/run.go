package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Options are the options of a run.
type Options struct {
	Selected func(name string) bool // reports whether a test runs; others are left out
	FailFast bool                   // skip all tests after one that fails
	Explain  func(error) string     // returns the text of an error
	Done     func(*Result)          // is called after each test
}

// Run runs the tests with a client that [File.Configure] has configured. If the context ends, Run returns the results
// so far and the cause.
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
			err = fmt.Errorf("${%s} has no value, because the test that captures it has failed or was left out",
				unknown.name)
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
		failures.add("", Failure{Message: fmt.Sprintf("not finished within %v; set timeout if that is not enough",
			t.timeout)})
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
			failures.add(jsontext.Pointer("/capture").AppendToken(name),
				Failure{Check: "capture", Path: string(t.Capture[name]), Want: "a value", Got: "nothing"})
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

// outcome is the outcome of a request.
type outcome struct {
	result   jsontext.Value // or the error of the protocol
	text     string
	names    []string // of the entries of a list, or the values of a completion
	count    int
	failed   bool           // the tool has failed
	rejected *jsonrpc.Error // nil unless the server has reported an error of the protocol
	err      error          // any other error; the rest is then undefined
	took     time.Duration
}

// send sends the request of a test.
func (r *runner) send(ctx context.Context, t *test) *outcome {
	o := new(outcome)
	if t.Call != "" && !r.listed[t.Call] {
		r.listTools(ctx)
	}
	begin := time.Now()
	result, err := o.request(ctx, r.client, t)
	o.took = time.Since(begin)
	switch {
	case err == nil:
		o.result, o.err = schema.Marshal(result)
	case errors.As(err, &o.rejected):
		o.text = o.rejected.Message
		o.result, o.err = schema.Marshal(o.rejected)
	default:
		o.err = err
	}
	return o
}

// request sends the request and sets all but the result and the errors.
func (o *outcome) request(ctx context.Context, c *client.Client, t *test) (result any, err error) {
	unlimited := client.WithTimeout(-1) // the context ends the request
	switch {
	case t.Call != "":
		return o.call(ctx, c, t, unlimited)
	case t.Read != "":
		result, err := c.ReadResource(ctx, t.Read, unlimited, client.WithRefresh())
		if err != nil {
			return nil, err
		}
		var all []string
		for i := range result.Contents {
			all = append(all, result.Contents[i].Text)
		}
		o.text, o.count = strings.Join(all, "\n"), len(all)
		return result, nil
	case t.Prompt != "":
		result, err := c.GetPrompt(ctx, t.Prompt, argumentsOf(t), unlimited)
		if err != nil {
			return nil, err
		}
		var blocks []mcp.Content
		for _, m := range result.Messages {
			blocks = append(blocks, m.Content)
		}
		o.setText(blocks)
		return result, nil
	case t.Complete != nil:
		result, err := c.Complete(ctx, t.Complete.params(), unlimited)
		if err != nil {
			return nil, err
		}
		o.setNames(result.Values)
		return result, nil
	case t.List != "":
		return o.list(ctx, c, t.List, unlimited, client.WithRefresh())
	}
	var params any
	if t.Params != nil {
		params = json.RawMessage(t.Params)
	}
	raw, err := c.CallExtension(ctx, t.Method, params, unlimited)
	o.text = string(raw)
	return raw, err
}

// listTools lists the tools. The client checks the results of listed tools only.
func (r *runner) listTools(ctx context.Context) {
	for tool, err := range r.client.Tools(ctx, client.WithRefresh()) {
		if err != nil {
			return // calls have the error, too, unless the server has only tools/call
		}
		r.listed[tool.Name] = true
	}
}

func (o *outcome) call(ctx context.Context, c *client.Client, t *test,
	options ...client.CallOption) (*mcp.CallToolResult, error) {
	result, err := c.CallTool(ctx, t.Call, argumentsOf(t), options...)
	if err != nil {
		return nil, err
	}
	o.setText(result.Content)
	o.failed = result.IsError
	return result, nil
}

// argumentsOf returns the arguments of a test, which are not nil.
func argumentsOf(t *test) json.RawMessage {
	if t.Arguments == nil {
		return json.RawMessage("{}")
	}
	return json.RawMessage(t.Arguments)
}

func (c *completion) params() mcp.CompleteParams {
	p := mcp.CompleteParams{Ref: mcp.CompleteReference{Type: mcp.RefPrompt, Name: c.Prompt}}
	if c.Template != "" {
		p.Ref = mcp.CompleteReference{Type: mcp.RefResource, URI: c.Template}
	}
	p.Argument.Name, p.Argument.Value = c.Argument, c.Value
	if len(c.Given) > 0 {
		p.Context = &mcp.CompleteContext{Arguments: c.Given}
	}
	return p
}

// setText sets the text to that of the blocks, each from a new line.
func (o *outcome) setText(blocks []mcp.Content) {
	var all []string
	for _, block := range blocks {
		switch b := block.(type) {
		case *mcp.TextContent:
			all = append(all, b.Text)
		case *mcp.EmbeddedResource:
			all = append(all, b.Resource.Text)
		}
	}
	o.text, o.count = strings.Join(all, "\n"), len(blocks)
}

func (o *outcome) setNames(names []string) {
	o.names, o.count, o.text = names, len(names), strings.Join(names, "\n")
}

// list returns a list of the server, as a member with the name that it has in the protocol.
func (o *outcome) list(ctx context.Context, c *client.Client, what string, options ...client.CallOption) (any, error) {
	var names []string
	all := []any{}
	l := listing.Named(what)
	for item, err := range l.All(c, ctx, options...) {
		if err != nil {
			return nil, err
		}
		names, all = append(names, item.Name), append(all, item.Definition)
	}
	o.setNames(names)
	return map[string]any{l.Member: all}, nil
}

// errUnanswered is the error for the server whose question the test does not expect.
var errUnanswered = errors.New("the test has no answer to this question")

// questions are the questions of the server during a test, and the answers. They are safe for concurrent use.
type questions struct {
	mu         sync.Mutex
	answers    []answer
	used       []bool
	unanswered []string // messages
}

// answer returns the first answer that is not used and that fits.
func (q *questions) answer(params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, a := range q.answers {
		if q.used[i] || !strings.Contains(params.Message, a.Question) {
			continue
		}
		q.used[i] = true
		switch {
		case a.Action != "" && a.Action != mcp.ElicitAccept:
			return &mcp.ElicitResult{Action: a.Action}, nil
		case params.Mode == mcp.ElicitModeURL:
			return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
		case a.Content == nil:
			return mcp.AcceptElicit(struct{}{})
		}
		return mcp.AcceptElicit(a.Content)
	}
	q.unanswered = append(q.unanswered, params.Message)
	return nil, errUnanswered
}

// check adds the questions without an answer and the answers without a question. It reports whether a question was not
// answered.
func (q *questions) check(failures *failures) (unanswered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, message := range q.unanswered {
		failures.add("/answers", Failure{Check: "answers",
			Message: fmt.Sprintf("the server asks %s; add an answer", quote(message))})
	}
	for i, used := range q.used {
		if !used {
			failures.add(jsontext.Pointer("/answers").AppendToken(strconv.Itoa(i)),
				Failure{Check: "answers", Message: "the server did not ask this question"})
		}
	}
	return len(q.unanswered) > 0
}
