package endpoint

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/store"
)

// checkedStore is a store for readiness checks.
type checkedStore struct {
	store.Store
	asked          atomic.Int32
	get            func(ctx context.Context) error
	put, subscribe error
}

func (s *checkedStore) Get(ctx context.Context, _ string) (store.Item, error) {
	s.asked.Add(1)
	return store.Item{}, s.get(ctx)
}

func (s *checkedStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if s.put != nil {
		return 0, s.put
	}
	return s.Store.Put(ctx, key, value, opt)
}

func (s *checkedStore) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	if s.subscribe != nil {
		return nil, s.subscribe
	}
	return s.Store.Subscribe(ctx, topic, queue)
}

// checkOf returns the readiness of a program with this store.
func checkOf(s *checkedStore) *readiness {
	s.Store = store.NewMemory()
	return &readiness{store: s}
}

func readyz(r *readiness) (status int, body string) {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/readyz", nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestReadinessDependsOnTheStore(t *testing.T) {
	const unreachable = `{"ready":false,"store":"unreachable"}`
	for name, test := range map[string]struct {
		get    func(ctx context.Context) error
		status int
		body   string
	}{
		"empty": {func(context.Context) error { return store.ErrNotFound }, http.StatusOK,
			`{"ready":true,"store":"reachable"}`},
		"broken": {func(context.Context) error { return errors.New("password=hunter2") }, http.StatusServiceUnavailable,
			unreachable},
		"hangs": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, http.StatusServiceUnavailable,
			unreachable},
		"has a value": {func(context.Context) error {
			return nil
		}, http.StatusOK, `{"ready":true,"store":"reachable"}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			if status, body := readyz(checkOf(&checkedStore{get: test.get})); status != test.status ||
				body != test.body {
				t.Errorf("%s: %d %s", name, status, body)
			}
		})
	}
}

// A Redis server can be reached and yet not do what a replica needs.
func TestReadinessNamesWhatTheStoreDoesNotDo(t *testing.T) {
	found, secret := func(context.Context) error { return nil }, errors.New("READONLY password=hunter2")
	for body, kv := range map[string]*checkedStore{
		`{"ready":false,"store":"incomplete","missing":["write (SET)"]}`:           {get: found, put: secret},
		`{"ready":false,"store":"incomplete","missing":["subscribe (SUBSCRIBE)"]}`: {get: found, subscribe: secret},
	} {
		r := checkOf(kv)
		if status, got := readyz(r); status != http.StatusServiceUnavailable || got != body {
			t.Errorf("%d %s, want %s", status, got, body)
		}
		report := r.report(t.Context())
		if text := report.Text(); !strings.Contains(text, "store: incomplete\nstore: cannot ") {
			t.Errorf("parley ready prints %q", text)
		}
	}
}

// Health checks do not load the store.
func TestTheStoreIsAskedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &checkedStore{get: func(context.Context) error { return nil }}
		r := checkOf(kv)
		for range 100 {
			readyz(r)
		}
		if n := kv.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		time.Sleep(2 * time.Second)
		kv.get = func(context.Context) error { return errors.New("gone") }
		if status, _ := readyz(r); status != http.StatusServiceUnavailable || kv.asked.Load() != 2 {
			t.Errorf("status %d after the store has failed, asked %d times", status, kv.asked.Load())
		}
	})
}
