package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// canaryStore records what a server stores, publishes and appends.
type canaryStore struct {
	*store.Memory
	mu      sync.Mutex
	entries []string
}

func (s *canaryStore) record(kind, name string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, kind+" "+name+": "+string(value))
}

func (s *canaryStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	s.record("put", key, value)
	return s.Memory.Put(ctx, key, value, opt)
}

func (s *canaryStore) Add(ctx context.Context, key, member string, opt store.AddOptions) error {
	s.record("add", key, []byte(member))
	return s.Memory.Add(ctx, key, member, opt)
}

func (s *canaryStore) Publish(ctx context.Context, topic string, data []byte) error {
	s.record("publish", topic, data)
	return s.Memory.Publish(ctx, topic, data)
}

func canaryServer(keys ...[]byte) (*server.Server, *canaryStore) {
	spy := &canaryStore{Memory: store.NewMemory(store.MemoryOptions{})}
	s := quiet()
	s.KV, s.Bus, s.Keys = spy, spy, keys
	return s, spy
}

// The arguments, questions, answers, results and errors of tasks are encrypted, also in long entries and on
// the Bus. Tokens are not stored at all.
func TestNoStoredEntryRevealsATask(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		if !w.http {
			return // there are no tokens
		}
		s, spy := canaryServer(make([]byte, 32))
		s.Auth = &auth.ProtectedResource{
			URI: "http://localhost", Issuers: []string{"https://issuer.example"},
			Verifier: auth.VerifierFunc(func(ctx context.Context, token string) (*auth.Info, error) {
				if token != "canarytoken" {
					return nil, errors.New("unknown token")
				}
				return principalOfToken(ctx, "ada")
			}),
		}
		for name, long := range map[string]int{"short": 1, "long": 3000} {
			server.AddTool(s, mcp.Tool{Name: name}, func(ctx context.Context, in nameForm) (string, error) {
				if err := server.Progress(ctx, 1, 2, "canary progress"); err != nil {
					return "", err
				}
				who, err := server.Elicit[nameForm](ctx, "canary question")
				return strings.Repeat("canary result ", long) + in.Name + who.Name, err
			}, server.AsTask(server.TaskOptions{}))
		}
		server.AddTool(s, mcp.Tool{Name: "error"}, func(context.Context, nameForm) (string, error) {
			return "", jsonrpc.Errorf(-32099, "canary error")
		}, server.AsTask(server.TaskOptions{}))
		p := w.connect(t, s, "canarytoken")
		for _, tool := range []string{"short", "long"} {
			id := p.created(p.must(mcp.MethodCallTool, p.taskCall(tool, `"name":"canary argument"`))).TaskID
			p.until(id, mcp.TaskInputRequired)
			if got := p.finish(id, "canary answer"); !strings.Contains(got, "canary answer") {
				t.Errorf("%.300s", got)
			}
		}
		id := p.created(p.must(mcp.MethodCallTool, p.taskCall("error", `"name":"canary argument"`))).TaskID
		p.until(id, mcp.TaskFailed)
		spy.mu.Lock()
		defer spy.mu.Unlock()
		for _, entry := range spy.entries {
			if strings.Contains(entry, "canary") {
				t.Errorf("%.300s", entry)
			}
		}
		if len(spy.entries) < 10 {
			t.Errorf("the store was used %d times", len(spy.entries))
		}
	})
}

// Server.Keys: replicas get a new key, in the order that the documentation describes, while tasks have ended,
// wait for answers, and are taken over.
func TestRotatedKeysFailNoTask(t *testing.T) {
	oldKey, newKey := make([]byte, 32), []byte(strings.Repeat("k", 32))
	onTaskWires(t, func(t *testing.T, w taskWire) {
		memory := store.NewMemory(store.MemoryOptions{})
		replica := func(keys ...[]byte) *server.Server {
			s := quiet()
			s.KV, s.Bus, s.Keys = memory, memory, keys
			server.AddTool(s, mcp.Tool{Name: "quick"}, nothing, server.AsTask(server.TaskOptions{}))
			server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, in nameForm) (string, error) {
				first, err := server.Elicit[nameForm](ctx, "Who?")
				if err != nil {
					return "", err
				}
				second, err := server.Elicit[nameForm](ctx, "Who else?")
				return fmt.Sprint(in.Name, first.Name, second.Name, strings.Repeat(" and more", 5000)), err
			}, server.AsTask(server.TaskOptions{Replay: true}))
			return s
		}
		first := replica(oldKey, newKey)
		p := w.connect(t, first)
		ended := p.create("quick").TaskID
		p.until(ended, mcp.TaskCompleted)
		before := p.get(ended).raw
		create := func() string {
			id := p.created(p.must(mcp.MethodCallTool, p.taskCall("job", `"name":"Ada"`))).TaskID
			p.until(id, mcp.TaskInputRequired)
			return id
		}
		running, orphan := create(), create()

		second := replica(newKey, oldKey)
		q := w.connect(t, second)
		if got := q.get(ended).raw; got != before {
			t.Errorf("%s, before %s", got, before)
		}
		if got := q.finish(running, "Bob"); !strings.Contains(got, "AdaBobBob") { // runs on the first
			t.Errorf("%.200s", got)
		}
		p.close()
		shutdownNow(t, first)
		if got := q.finish(orphan, "Eve"); !strings.Contains(got, "AdaEveEve") {
			t.Errorf("the task that was taken over: %.200s", got)
		}
		if got := q.get(running); got.Status != mcp.TaskCompleted {
			t.Errorf("%.200s", got.raw)
		}
		third := replica(newKey)
		if got := w.connect(t, third).get(orphan); got.Status != mcp.TaskCompleted {
			t.Errorf("with the new key only: %.200s", got.raw)
		}
	})
}
