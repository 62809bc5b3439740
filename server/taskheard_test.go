package server_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// brokenBus delivers nothing: its Publish fails or, if ended is set, its subscriptions end at once. It counts both.
type brokenBus struct {
	store.Bus
	ended bool
	uses  atomic.Int64
}

func (b *brokenBus) Publish(context.Context, string, []byte) error {
	b.uses.Add(1)
	if b.ended {
		return nil
	}
	return errors.New("connection reset by peer")
}

func (b *brokenBus) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	b.uses.Add(1)
	s, err := b.Bus.Subscribe(ctx, topic, queue)
	if err == nil && b.ended {
		s.Close()
	}
	return s, err
}

// receiveUntil receives messages until one contains text, and returns that one.
func receiveUntil(w *wiretest.Peer, text string) string {
	w.T.Helper()
	for {
		got := w.Receive()
		if strings.Contains(got, text) {
			return got
		}
		if w.T.Failed() {
			w.T.FailNow()
		}
	}
}

// Each request that waits for a task or a parked call learns of its changes, although the Bus delivers nothing, and
// nothing asks the Bus or the store in a loop.
func TestRequestsLearnOfChangesOfTasksWithoutTheBus(t *testing.T) {
	const answers = `"inputResponses":{"KEY":{"action":"accept","content":{"Name":"Ada"}}}`
	for fault, ended := range map[string]bool{"Publish fails": false, "the Bus has ended": true} {
		for waiter, wait := range map[string]func(t *testing.T, jobs, other *wiretest.Peer){
			"subscriptions/listen": func(t *testing.T, jobs, other *wiretest.Peer) {
				jobs.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + withTasks + `}}`)
				id := member(t, jobs.Receive(), "taskId")
				other.Send(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["` +
					id + `"]},` + withTasks + `}}`)
				got := receiveUntil(other, "input_required")
				jobs.Send(`{"jsonrpc":"2.0","id":3,"method":"tasks/update","params":{"taskId":"` + id + `",` +
					strings.Replace(answers, "KEY", inputKey(t, got), 1) + `,` + withTasks + `}}`)
				_ = jobs.Receive()
				receiveUntil(other, "Hello, Ada")
			},
			"tasks/result": func(t *testing.T, jobs, other *wiretest.Peer) {
				for _, w := range []*wiretest.Peer{jobs, other} {
					w.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
						`"clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{}}}}`)
					_ = w.Receive()
				}
				jobs.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},"task":{"ttl":600000}}}`)
				id := member(t, jobs.Receive(), "taskId")
				other.Send(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
				question := other.Receive()
				must.CheckContains(t, question, "elicitation/create")
				number := strings.TrimPrefix(question[strings.Index(question, `"id":`):], `"id":`)
				number = number[:strings.IndexAny(number, ",}")]
				other.Send(`{"jsonrpc":"2.0","id":` + number + `,"result":{"action":"accept","content":{"Name":"Ada"}}}`)
				receiveUntil(other, "Hello, Ada")
			},
			"a parked call": func(_ *testing.T, jobs, other *wiretest.Peer) {
				callBook(jobs, "", "")
				first := jobs.Receive()
				callBook(other, first, `{"Name":"Ada"}`)
				second := other.Receive()
				callBook(other, second, `{"City":"London"}`)
				receiveUntil(other, "Ada in London")
			},
		} {
			t.Run(fault+"/"+waiter, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					memory := store.NewMemory()
					bus := &brokenBus{Bus: memory, ended: ended}
					hooked := &hookedStore{Store: memory}
					var gets, runs, ends atomic.Int64
					hooked.before = func(_ context.Context, op, _ string, _ []byte) error {
						if op == "get" {
							gets.Add(1)
						}
						return nil
					}
					replica := func() *server.Server {
						var started, finished atomic.Int32
						s := parkedReplica(store.Join(hooked, hooked, hooked, bus), &started, &finished)
						server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, _ struct{}) (string, error) {
							runs.Add(1)
							defer ends.Add(1)
							answer, err := server.Elicit[struct{ Name string }](ctx, "name?")
							if err != nil {
								return "", err
							}
							time.Sleep(time.Second)
							return "Hello, " + answer.Name, nil
						}, server.AsTask(server.TaskOptions{}))
						return s
					}
					a, b := replica(), replica()
					defer a.Shutdown(t.Context())
					defer b.Shutdown(t.Context())
					begun := time.Now()
					wait(t, connect(t, a), connect(t, b))
					took := time.Since(begun)
					if took > 25*time.Second { // up to four changes, each within five seconds
						t.Errorf("took %v", took)
					}
					if most := 40 * int64(took/time.Second+2); gets.Load() > most || bus.uses.Load() > most {
						t.Errorf("%d reads and %d uses of the Bus in %v", gets.Load(), bus.uses.Load(), took)
					}
				})
			})
		}
	}
}
