//lint:file-ignore SA1019 Deprecated features are still supported.

package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

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
			a, err := s.hub.askUser(ctx, question{Server: s.Name, Kind: questionForm, Message: form.Message, Schema: form.RequestedSchema})
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
			a, err := s.hub.askUser(ctx, question{Server: s.Name, Kind: questionURL, Message: request.Message, URL: request.URL})
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
		return answer{}, fmt.Errorf("%d questions are open, which is the limit", maxQuestions)
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
var errAnswered = errors.New("cannot answer the question: it was answered, or its call has ended")

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
