package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

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
		"handshake":      {"POST", fmt.Sprintf(initializeBody, "2025-11-25")},
		"request":        {"POST", pingBody},
		"notification":   {"POST", initializedBody},
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
