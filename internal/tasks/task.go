package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
)

// Limits of one task.
const (
	maxQuestions     = 256
	maxQuestionBytes = 1 << 20 // of the questions and answers
	maxMessage       = 1 << 10 // bytes of a status message
)

var (
	// ErrEnded is returned for a transition of a task whose status is final.
	ErrEnded = errors.New("the task has ended")
	// errUnchanged ends a Store.Update that has nothing to write.
	errUnchanged = errors.New("unchanged")
	// errTooManyQuestions ends a handler that asks without end.
	errTooManyQuestions = fmt.Errorf("a task may ask %d questions with %d KiB", maxQuestions, maxQuestionBytes>>10)
)

// Task is the state of one task. Its methods are the transitions of the status. The JSON encoding
// is what a [Store] writes.
type Task struct {
	ID      string         `json:"id"`
	Request Request        `json:"request"`
	Status  mcp.TaskStatus `json:"status"`
	Message string         `json:"message,omitempty"`
	Created time.Time      `json:"created"`
	Updated time.Time      `json:"updated"`
	TTL     int64          `json:"ttl"`     // milliseconds from Created
	Timeout int64          `json:"timeout"` // of one run of the handler, milliseconds
	Poll    int64          `json:"poll"`    // recommended time between two polls, milliseconds

	// Questions are the input requests that the handler has made, by key. Those with an answer
	// are the journal, with which the handler can run again.
	Questions map[string]Question `json:"questions,omitempty"`

	// The outcome of a task that has ended. Result is nil if it is stored in a separate entry.
	Result json.RawMessage `json:"result,omitzero"`
	Failed bool            `json:"failed,omitempty"` // the result is that of a tool that failed
	Error  *jsonrpc.Error  `json:"error,omitzero"`

	Parked   bool   `json:"parked,omitempty"`   // a parked call, which List leaves out
	External bool   `json:"external,omitempty"` // an engine runs the task, not a replica
	Replica  string `json:"replica,omitempty"`  // runs the handler
	Runs     int    `json:"runs,omitzero"`      // how often the handler was started
	Replay   bool   `json:"replay,omitempty"`   // the handler may run again
}

// Request is the request that runs as a task. Access tokens are not stored.
type Request struct {
	Method       string              `json:"method"`
	Params       json.RawMessage     `json:"params"`
	Principal    principal.Principal `json:"principal"`
	Revision     mcp.Revision        `json:"revision"`
	Info         json.RawMessage     `json:"info,omitzero"`         // of the client
	Capabilities json.RawMessage     `json:"capabilities,omitzero"` // of the client
	Key          string              `json:"key"`                   // see rpc.Call.Key
}

// call returns a call for a run of the request's handler.
func (q *Request) call(id string) (*rpc.Call, error) {
	peer := call.Peer{Info: new(mcp.Implementation), Capabilities: new(mcp.ClientCapabilities)}
	if q.Info != nil {
		if err := schema.Decode(q.Info, peer.Info); err != nil {
			return nil, fmt.Errorf("cannot decode the stored request: %w", err)
		}
	}
	if q.Capabilities != nil {
		if err := schema.Decode(q.Capabilities, peer.Capabilities); err != nil {
			return nil, fmt.Errorf("cannot decode the stored request: %w", err)
		}
	}
	c := new(rpc.Call)
	c.Call = *call.New(call.Description{
		Method: q.Method, ID: jsonrpc.StringID(id), Params: jsonrpc.MembersOf(q.Params),
		Revision: q.Revision, Peer: peer, Principal: q.Principal,
	})
	c.RestoreKey(q.Key)
	return c, nil
}

// RequestOf returns what a task stores about a call.
func RequestOf(c *rpc.Call) (Request, error) {
	q := Request{Method: c.Method(), Params: c.Params().Raw(), Principal: c.Principal(), Revision: c.Revision(),
		Key: c.Key()}
	var err error
	if q.Info, err = json.Marshal(c.Peer().Info); err != nil {
		return q, err
	}
	q.Capabilities, err = json.Marshal(c.Peer().Capabilities)
	return q, err
}

// Question is an input request and the answer to it.
type Question struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitzero"`
	Within int64           `json:"within,omitzero"` // see rpc.InputRequest; milliseconds
	Digest string          `json:"digest"`          // see rpc.InputRequest.Digest
	Answer json.RawMessage `json:"answer,omitzero"`
	Error  *jsonrpc.Error  `json:"error,omitzero"` // the client's answer; only in 2025-11-25
}

// IsOpen reports whether the question has no answer.
func (q Question) IsOpen() bool { return q.Answer == nil && q.Error == nil }

// Expires returns the end of the task's life.
func (t *Task) Expires() time.Time { return t.Created.Add(time.Duration(t.TTL) * time.Millisecond) }

// Ask adds an input request, unless the task has it already. The task needs input afterwards
// unless the answer is there.
func (t *Task) Ask(key string, r rpc.InputRequest) error {
	if t.Status.Terminal() {
		return ErrEnded
	}
	sum := r.Digest()
	if q, ok := t.Questions[key]; ok && q.Digest == sum {
		return errUnchanged
	}
	size := len(key) + len(r.Params)
	for k, q := range t.Questions {
		size += len(k) + len(q.Params) + len(q.Answer)
	}
	if len(t.Questions) >= maxQuestions || size > maxQuestionBytes {
		return errTooManyQuestions
	}
	if t.Questions == nil {
		t.Questions = make(map[string]Question)
	}
	t.Questions[key] = Question{Method: r.Method, Params: r.Params, Within: r.Within.Milliseconds(), Digest: sum}
	t.Status = mcp.TaskInputRequired
	return nil
}

// Answer takes the answers to open questions and ignores all others. When no question is open
// the task works again.
func (t *Task) Answer(responses map[string]json.RawMessage) error {
	if t.Status.Terminal() {
		return errUnchanged
	}
	size, accepted := 0, 0
	for key, q := range t.Questions {
		if raw := responses[key]; q.IsOpen() && len(raw) > 0 && raw[0] == '{' {
			q.Answer = raw
			t.Questions[key] = q
			accepted++
		}
		size += len(q.Answer)
	}
	switch {
	case size > maxQuestionBytes:
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the answers of a task may have %d KiB", maxQuestionBytes>>10)
	case accepted == 0:
		return errUnchanged
	}
	t.resume()
	return nil
}

// Reject takes an error as the answer to an open question.
func (t *Task) Reject(key string, err *jsonrpc.Error) error {
	q, ok := t.Questions[key]
	if t.Status.Terminal() || !ok || !q.IsOpen() {
		return errUnchanged
	}
	q.Error = err
	t.Questions[key] = q
	t.resume()
	return nil
}

// resume makes the task work again if no question is open.
func (t *Task) resume() {
	for _, q := range t.Questions {
		if q.IsOpen() {
			return
		}
	}
	t.Status = mcp.TaskWorking
}

// Observe takes the state of a task that an engine runs, while it has not ended.
func (t *Task) Observe(status mcp.TaskStatus, message string, requests mcp.InputRequests) error {
	questions := make(map[string]Question, len(requests))
	size := 0
	for key, r := range requests {
		questions[key] = Question{Method: r.Method, Params: r.Params,
			Digest: rpc.InputRequest{Method: r.Method, Params: r.Params}.Digest()}
		size += len(key) + len(r.Params)
	}
	message = cut(message)
	same := func(a, b Question) bool { return a.Digest == b.Digest }
	switch {
	case t.Status.Terminal():
		return ErrEnded
	case len(questions) > maxQuestions || size > maxQuestionBytes:
		return errTooManyQuestions
	case t.Status == status && t.Message == message && maps.EqualFunc(t.Questions, questions, same):
		return errUnchanged
	}
	t.Status, t.Message, t.Questions = status, message, questions
	return nil
}

// Open returns the questions without an answer.
func (t *Task) Open() mcp.InputRequests {
	open := make(mcp.InputRequests)
	for key, q := range t.Questions {
		if q.IsOpen() {
			open[key] = mcp.InputRequest{Method: q.Method, Params: q.Params}
		}
	}
	return open
}

// reveal makes a parked call a task that its client sees.
func (t *Task) reveal() error {
	switch {
	case t.Status.Terminal():
		return ErrEnded
	case !t.Parked:
		return errUnchanged
	}
	t.Parked = false
	return nil
}

// Describe sets the status message of a task that has not ended.
func (t *Task) Describe(text string) error {
	text = cut(text)
	switch {
	case t.Status.Terminal():
		return ErrEnded
	case t.Message == text:
		return errUnchanged
	}
	t.Message = text
	return nil
}

// Complete ends the task with a result. Failed says that it is the result of a tool that failed. A nil result is stored
// in a separate entry.
func (t *Task) Complete(result json.RawMessage, failed bool) error {
	if t.Status.Terminal() {
		return ErrEnded
	}
	t.end(mcp.TaskCompleted, "")
	t.Result, t.Failed = result, failed
	return nil
}

// Fail ends the task with an error of JSON-RPC.
func (t *Task) Fail(err *jsonrpc.Error) error {
	if t.Status.Terminal() {
		return ErrEnded
	}
	t.end(mcp.TaskFailed, err.Message)
	t.Error = err
	return nil
}

// Cancel ends the task because its client has cancelled it.
func (t *Task) Cancel() error {
	if t.Status.Terminal() {
		return ErrEnded
	}
	t.end(mcp.TaskCancelled, "the client cancelled the task")
	return nil
}

// end removes what only a run of the handler needs.
func (t *Task) end(status mcp.TaskStatus, message string) {
	t.Status, t.Message = status, cut(message)
	t.Questions, t.Request.Params, t.Request.Info, t.Request.Capabilities = nil, nil, nil, nil
}

// cut limits a status message.
func cut(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	end := maxMessage
	for end > 0 && text[end]&0xC0 == 0x80 {
		end--
	}
	return text[:end]
}
