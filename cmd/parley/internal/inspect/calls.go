package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Limits of the calls that the page shows. When one is reached, the oldest finished calls are dropped.
const (
	maxCalls   = 200
	maxRunning = 64
	maxSteps   = 200
	maxResults = 64 << 20 // bytes of all kept results
)

// The states of a call.
const (
	callRunning   = "running"
	callAsking    = "input_required"
	callDone      = "done"
	callFailed    = "failed"
	callCancelled = "cancelled"
)

// callRequest is a call that the page starts.
type callRequest struct {
	Method    string          `json:"method"` // tools/call, prompts/get, resources/read or ping
	Name      string          `json:"name"`   // of the tool or prompt, or the URI
	Arguments json.RawMessage `json:"arguments"`
	Task      bool            `json:"task"`   // prefer a task (2025-11-25)
	TaskID    string          `json:"taskId"` // wait for this task instead
}

// call is a request of the page and its timeline. The mutex of the hub guards it.
type call struct {
	Number    uint64          `json:"number"`
	Version   uint64          `json:"-"` // of the hub when it has changed
	Server    string          `json:"server"`
	Method    string          `json:"method"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	State     string          `json:"state"`
	Started   time.Time       `json:"started"`
	Millis    float64         `json:"millis,omitempty"` // when it has ended
	Progress  *progress       `json:"progress,omitempty"`
	Task      *taskState      `json:"task,omitempty"`
	Rounds    int             `json:"rounds"`
	Steps     []step          `json:"steps"`
	Error     string          `json:"error,omitempty"`
	IsError   bool            `json:"isError,omitempty"` // of the result of a tool
	Size      int             `json:"size,omitempty"`    // of the result, in bytes

	result json.RawMessage
	cancel context.CancelFunc
	sent   map[string]bool // ids of the requests in flight
}

// progress is the latest progress report of a call.
type progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
	Message  string  `json:"message,omitempty"`
}

// taskState is the latest status of the task of a call.
type taskState struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// step is an event of a timeline.
type step struct {
	Millis  float64 `json:"millis"` // since the call has started
	Kind    string  `json:"kind"`   // sent, input, question, answer, task, status, progress, result or error
	Text    string  `json:"text"`
	Message uint64  `json:"message,omitempty"` // number in the log
}

// callKey is the key of the number of the call in a context.
type callKey struct{}

// startCall starts a call and returns its number.
func (h *hub) startCall(s *server, r callRequest) (uint64, error) {
	c, err := s.connected()
	if err != nil {
		return 0, err
	}
	if len(r.Arguments) == 0 || string(r.Arguments) == "null" {
		r.Arguments = json.RawMessage("{}")
	}
	if err := jsonrpc.Check(r.Arguments, jsonrpc.Limits{}); err != nil {
		return 0, fmt.Errorf("the arguments must be JSON: %w", err)
	}
	run, err := s.runner(c, r)
	if err != nil {
		return 0, err
	}
	h.mu.Lock()
	if h.running >= maxRunning {
		h.mu.Unlock()
		return 0, fmt.Errorf("cannot run more than %d calls at once; cancel one", maxRunning)
	}
	h.running++
	h.lastCall++
	ctx, cancel := context.WithCancel(context.WithValue(h.ctx, callKey{}, h.lastCall))
	started := &call{
		Number: h.lastCall, Server: s.Name, Method: r.Method, Name: r.Name, Arguments: r.Arguments,
		State: callRunning, Started: h.now(), Steps: []step{}, cancel: cancel, sent: make(map[string]bool),
	}
	if r.TaskID != "" {
		started.Task = &taskState{ID: r.TaskID, Status: string(mcp.TaskWorking)}
	}
	h.calls = append(h.calls, started)
	h.trim()
	h.touch(started)
	h.mu.Unlock()
	h.wake()
	h.background.Go(func() {
		defer cancel()
		result, err := run(ctx)
		h.finish(started, result, err)
	})
	return started.Number, nil
}

// runner returns the function that sends a call.
func (s *server) runner(c *client.Client, r callRequest) (func(ctx context.Context) (any, error), error) {
	reports := func(ctx context.Context) client.CallOption {
		number := ctx.Value(callKey{}).(uint64)
		return client.WithProgress(func(done, total float64,
			message string) {
			s.hub.progressed(number, done, total, message)
		})
	}
	switch {
	case r.TaskID != "":
		task, err := c.Task(r.TaskID)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (any, error) { return task.Wait(ctx) }, nil
	case r.Method == mcp.MethodCallTool && r.Task:
		return func(ctx context.Context) (any, error) {
			task, err := c.StartTool(ctx, r.Name, r.Arguments, reports(ctx))
			if err != nil {
				return nil, err
			}
			return task.Wait(ctx)
		}, nil
	case r.Method == mcp.MethodCallTool:
		return func(ctx context.Context) (any, error) { return c.CallTool(ctx, r.Name, r.Arguments, reports(ctx)) }, nil
	case r.Method == mcp.MethodGetPrompt:
		var arguments map[string]string
		if err := schema.Decode(r.Arguments, &arguments); err != nil {
			return nil, fmt.Errorf("the arguments of a prompt must be strings: %w", err)
		}
		return func(ctx context.Context) (any, error) { return c.GetPrompt(ctx, r.Name, arguments, reports(ctx)) }, nil
	case r.Method == mcp.MethodReadResource:
		return func(ctx context.Context) (any, error) {
			return c.ReadResource(ctx, r.Name, client.WithRefresh(), reports(ctx))
		}, nil
	case r.Method == mcp.MethodPing:
		return func(ctx context.Context) (any, error) { return struct{}{}, c.Ping(ctx) }, nil
	}
	return nil, fmt.Errorf("unknown method %q", r.Method)
}

// trim drops the oldest finished calls above the limits. It is called with mu held.
func (h *hub) trim() {
	size := 0
	for _, c := range h.calls {
		size += len(c.result)
	}
	h.calls = slices.DeleteFunc(h.calls, func(c *call) bool {
		drop := (len(h.calls)-h.dropped > maxCalls || size > maxResults) && c.ended()
		if drop {
			h.dropped++
			size -= len(c.result)
		}
		return drop
	})
	h.dropped = 0
}

func (c *call) ended() bool { return c.State != callRunning && c.State != callAsking }

// goOn sets the state of a call that has not ended. The status of a task can arrive after the result of its call.
func (c *call) goOn(state string) {
	if !c.ended() {
		c.State = state
	}
}

// finish records the outcome of a call.
func (h *hub) finish(c *call, result any, err error) {
	var raw json.RawMessage
	var failed *client.ToolError
	if errors.As(err, &failed) && failed.Result != nil {
		result, err = failed.Result, nil
	}
	if err == nil {
		raw, err = schema.Marshal(result)
	}
	h.mu.Lock()
	h.running--
	c.Millis = h.since(c)
	c.result, c.Size = raw, len(raw)
	switch {
	case err == nil:
		c.State = callDone
		if r, ok := result.(*mcp.CallToolResult); ok {
			c.IsError = r.IsError
		}
	case errors.Is(err, context.Canceled), errors.Is(err, client.ErrTaskCancelled):
		c.State, c.Error = callCancelled, "cancelled"
	default:
		c.State, c.Error = callFailed, explain(err)
	}
	c.add(h, "end", c.State, 0)
	h.trim()
	h.touch(c)
	h.mu.Unlock()
	h.wake()
}

// since returns the time since a call has started, in milliseconds.
func (h *hub) since(c *call) float64 {
	return float64(h.now().Sub(c.Started).Microseconds()) / 1000
}

// add adds a step. It is called with mu of the hub held.
func (c *call) add(h *hub, kind, text string, message uint64) {
	if len(c.Steps) == maxSteps {
		c.Steps = slices.Delete(c.Steps, 1, 2) // keep the first one
	}
	c.Steps = append(c.Steps, step{h.since(c), kind, terminal.Shorten(text, 500), message})
}

// progressed records a progress report.
func (h *hub) progressed(number uint64, done, total float64, message string) {
	h.update(number, func(c *call) {
		c.Progress = &progress{done, total, terminal.Shorten(message, 500)}
		text := fmt.Sprint(done)
		if total > 0 {
			text += fmt.Sprintf(" of %v", total)
		}
		if message != "" {
			text += ": " + message
		}
		c.add(h, "progress", text, 0)
	})
}

// update changes a call.
func (h *hub) update(number uint64, change func(*call)) {
	h.mu.Lock()
	if c := h.find(number); c != nil {
		change(c)
		h.touch(c)
	}
	h.mu.Unlock()
	h.wake()
}

// find returns a call, or nil. It is called with mu held.
func (h *hub) find(number uint64) *call {
	for _, c := range h.calls {
		if c.Number == number {
			return c
		}
	}
	return nil
}

// maxQuestions limits the questions that wait for the user.
const maxQuestions = 100

// The kinds of questions.
const (
	questionForm     = "form"
	questionURL      = "url"
	questionSampling = "sampling"
	questionRoots    = "roots"
)

// question is a request of a server that the user answers in the page.
type question struct {
	Number  uint64          `json:"number"`
	Server  string          `json:"server"`
	Call    uint64          `json:"call,omitempty"` // during which the server asks; 0 if it is unknown
	Kind    string          `json:"kind"`
	Message string          `json:"message,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"` // of a form
	URL     string          `json:"url,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"` // of sampling
	Roots   []mcp.Root      `json:"roots,omitempty"`  // the previous answer
	Asked   time.Time       `json:"asked"`

	answered chan answer // capacity 1
}

// answer is the answer of the user.
type answer struct {
	Action  mcp.ElicitAction         `json:"action"`  // accept, decline or cancel
	Content json.RawMessage          `json:"content"` // of a form
	Result  *mcp.CreateMessageResult `json:"result"`  // of sampling
	Roots   []mcp.Root               `json:"roots"`
}

// errDeclined is the error of a request that the user does not answer and that has no result for it.
var errDeclined = errors.New("the user declined")

// ask sets the functions of a Dialer that ask the user.
func (s *server) ask(d *client.Dialer, settings Settings) {
	if settings.Elicitation {
		d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			a, err := s.hub.askUser(ctx, question{Server: s.Name, Kind: questionForm, Message: form.Message,
				Schema: form.RequestedSchema})
			if err != nil {
				return nil, err
			}
			result := &mcp.ElicitResult{Action: a.Action}
			if a.Action == mcp.ElicitAccept {
				result.Content = a.Content
			}
			return result, nil
		}
	}
	if settings.URLElicitation {
		d.ElicitURL = func(ctx context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			a, err := s.hub.askUser(ctx, question{Server: s.Name, Kind: questionURL, Message: request.Message,
				URL: request.URL})
			if err != nil {
				return nil, err
			}
			return &mcp.ElicitResult{Action: a.Action}, nil
		}
	}
	if settings.Sampling {
		d.SampleTools = settings.SamplingTools
		d.Sample = func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			raw, err := schema.Marshal(params)
			if err != nil {
				return nil, err
			}
			a, err := s.hub.askUser(ctx, question{Server: s.Name, Kind: questionSampling, Params: raw})
			if err == nil && (a.Action != mcp.ElicitAccept || a.Result == nil) {
				err = errDeclined
			}
			return a.Result, err
		}
	}
	if settings.Roots {
		d.Roots = s.askRoots
	}
}

func (s *server) askRoots(ctx context.Context) ([]mcp.Root, error) {
	s.mu.Lock()
	before := s.roots
	s.mu.Unlock()
	a, err := s.hub.askUser(ctx, question{Server: s.Name, Kind: questionRoots, Roots: before})
	switch {
	case err != nil:
		return nil, err
	case a.Action != mcp.ElicitAccept:
		return nil, errDeclined
	}
	s.mu.Lock()
	s.roots = a.Roots
	s.mu.Unlock()
	if a.Roots == nil {
		a.Roots = []mcp.Root{}
	}
	return a.Roots, nil
}

// askUser shows a question and waits for the answer.
func (h *hub) askUser(ctx context.Context, q question) (answer, error) {
	q.answered = make(chan answer, 1)
	q.Call, _ = ctx.Value(callKey{}).(uint64)
	h.mu.Lock()
	if len(h.questions) >= maxQuestions {
		h.mu.Unlock()
		return answer{}, fmt.Errorf("cannot keep more than %d questions open", maxQuestions)
	}
	h.lastQuestion++
	q.Number, q.Asked = h.lastQuestion, h.now()
	h.questions = append(h.questions, &q)
	h.step(q.Call, "question", "question for the user: "+q.Kind)
	h.mu.Unlock()
	h.wake()
	defer func() {
		h.mu.Lock()
		h.questions = slices.DeleteFunc(h.questions, func(other *question) bool { return other == &q })
		h.mu.Unlock()
		h.wake()
	}()
	select {
	case a := <-q.answered:
		h.mu.Lock()
		h.step(q.Call, "answer", "the user answers: "+string(a.Action))
		h.mu.Unlock()
		return a, nil
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

// step adds a step to a call, if the call is known. It is called with mu held.
func (h *hub) step(number uint64, kind, text string) {
	if c := h.find(number); c != nil {
		c.add(h, kind, text, 0)
		h.touch(c)
	}
}

// openQuestions returns the questions that wait for the user.
func (h *hub) openQuestions() []*question {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.questions)
}

// errAnswered is the error of an answer to a question that is not open.
var errAnswered = errors.New("the question is already answered, or its call has ended")

// answer answers a question. It returns the error of an answer that does not match the form.
func (h *hub) answer(number uint64, a answer) error {
	h.mu.Lock()
	i := slices.IndexFunc(h.questions, func(q *question) bool { return q.Number == number })
	if i < 0 {
		h.mu.Unlock()
		return errAnswered
	}
	q := h.questions[i]
	h.mu.Unlock()
	switch a.Action {
	case mcp.ElicitAccept, mcp.ElicitDecline, mcp.ElicitCancel:
	default:
		return fmt.Errorf("the action must be accept, decline or cancel, not %.20q", string(a.Action))
	}
	if q.Kind == questionForm && a.Action == mcp.ElicitAccept {
		compiled, err := schema.Compile(q.Schema)
		if err != nil {
			return err
		}
		if err := compiled.Validate(a.Content); err != nil {
			return err
		}
	}
	select {
	case q.answered <- a:
		return nil
	default:
		return errAnswered
	}
}
