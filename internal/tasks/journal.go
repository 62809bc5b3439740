package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
)

// journal is the input requester of one run of a handler. It writes questions to the task and
// waits for their answers. A later run finds the answers in the task.
type journal struct {
	store *Store
	task  *Task // as it was at the start of the run; only its identity is used

	mu      sync.Mutex
	keys    rpc.InputKeys
	known   map[string]Question
	changed chan struct{} // closed when known changes
	waiting int           // handlers that wait for answers

	asking sync.Once
	asked  chan struct{} // closed when the first question is stored

	unanswerable <-chan struct{}         // closed when no answers can come any more
	cancel       context.CancelCauseFunc // ends the run
}

var _ rpc.Replayer = (*journal)(nil)

func newJournal(s *Store, t *Task) *journal {
	j := &journal{store: s, task: t, known: make(map[string]Question), changed: make(chan struct{}),
		asked: make(chan struct{})}
	maps.Copy(j.known, t.Questions)
	return j
}

// RequestInput implements rpc.InputRequester.
func (j *journal) RequestInput(ctx context.Context, c *rpc.Call,
	requests []rpc.InputRequest) ([]json.RawMessage, error) {
	keys := make([]string, len(requests))
	for i, q := range requests {
		var err error
		if keys[i], err = j.take(q); err != nil {
			return nil, err
		}
	}
	if answers, err := j.answers(keys, requests); err != errOpen {
		return answers, err
	}
	var t *Task
	err := rpc.Retry(ctx, func() (err error) {
		t, err = j.store.Update(ctx, j.task.Request.Principal, j.task.ID, func(t *Task) error {
			result := errUnchanged
			for i, q := range requests {
				if err := t.Ask(keys[i], q); err == nil {
					result = nil
				} else if err != errUnchanged {
					return err
				}
			}
			return result
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	j.update(t)
	defer j.wait()()
	j.asking.Do(func() { close(j.asked) })
	for {
		j.mu.Lock()
		changed := j.changed
		j.mu.Unlock()
		if answers, err := j.answers(keys, requests); err != errOpen {
			return answers, err
		}
		select {
		case <-changed:
		case <-j.unanswerable:
			j.cancel(ErrStopped)
			return nil, ErrStopped
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.Context().Done(): // ctx may outlive the run
			return nil, context.Cause(c.Context())
		}
	}
}

// wait records that a handler waits for answers until the returned function is called.
func (j *journal) wait() (end func()) {
	add := func(n int) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.waiting += n
	}
	add(1)
	return func() { add(-1) }
}

// waits reports whether a handler waits for answers.
func (j *journal) waits() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.waiting > 0
}

func (j *journal) take(q rpc.InputRequest) (string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.keys.Take(q, j.digestOf)
}

// digestOf returns the digest of the question with a key, or "". It is called with mu held.
func (j *journal) digestOf(key string) string { return j.known[key].Digest }

// restart forgets which questions the handler has asked.
func (j *journal) restart() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keys = rpc.InputKeys{}
}

// errOpen means that a question has no answer.
var errOpen = errors.New("open")

// answers returns the answers to requests, the error with which the client has answered one, or
// errOpen.
func (j *journal) answers(keys []string, requests []rpc.InputRequest) ([]json.RawMessage, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	answers := make([]json.RawMessage, len(keys))
	open := false
	for i, key := range keys {
		q, ok := j.known[key]
		switch {
		case !ok, q.IsOpen(), q.Digest != requests[i].Digest():
			open = true
		case q.Error != nil:
			return nil, &call.AnswerError{Method: q.Method, Err: q.Error}
		}
		answers[i] = q.Answer
	}
	if open {
		return nil, errOpen
	}
	return answers, nil
}

// update takes the answers in t.
func (j *journal) update(t *Task) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, q := range t.Questions {
		// An older state of the task may come after a newer one.
		if known, ok := j.known[key]; !ok || known.IsOpen() || known.Digest != q.Digest && !q.IsOpen() {
			j.known[key] = q
		}
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// Answered implements rpc.Replayer.
func (j *journal) Answered(q rpc.InputRequest) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	known, ok := j.known[j.keys.Next(q, j.digestOf)]
	return ok && !known.IsOpen() && known.Digest == q.Digest()
}

// Finish implements rpc.InputRequester.
func (j *journal) Finish(_ context.Context, result any, err error) (any, error) { return result, err }
