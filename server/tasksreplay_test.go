package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// handover starts a task on a replica, ends the replica when the task has asked a question, and returns a
// client of another replica with the same store. Both have the tool "job".
func handover(t *testing.T, w taskWire, o server.TaskOptions, job func(context.Context) (string, error)) (p *taskPeer, id string) {
	t.Helper()
	memory := store.NewMemory(store.MemoryOptions{})
	replica := func() *server.Server {
		s := quiet()
		s.KV, s.Log, s.Bus = memory, memory, memory
		s.Keys = [][]byte{make([]byte, 32)}
		server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, _ struct{}) (string, error) { return job(ctx) }, server.AsTask(o))
		return s
	}
	first := replica()
	p = w.connect(t, first)
	r := p.ask(mcp.MethodCallTool, p.taskCall("job", ""))
	for strings.Contains(r.raw, `"resultType":"input_required"`) {
		var round struct {
			InputRequests map[string]json.RawMessage
			RequestState  string
		}
		if err := json.Unmarshal(r.result, &round); err != nil {
			t.Fatal(err)
		}
		answers := make(map[string]json.RawMessage)
		for key := range round.InputRequests {
			answers[key] = json.RawMessage(acceptName("Ada"))
		}
		raw, _ := json.Marshal(answers)
		r = p.ask(mcp.MethodCallTool, p.taskCall("job", "")+fmt.Sprintf(`,"inputResponses":%s,"requestState":%q`, raw, round.RequestState))
	}
	if r.err != nil {
		t.Fatalf("%s", r.raw)
	}
	id = p.created(r.result).TaskID
	p.until(id, mcp.TaskInputRequired)
	p.close()
	shutdownNow(t, first)
	return w.connect(t, replica()), id
}

// finish answers the questions of a task until it ends, and returns its result.
func (p *taskPeer) finish(id, name string) string {
	p.t.Helper()
	if !p.revision.Modern() {
		p.answer = func(*jsonrpc.Message) string { return acceptName(name) }
		return string(p.must(mcp.MethodTaskResult, taskMembers(id)))
	}
	for {
		s := p.get(id)
		if s.Status.Terminal() {
			return s.raw
		}
		for key := range s.InputRequests {
			p.update(id, fmt.Sprintf(`{%q:%s}`, key, acceptName(name)))
		}
	}
}

// TaskOptions.Replay: the handler runs again on another replica, finds the answers to its questions, and
// does not repeat what is in Once.
func TestAnotherReplicaRunsTheHandlerAgain(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		var runs, effects atomic.Int64
		p, id := handover(t, w, server.TaskOptions{Replay: true}, func(ctx context.Context) (string, error) {
			run := runs.Add(1)
			effect, err := server.Once(ctx, "effect", func(_ context.Context, key string) (string, error) {
				return fmt.Sprintf("%d, key %t", effects.Add(1), len(key) > 20), nil
			})
			if err != nil {
				return "", err
			}
			who, err := server.Elicit[nameForm](ctx, "Who?", server.Key("who"))
			return fmt.Sprintf("run %d effect %s %s", run, effect, who.Name), err
		})
		if got := p.finish(id, "Ada"); !strings.Contains(got, "run 2 effect 1, key true Ada") {
			t.Errorf("%s", got)
		}
		if effects.Load() != 1 {
			t.Errorf("%d effects", effects.Load())
		}
	})
}

// Without TaskOptions.Replay the task fails, and its handler does not run again.
func TestTaskOfAnEndedReplicaFails(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		var runs atomic.Int64
		p, id := handover(t, w, server.TaskOptions{}, func(ctx context.Context) (string, error) {
			runs.Add(1)
			_, err := server.Elicit[nameForm](ctx, "Who?", server.Key("who"))
			return "", err
		})
		if _, err := p.outcome(id, mcp.TaskFailed); err == nil || !strings.Contains(err.Message, "has ended") || runs.Load() != 1 {
			t.Errorf("%v after %d runs", err, runs.Load())
		}
	})
}

// The answers to the questions before Detach are kept for another run, and are not mixed up with those of
// questions with the same content.
func TestAnotherRunFindsTheAnswersFromBeforeDetach(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		var runs atomic.Int64
		p, id := handover(t, w, server.TaskOptions{AtDetach: true, Replay: true}, func(ctx context.Context) (string, error) {
			first, err := server.Elicit[nameForm](ctx, "Who?")
			if err != nil {
				return "", err
			}
			if ctx, err = server.Detach(ctx); err != nil {
				return "", err
			}
			run := runs.Add(1)
			second, err := server.Elicit[nameForm](ctx, "Who?")
			return fmt.Sprintf("run %d: %s, %s", run, first.Name, second.Name), err
		})
		if got := p.finish(id, "Bob"); !strings.Contains(got, "run 2: Ada, Bob") {
			t.Errorf("%s", got)
		}
	})
}

// Server.Keys: what the store has of a task is encrypted.
func TestStoredTasksAreEncrypted(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		memory := store.NewMemory(store.MemoryOptions{})
		spy := &spyStore{Memory: memory}
		s := quiet()
		s.KV, s.Log, s.Keys = spy, memory, [][]byte{make([]byte, 32)}
		server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			who, err := server.Elicit[nameForm](ctx, "secret question?", server.Key("who"))
			return "secret result of " + who.Name + strings.Repeat(" and more", 5000), err
		}, server.AsTask(server.TaskOptions{}))
		p := w.connect(t, s)
		id := p.created(p.must(mcp.MethodCallTool, p.taskCall("job", `"text":"secret argument"`))).TaskID
		p.until(id, mcp.TaskInputRequired)
		if got := p.finish(id, "secret answer"); !strings.Contains(got, "secret result of secret answer") {
			t.Errorf("%.300s", got)
		}
		if spy.puts.Load() < 4 || spy.plain.Load() != 0 {
			t.Errorf("%d of %d entries are not encrypted", spy.plain.Load(), spy.puts.Load())
		}
	})
}

// spyStore counts the entries of tasks.
type spyStore struct {
	*store.Memory
	puts, plain atomic.Int64
}

func (s *spyStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if strings.Contains(key, "task/") {
		s.puts.Add(1)
		if strings.Contains(string(value), "secret") || json.Valid(value) {
			s.plain.Add(1)
		}
	}
	return s.Memory.Put(ctx, key, value, opt)
}
