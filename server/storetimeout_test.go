package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// silentStore is a store that stops answering.
type silentStore struct {
	store.KV
	store.Log
	silent bool
}

func (s *silentStore) wait(ctx context.Context) error {
	if !s.silent {
		return nil
	}
	<-ctx.Done()
	return errors.New("no answer")
}

func (s *silentStore) Get(ctx context.Context, key string) (store.Item, error) {
	if err := s.wait(ctx); err != nil {
		return store.Item{}, err
	}
	return s.KV.Get(ctx, key)
}

func (s *silentStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	return s.KV.Put(ctx, key, value, opt)
}

func (s *silentStore) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	if err := s.wait(ctx); err != nil {
		return store.Item{}, err
	}
	return s.KV.Touch(ctx, key, ttl)
}

func (s *silentStore) Delete(ctx context.Context, key string) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.KV.Delete(ctx, key)
}

// A store that does not answer delays each request by one time-out at most.
func TestAStoreThatDoesNotAnswerDelaysRequestsOnce(t *testing.T) {
	for name, request := range map[string]struct{ method, body string }{
		"handshake":      {"POST", fmt.Sprintf(wiretest.Initialize, "2025-11-25")},
		"request":        {"POST", pingBody},
		"notification":   {"POST", wiretest.Initialized},
		"response":       {"POST", `{"jsonrpc":"2.0","id":1,"result":{}}`},
		"standalone GET": {"GET", ""},
		"DELETE":         {"DELETE", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			memory := store.NewMemory(store.MemoryOptions{})
			kv := &silentStore{KV: memory, Log: memory}
			s := httpServer()
			s.KV, s.Log = kv, memory
			defer shutdown(t, s)
			session := begin(t, s)
			if name == "handshake" {
				session = nil
			}
			kv.silent = true
			begun := time.Now()
			rec := inBubble(s, request.method, request.body, append(session, "Accept", "application/json, text/event-stream")...)
			if took := time.Since(begun); rec.Code != http.StatusServiceUnavailable || took > 10*time.Second {
				t.Errorf("%s: %d after %v: %s", name, rec.Code, took, rec.Body)
			}
		})
	}
}

// shutdown ends a server in a bubble.
func shutdown(t *testing.T, s *server.Server) {
	t.Helper()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// stalledStore is a store that fails while it is down. If it is silent, writes have an effect nevertheless.
type stalledStore struct {
	*store.Memory
	down, silent atomic.Bool
}

func (s *stalledStore) check() error {
	if s.down.Load() {
		return errors.New("dial tcp 192.0.2.1:6379: connection refused")
	}
	return nil
}

func (s *stalledStore) Get(ctx context.Context, key string) (store.Item, error) {
	if err := s.check(); err != nil {
		return store.Item{}, err
	}
	return s.Memory.Get(ctx, key)
}

func (s *stalledStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (version uint64, err error) {
	failure := s.check()
	if failure == nil || s.silent.Load() {
		version, err = s.Memory.Put(ctx, key, value, opt)
	}
	if failure != nil {
		return 0, failure
	}
	return version, err
}

func (s *stalledStore) Add(ctx context.Context, set, member string, opt store.AddOptions) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.Memory.Add(ctx, set, member, opt)
}

// stall makes the store fail for a while.
func (s *stalledStore) stall(d time.Duration, silent bool) {
	s.silent.Store(silent)
	s.down.Store(true)
	time.AfterFunc(d, func() { s.down.Store(false) })
}

// stallServer returns a server with the tools "pay", "ask" and "park", whose store fails for d when they use it.
func stallServer(d time.Duration, silent bool, effects *atomic.Int32, log io.Writer) *server.Server {
	db := &stalledStore{Memory: store.NewMemory(store.MemoryOptions{})}
	s := &server.Server{KV: db, Log: db.Memory, Logger: slog.New(slog.NewTextHandler(log, nil))}
	server.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, _ struct{}) (string, error) {
		db.stall(d, silent)
		return server.Once(ctx, "pay", func(context.Context, string) (string, error) {
			db.stall(d, silent)
			return fmt.Sprint("paid ", effects.Add(1)), nil
		})
	})
	ask := func(ctx context.Context, _ struct{}) (string, error) {
		db.stall(d, silent)
		form, err := server.Elicit[struct{ Name string }](ctx, "name?")
		return fmt.Sprint("asked ", effects.Add(1), form.Name), err
	}
	server.AddTool(s, mcp.Tool{Name: "ask"}, ask, server.AsTask(server.TaskOptions{}))
	server.AddTool(s, mcp.Tool{Name: "park"}, ask, server.Parked())
	return s
}

const askable = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// A handler that uses the store waits while it is not available. A write whose answer is lost has no second effect.
func TestHandlersWaitForAStoreThatHasFailed(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var effects atomic.Int32
			s := stallServer(3*time.Second, silent, &effects, io.Discard)
			defer shutdown(t, s)
			w := connect(t, s)
			call := func(tool, more string) string {
				w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},` + more + askable + `}}`)
				return w.Receive()
			}
			if got := call("pay", ""); !strings.Contains(got, `"text":"paid 1"`) {
				t.Errorf("silent %v: Once: %s", silent, got)
			}
			first := call("park", "")
			if !strings.Contains(first, "name?") {
				t.Fatalf("silent %v: a parked call: %s", silent, first)
			}
			got := call("park", `"requestState":"`+member(t, first, "requestState")+`","inputResponses":{"`+inputKey(t, first)+`":{"action":"accept","content":{"Name":"-Ada"}}},`)
			if !strings.Contains(got, `"text":"asked 2-Ada"`) {
				t.Errorf("silent %v: the answer to a parked call: %s", silent, got)
			}
			id := member(t, call("ask", ""), "taskId")
			time.Sleep(6 * time.Second)
			w.Send(`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"` + id + `",` + askable + `}}`)
			if got := w.Receive(); !strings.Contains(got, `"status":"input_required"`) || !strings.Contains(got, "name?") {
				t.Errorf("silent %v: a task: %s", silent, got)
			}
			w.Send(`{"jsonrpc":"2.0","id":3,"method":"tasks/cancel","params":{"taskId":"` + id + `",` + askable + `}}`)
			w.Receive()
		})
	}
}

// A store that is away for long does not hold back the response of a call, which does not name the store. The log does.
func TestErrorsOfTheStoreHaveNoDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var effects atomic.Int32
		var log syncbuffer.Buffer
		s := stallServer(3*time.Minute, false, &effects, &log)
		defer shutdown(t, s)
		for _, tool := range []string{"pay", "park"} {
			begun := time.Now()
			rec := inBubble(s, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{},`+askable+`}}`,
				"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool, "Accept", "application/json, text/event-stream")
			if took := time.Since(begun); took > 70*time.Second || !strings.Contains(rec.Body.String(), "the store of the server is not available: try again later") {
				t.Errorf("%s after %v: %s", tool, took, rec.Body)
			}
			if strings.Contains(rec.Body.String(), "192.0.2.1") || !strings.Contains(log.String(), "192.0.2.1") {
				t.Errorf("%s: %s\nlog: %s", tool, rec.Body, log.String())
			}
		}
		time.Sleep(5 * time.Minute)
	})
}
