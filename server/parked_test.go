package server_test

import (
	"context"
	"log/slog"
	"regexp"
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

// parkedReplica returns a replica with the parked tool "book", and counts the runs of its handler.
func parkedReplica(memory store.Store, runs, ended *atomic.Int32) *server.Server {
	s := &server.Server{Store: memory, Keys: [][]byte{make([]byte, 32)}, Logger: slog.New(slog.DiscardHandler)}
	server.AddTool(s, mcp.Tool{Name: "book"}, func(ctx context.Context, _ struct{}) (string, error) {
		runs.Add(1)
		defer ended.Add(1)
		first, err := server.Elicit[struct{ Name string }](ctx, "name?")
		if err != nil {
			return "", err
		}
		if err := server.Progress(ctx, 1, 2, "half"); err != nil {
			return "", err
		}
		second, err := server.Elicit[struct{ City string }](ctx, "city?")
		if err != nil {
			return "", err
		}
		return first.Name + " in " + second.City, nil
	}, server.Parked())
	return s
}

// callBook sends a round of the call on w, with the answer to the last round.
func callBook(w *wiretest.Peer, last, content string) {
	w.T.Helper()
	more := ""
	if last != "" {
		more = `"requestState":"` + member(w.T, last, "requestState") + `",`
		if content != "" {
			more += `"inputResponses":{"` + inputKey(w.T, last) + `":{"action":"accept","content":` + content + `}},`
		}
	}
	meta := strings.Replace(wiretest.Meta, `Capabilities":{}`, `Capabilities":{"elicitation":{}},"progressToken":"p"`,
		1)
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{},` + more + meta + `}}`)
}

func TestHandlerOfAParkedCallRunsOnce(t *testing.T) {
	for _, replicas := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			memory := store.NewMemory()
			var runs, ended atomic.Int32
			var wires []*wiretest.Peer
			for range replicas {
				s := parkedReplica(memory, &runs, &ended)
				defer s.Shutdown(t.Context())
				wires = append(wires, connect(t, s))
			}
			at := func(round int) *wiretest.Peer { return wires[round%replicas] }
			callBook(at(0), "", "")
			first := at(0).Receive()
			callBook(at(1), first, `{"Name":"Ada"}`)
			second := at(1).Receive()
			if replicas == 1 { // progress is for the request at the replica of the handler
				must.CheckContains(t, second, `"method":"notifications/progress"`)
				second = at(1).Receive()
			}
			callBook(at(2), second, "") // the question stays
			third := at(2).Receive()
			must.CheckThat(t, inputKey(t, third) == inputKey(t, second) && inputKey(t, first) != inputKey(t, second),
				"%s\n%s\n%s", first, second, third)
			callBook(at(3), third, `{"City":"London"}`)
			got := at(3).Receive()
			must.CheckThat(t, strings.Contains(got, `"text":"Ada in London"`) && runs.Load() == 1 && ended.Load() == 1,
				"%d runs: %s", runs.Load(), got)
			callBook(at(4), third, `{"City":"London"}`)
			got = at(4).Receive()
			must.CheckThat(t, strings.Contains(got, `"code":-32602`) && strings.Contains(got, "without it") &&
				runs.Load() == 1, "%v", got)
			members := must.Get(memory.List(t.Context(), "local/tasks", "", 10))(t)
			must.CheckEqual(t, len(members), 0, "left in the store", members)
		})
	}
}

func TestParkedCallsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(w *wiretest.Peer, s *server.Server, memory store.Store)
		want string
	}{
		"time": {func(*wiretest.Peer, *server.Server, store.Store) { time.Sleep(time.Hour) }, `"code":-32602`},
		"the process": {func(_ *wiretest.Peer, s *server.Server, _ store.Store) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			s.Shutdown(ctx)
		}, `"code":-32603,"message":"the process that ran the task has ended"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			memory := store.NewMemory()
			var runs, ended atomic.Int32
			s, other := parkedReplica(memory, &runs, &ended), parkedReplica(memory, &runs, &ended)
			defer other.Shutdown(t.Context())
			defer s.Shutdown(t.Context())
			w, second := connect(t, s), connect(t, other)
			callBook(w, "", "")
			first := w.Receive()
			c.end(w, s, memory)
			synctest.Wait()
			must.CheckEqual(t, ended.Load(), 1, name)
			callBook(second, first, `{"Name":"Ada"}`)
			got := second.Receive()
			must.CheckThat(t, strings.Contains(got, c.want) && runs.Load() == 1, "%s: %s", name, got)
		})
	}
}

func TestAFullPlaceTakesThatOfTheOldestParkedCall(t *testing.T) {
	for want, limits := range map[string]server.Limits{
		"the call was given up":                    {Tasks: 2},
		"invalid requestState: the call has ended": {TasksPerPrincipal: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var runs, ended atomic.Int32
			s := parkedReplica(store.NewMemory(), &runs, &ended)
			s.Limits = limits
			defer s.Shutdown(t.Context())
			w := connect(t, s)
			var asked []string
			for range 3 {
				callBook(w, "", "")
				asked = append(asked, w.Receive())
			}
			synctest.Wait()
			must.CheckEqual(t, ended.Load(), 1)
			callBook(w, asked[0], `{"Name":"Ada"}`)
			must.CheckContains(t, w.Receive(), want)
			callBook(w, asked[1], `{"Name":"Ada"}`)
			must.CheckContains(t, w.Receive(), `notifications/progress`)
			must.CheckContains(t, w.Receive(), `city?`)
		})
	}
}

// Without a KV, no request can bring the answer after the shutdown has begun.
func TestShutdownDoesNotWaitForTheAnswerToAParkedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs, ended atomic.Int32
		s := parkedReplica(nil, &runs, &ended)
		s.Store = nil
		callBook(connect(t, s), "", "")
		synctest.Wait()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil || time.Since(begun) != 0 || ended.Load() != 1 {
			t.Errorf("%v after %v, %d handlers have ended", err, time.Since(begun), ended.Load())
		}
	})
}

func TestCancellingARequestOfAParkedCallEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory()
		var runs, ended atomic.Int32
		s := parkedReplica(memory, &runs, &ended)
		started := make(chan struct{})
		server.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
			defer ended.Add(1)
			close(started)
			<-ctx.Done()
			return "", context.Cause(ctx)
		}, server.Parked())
		defer s.Shutdown(t.Context())
		w := connect(t, s)
		w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{},` + wiretest.Meta +
			`}}`)
		<-started
		w.Send(cancelled(`1`))
		synctest.Wait()
		must.CheckEqual(t, ended.Load(), 1)
	})
}

// A call that waits for an answer before it detaches runs again at another replica if its tool allows that, and
// detaches there.
func TestACallMayDetachAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory()
		var runs atomic.Int32
		replica := func() (*server.Server, *wiretest.Peer) {
			s := &server.Server{Store: memory, Keys: [][]byte{make([]byte, 32)}, Logger: slog.New(slog.DiscardHandler)}
			server.AddTool(s, mcp.Tool{Name: "book"}, func(ctx context.Context, _ struct{}) (string, error) {
				runs.Add(1)
				answer, err := server.Elicit[struct{ Name string }](ctx, "name?")
				if err != nil {
					return "", err
				}
				return "booked for " + answer.Name, server.Detach(ctx)
			}, server.Parked(), server.AsTask(server.TaskOptions{Replay: true}))
			return s, connect(t, s)
		}
		first, w := replica()
		w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{},` + withTasks + `}}`)
		question := w.Receive()
		shutdownNow(t, first)
		second, w := replica()
		defer shutdownNow(t, second)
		w.Send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"book","arguments":{},"requestState":"` +
			member(t, question, "requestState") + `","inputResponses":{"` + inputKey(t, question) +
			`":{"action":"accept","content":{"Name":"Ada"}}},` + withTasks + `}}`)
		created := w.Receive()
		id := member(t, created, "taskId")
		must.CheckEqual(t, member(t, created, "status"), "working") // it has ended meanwhile
		synctest.Wait()
		w.Send(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"` + id + `",` + withTasks + `}}`)
		if got := w.Receive(); !strings.Contains(got, `"text":"booked for Ada"`) || runs.Load() != 2 {
			t.Errorf("%d runs: %s", runs.Load(), got)
		}
	})
}

// The state of a parked call belongs to its request and its principal, as every requestState does.
func TestParkedCallsBelongToTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory()
		var runs, ended atomic.Int32
		s := parkedReplica(memory, &runs, &ended)
		defer s.Shutdown(t.Context())
		w := connect(t, s)
		callBook(w, "", "")
		first := w.Receive()
		state := member(t, first, "requestState")
		forged := regexp.MustCompile(`.$`).ReplaceAllStringFunc(state, func(c string) string {
			if c == "A" {
				return "B"
			}
			return "A"
		})
		for _, params := range []string{
			`"name":"book","arguments":{"x":1},"requestState":"` + state + `"`,
			`"name":"book","arguments":{},"requestState":"` + forged + `"`,
		} {
			w.Send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{` + params + `,` + wiretest.Meta + `}}`)
			must.CheckContains(t, w.Receive(), `"code":-32602,"message":"invalid requestState`)
		}
	})
}

// A call is stored only if its handler asks a question.
func TestCallsThatAskNothingAreNotParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory()
		s := &server.Server{Store: memory, Limits: server.Limits{Tasks: 1}, Logger: slog.New(slog.DiscardHandler)}
		release := make(chan struct{})
		server.AddTool(s, mcp.Tool{Name: "book"}, func(ctx context.Context, _ struct{}) (string, error) {
			server.Logger(ctx).Warn("started")
			if err := server.Progress(ctx, 1, 2, "half"); err != nil {
				return "", err
			}
			select {
			case <-release:
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}, server.Parked())
		defer s.Shutdown(t.Context())
		wires := []*wiretest.Peer{connect(t, s), connect(t, s), connect(t, s)}
		for _, w := range wires {
			callBook(w, "", "")
			must.CheckContains(t, w.Receive(), `"progressToken":"p","progress":1`)
		}
		wires[0].Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,` + wiretest.Meta +
			`}}`)
		synctest.Wait()
		members := must.Get(memory.List(t.Context(), "local/tasks", "", 10))(t)
		must.CheckEqual(t, len(members), 0, members)
		close(release)
		for _, w := range wires[1:] {
			must.CheckContains(t, w.Receive(), `"text":"done"`)
		}
	})
}

// A request that waits for a parked call at another replica gets an error soon after the replica of the call has ended.
func TestARequestForAParkedCallEndsWithItsReplica(t *testing.T) {
	for phase := range 5 {
		synctest.Test(t, func(t *testing.T) {
			memory := store.NewMemory()
			var wires []*wiretest.Peer
			var stores []*cutStore
			for range 2 {
				db := newCutStore(memory)
				s := &server.Server{Store: db, Keys: [][]byte{make([]byte, 32)}, Logger: slog.New(slog.DiscardHandler)}
				server.AddTool(s, mcp.Tool{Name: "book"}, func(ctx context.Context, _ struct{}) (string, error) {
					if _, err := server.Elicit[struct{ Name string }](ctx, "name?"); err != nil {
						return "", err
					}
					<-ctx.Done()
					return "", context.Cause(ctx)
				}, server.Parked())
				defer shutdownNow(t, s)
				wires, stores = append(wires, connect(t, s)), append(stores, db)
			}
			callBook(wires[0], "", "")
			first := wires[0].Receive()
			callBook(wires[1], first, `{"Name":"Ada"}`)
			time.Sleep(time.Minute + time.Duration(phase)*time.Second)
			stores[0].cut.Store(true)
			begun := time.Now()
			m, err := wires[1].Conn.Read(t.Context())
			took := time.Since(begun)
			must.CheckThat(t, err == nil && strings.Contains(string(m), "the process that ran the task has ended") &&
				took <= 20*time.Second, "after %v: %s %v", took, m, err)
		})
	}
}
