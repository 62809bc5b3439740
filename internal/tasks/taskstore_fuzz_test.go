package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// FuzzTaskStore reads a sequence of operations on the tasks of two owners from bytes. Two replicas, which share a KV,
// run them in turn. A change can be interrupted between its read and its write by the next operation, which the other
// replica runs. The tasks are then those of a model in which each operation is atomic: at the time of its write, if it
// has one.
func FuzzTaskStore(f *testing.F) {
	f.Add([]byte("\x00\x00\x10\x01\x02\x81\x12\x03\x14\x05\x06\x07\x87\x01\x08\x08\x07"))
	f.Add([]byte("\x01\x00\x81\x82\x83\x03\x07\x00\x84\x04\x05\x07\x06\x06\x06\x07"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x40\x40\x08\x07\x08\x00\x07\x83\x85\x03\x06"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x10\x10\x10\x10\x10\x17\x27\x37")) // as many tasks as allowed, in pages
	f.Add([]byte("\x00\x00\x81\x08\x81\x08\x81\x08\x81\x08\x01\x07"))
	f.Fuzz(func(t *testing.T, operations []byte) {
		if len(operations) < 2 || len(operations) > 200 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			m := newTaskModel(t, operations[0]&1 == 1)
			m.operations = operations[1:]
			for len(m.operations) > 0 {
				m.run(0)
			}
		})
	})
}

// taskModel runs operations on two replicas and on a model.
type taskModel struct {
	t          *testing.T
	replicas   [2]*Store
	operations []byte       // that are left
	tasks      []*modelTask // in the order of their creation
}

// modelTask is a task as it must be.
type modelTask struct {
	id      string
	owner   principal.Principal
	expires time.Time
	status  mcp.TaskStatus
	message string
	result  []byte
}

const modelLimit = 4 // of the tasks of one owner

var modelOwners = [2]principal.Principal{principal.Anonymous, principal.Local}

func newTaskModel(t *testing.T, encrypt bool) *taskModel {
	m := &taskModel{t: t}
	memory := store.NewMemory()
	if encrypt {
		seals := must.Get(seal.New(bytes.Repeat([]byte{1}, 32)))(t)
		memory = seals.Store(memory, slog.New(slog.DiscardHandler))
	}
	for i := range m.replicas {
		m.replicas[i] = &Store{KV: memory, Bus: memory, PerOwner: modelLimit, MaxAnonymous: modelLimit}
	}
	return m
}

// run runs the next operation on a replica. The lowest bits of its byte select the operation, the next ones the task,
// and the highest one an interruption by the operation that follows.
func (m *taskModel) run(replica int) {
	b := m.operations[0]
	m.operations = m.operations[1:]
	s, target := m.replicas[replica], m.target(int(b>>4&7))
	switch b & 15 {
	case 0:
		m.create(s, modelOwners[b>>4&1], time.Duration(1+b>>5&3)*time.Minute)
	case 1:
		m.change(replica, b, target, func(t *Task) error {
			return t.Describe(fmt.Sprint("message ", b))
		}, func(w *modelTask) { w.message = fmt.Sprint("message ", b) })
	case 2, 3:
		result := json.RawMessage(fmt.Sprintf(`{"content":[],"text":"%d %s"}`, b,
			strings.Repeat("x", int(b&1)*(maxInline+1))))
		m.complete(replica, b, target, result)
	case 4:
		m.change(replica, b, target, func(t *Task) error {
			return t.Fail(&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "failed"})
		}, func(w *modelTask) { w.status, w.message = mcp.TaskFailed, "failed" })
	case 5:
		m.change(replica, b, target, (*Task).Cancel, func(w *modelTask) {
			w.status, w.message = mcp.TaskCancelled, "the client cancelled the task"
		})
	case 6:
		m.compare(s, target)
	case 7:
		for _, owner := range modelOwners {
			m.list(s, owner, 1+int(b>>4&3))
		}
	case 8:
		time.Sleep(time.Duration(b>>4) * 10 * time.Second)
	}
}

// target returns the task that an operation selects, which need not exist.
func (m *taskModel) target(i int) *modelTask {
	if i < len(m.tasks) {
		return m.tasks[len(m.tasks)-1-i]
	}
	return &modelTask{id: "unknown", owner: principal.Anonymous}
}

func (m *taskModel) exists(w *modelTask) bool { return time.Now().Before(w.expires) }

func (m *taskModel) create(s *Store, owner principal.Principal, ttl time.Duration) {
	have := 0
	for _, w := range m.tasks {
		if w.owner == owner && m.exists(w) {
			have++
		}
	}
	w := &modelTask{id: fmt.Sprint("task", len(m.tasks)), owner: owner, expires: time.Now().Add(ttl),
		status: mcp.TaskWorking}
	err := s.Create(m.t.Context(), &Task{ID: w.id, Status: mcp.TaskWorking, TTL: ttl.Milliseconds(),
		Request: Request{Principal: owner, Method: mcp.MethodCallTool}})
	overload, ok := errors.AsType[*call.OverloadError](err)
	must.That(m.t, (have >= modelLimit) == ok && (ok || err == nil), "create with %d tasks: %v %v", have, overload, err)
	if err == nil {
		m.tasks = append(m.tasks, w)
		time.Sleep(time.Millisecond) // tasks of one millisecond are listed by id
	}
}

// change runs an Update, and the same transition of the model at the time of its write. An Update that writes nothing
// has the state of its last read.
func (m *taskModel) change(replica int, b byte, w *modelTask, transition func(*Task) error, model func(*modelTask)) {
	interrupted := b&0x80 == 0 || len(m.operations) == 0
	var read *modelTask // the state at the last read; nil if the task does not exist
	var outcome error   // of the last transition
	got, err := m.replicas[replica].Update(m.t.Context(), w.owner, w.id, func(t *Task) error {
		before := *w
		if read = &before; !m.exists(w) {
			m.t.Fatalf("%s has expired and is changed", w.id)
		}
		if !interrupted {
			interrupted = true
			m.run(1 - replica)
		}
		outcome = transition(t)
		return outcome
	})
	want := read
	switch {
	case read == nil || outcome == nil && !m.exists(w):
		must.That(m.t, !m.exists(w) && errors.Is(err, ErrNotFound), "%s, which expires at %v: %v", w.id, w.expires, err)
		return
	case outcome == nil:
		must.That(m.t, err == nil && !w.status.Terminal(), "%s is %s and is changed: %v", w.id, w.status, err)
		model(w)
		want = w
	case errors.Is(outcome, ErrEnded):
		must.That(m.t, errors.Is(err, ErrEnded) && read.status.Terminal(), "%s is %s: %v", w.id, read.status, err)
	case err != nil || !errors.Is(outcome, errUnchanged):
		m.t.Fatalf("%s: %v, %v", w.id, outcome, err)
	}
	must.Equal(m.t, got.Status, want.status, w.id)
	must.Equal(m.t, got.Message, want.message, w.id)
}

// complete stores a result, and ends the task with it.
func (m *taskModel) complete(replica int, b byte, w *modelTask, result json.RawMessage) {
	s := m.replicas[replica]
	task, err := s.Get(m.t.Context(), w.owner, w.id)
	if err != nil || task.Status.Terminal() { // a replica completes only tasks that it runs
		m.compare(s, w)
		return
	}
	inline, err := s.SaveResult(m.t.Context(), task, s.Remaining(task), result)
	must.Do(m.t, err, "cannot save the result", w.id)
	m.change(replica, b, w, func(t *Task) error { return t.Complete(inline, false) }, func(w *modelTask) {
		w.status, w.message, w.result = mcp.TaskCompleted, "", result
	})
}

// compare compares a task with the model. No other owner has it.
func (m *taskModel) compare(s *Store, w *modelTask) {
	m.t.Helper()
	for _, owner := range modelOwners {
		got, err := s.Get(m.t.Context(), owner, w.id)
		if owner != w.owner || !m.exists(w) {
			must.Is(m.t, err, ErrNotFound, w.id, owner, got)
			continue
		}
		if err != nil || got.Status != w.status || got.Message != w.message {
			m.t.Fatalf("%s: %+v, %v; want %s %q", w.id, got, err, w.status, w.message)
		}
		if w.status != mcp.TaskCompleted {
			continue
		}
		result := must.Get(s.Result(m.t.Context(), got))(m.t)
		must.Equal(m.t, string(result), string(w.result), w.id, "has a result", len(result), len(w.result))
	}
}

// list compares all pages of the tasks of an owner with the model.
func (m *taskModel) list(s *Store, owner principal.Principal, limit int) {
	var got, want []string
	for after := ""; ; {
		page, next, err := s.List(m.t.Context(), owner, after, limit)
		must.That(m.t, err == nil && len(page) <= limit, "list of %d tasks, limit %d: %v", len(page), limit, err)
		for _, task := range page {
			got = append(got, task.ID)
		}
		if after = next; after == "" {
			break
		}
	}
	for _, w := range m.tasks {
		if w.owner == owner && m.exists(w) {
			want = append(want, w.id)
		}
	}
	must.Equal(m.t, fmt.Sprint(got), fmt.Sprint(want), owner, got, want)
}
