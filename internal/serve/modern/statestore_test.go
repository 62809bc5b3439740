package modern

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// book is a store that records its keys, and that can be made to fail.
type book struct {
	store.KV
	mu   sync.Mutex
	keys map[string]bool
	fail error
}

func newBook() *book {
	return &book{KV: store.NewMemory(store.MemoryOptions{}), keys: make(map[string]bool)}
}

func (b *book) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if b.fail != nil {
		return 0, b.fail
	}
	b.mu.Lock()
	b.keys[key] = true
	b.mu.Unlock()
	return b.KV.Put(ctx, key, value, opt)
}

func (b *book) Get(ctx context.Context, key string) (store.Item, error) {
	if b.fail != nil {
		return store.Item{}, b.fail
	}
	return b.KV.Get(ctx, key)
}

// huge is an answer that is too large for requestState.
var huge = `{"action":"accept","content":{"text":"` + strings.Repeat("x", maxState) + `"}}`

func principalNamed(t *testing.T, name string) principal.Principal {
	t.Helper()
	who, err := principal.New("https://issuer.example", name, "")
	if err != nil {
		t.Fatal(err)
	}
	return who
}

// overflowing returns the outcome of a call that waits for its second answer, after a huge
// first one.
func overflowing(t *testing.T, b *book, who principal.Principal) (*Server, outcome) {
	t.Helper()
	s := askingServer(t, ask("one"), ask("two"))
	s.Store = b
	first := round(t, s, who, "x")
	return s, round(t, s, who, "x", echoing(first.State), answering("one", huge))
}

func TestLargeStatesAreStored(t *testing.T) {
	b, ada := newBook(), principalNamed(t, "ada")
	_, second := overflowing(t, b, ada)
	if second.Requests["two"].Method == "" || len(*second.State) > 4096 {
		t.Fatalf("%+v %v", second, second.err)
	}
	for key := range b.keys {
		if !strings.HasPrefix(key, ada.Key()) {
			t.Errorf("the key %q does not begin with its principal", key)
		}
		if item, err := b.KV.Get(t.Context(), key); err != nil || strings.Contains(string(item.Value), strings.Repeat("x", 20)) {
			t.Errorf("the stored state is not encrypted: %v", err)
		}
	}
	// Another replica can continue the call. A round whose response was lost can be sent
	// again.
	other := askingServer(t, ask("one"), ask("two"))
	other.Store = b
	for range 2 {
		third := round(t, other, ada, "x", echoing(second.State), answering("two", yes))
		if third.Kind != mcp.ResultTypeComplete || third.Content[0].Text != huge+" "+yes {
			t.Errorf("%+v %v", third.Kind, third.err)
		}
	}
}

// The state of each round contains the huge answer, so each round uses a slot.
func TestEachRoundWithALargeStateUsesASlot(t *testing.T) {
	b, ada := newBook(), principalNamed(t, "ada")
	s := askingServer(t, ask("one"), ask("two"), ask("three"))
	s.Store = b
	out := round(t, s, ada, "x")
	out = round(t, s, ada, "x", echoing(out.State), answering("one", huge))
	out = round(t, s, ada, "x", echoing(out.State), answering("two", yes))
	if out.Requests["three"].Method == "" {
		t.Fatalf("%+v %v", out, out.err)
	}
	if out = round(t, s, ada, "x", echoing(out.State), answering("three", yes)); out.Kind != mcp.ResultTypeComplete {
		t.Errorf("%+v %v", out, out.err)
	}
	if len(b.keys) != 2 {
		t.Errorf("%d slots are used, want 2", len(b.keys))
	}
}

// Rule M2: a stored state belongs to its principal.
func TestStoredStatesBelongToPrincipalAndRequest(t *testing.T) {
	b, ada := newBook(), principalNamed(t, "ada")
	s, second := overflowing(t, b, ada)
	rejected := func(name, why string, out outcome) {
		t.Helper()
		if out.err == nil || out.err.Code != jsonrpc.CodeInvalidParams || !strings.Contains(out.err.Message, why) {
			t.Errorf("%s: %+v %v", name, out, out.err)
		}
	}
	rejected("another principal", "another caller", round(t, s, principalNamed(t, "eve"), "x", echoing(second.State), answering("two", yes)))
	rejected("anonymous", "another caller", round(t, s, principal.Anonymous, "x", echoing(second.State), answering("two", yes)))
	rejected("another tool", "another request", round(t, s, ada, "y", echoing(second.State), answering("two", yes)))

	// Even with a reference to the slot, another principal cannot read it.
	note := &storedState{Slot: strings.TrimPrefix(slices.Collect(maps.Keys(b.keys))[0], ada.Key()), Digest: "?"}
	if text, err := s.loadState(t.Context(), principalNamed(t, "eve"), note); err == nil {
		t.Errorf("eve reads %.40q", text)
	}
}

// Rule M1: a modified state in the store is rejected.
func TestModifiedStoredStatesAreRejected(t *testing.T) {
	for name, change := range map[string]func(b *book, key string){
		"lost": func(b *book, key string) { _ = b.KV.Delete(context.Background(), key) },
		"a changed byte": func(b *book, key string) {
			item, _ := b.KV.Get(context.Background(), key)
			changed := slices.Clone(item.Value)
			changed[len(changed)/2] ^= 1
			_, _ = b.KV.Put(context.Background(), key, changed, store.PutOptions{TTL: time.Hour})
		},
		"empty": func(b *book, key string) {
			_, _ = b.KV.Put(context.Background(), key, nil, store.PutOptions{TTL: time.Hour})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, ada := newBook(), principalNamed(t, "ada")
			s, second := overflowing(t, b, ada)
			for key := range b.keys {
				change(b, key)
			}
			out := round(t, s, ada, "x", echoing(second.State), answering("two", yes))
			if out.err == nil || out.err.Code != jsonrpc.CodeInvalidParams || !strings.Contains(out.err.Message, "stored state") {
				t.Errorf("%+v %v", out, out.err)
			}
		})
	}
	t.Run("the state of another round", func(t *testing.T) {
		b, ada := newBook(), principalNamed(t, "ada")
		s, second := overflowing(t, b, ada)
		mine := maps.Clone(b.keys)
		again := round(t, s, ada, "x")
		round(t, s, ada, "x", echoing(again.State), answering("one", huge))
		for key := range b.keys {
			if mine[key] {
				continue
			}
			theirs, _ := b.KV.Get(t.Context(), key)
			for key := range mine {
				_, _ = b.KV.Put(t.Context(), key, theirs.Value, store.PutOptions{TTL: time.Hour})
			}
		}
		if out := round(t, s, ada, "x", echoing(second.State), answering("two", yes)); out.err == nil || out.err.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%+v", out)
		}
	})
}

// A state is not invalid because the store fails.
func TestStoreFailureIsAnInternalError(t *testing.T) {
	b, ada := newBook(), principalNamed(t, "ada")
	s, second := overflowing(t, b, ada)
	b.fail = errors.New("redis at 10.0.0.1 is down")
	out := round(t, s, ada, "x", echoing(second.State), answering("two", yes))
	if out.err == nil || out.err.Code != jsonrpc.CodeInternalError || strings.Contains(out.err.Message, "redis") {
		t.Errorf("%+v %v", out, out.err)
	}
	out = round(t, s, ada, "x")
	out = round(t, s, ada, "x", echoing(out.State), answering("one", huge))
	if out.err == nil || out.err.Code != jsonrpc.CodeInternalError || strings.Contains(out.err.Message, "redis") {
		t.Errorf("%+v %v", out, out.err)
	}
	b.fail = nil
	if out = round(t, s, ada, "x", echoing(second.State), answering("two", yes)); out.Kind != mcp.ResultTypeComplete {
		t.Errorf("%+v %v", out, out.err)
	}
}

func TestStoredStatesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ada, eve := newBook(), principalNamed(t, "ada"), principalNamed(t, "eve")
		for i := range maxStoredStates {
			if _, out := overflowing(t, b, eve); out.err != nil {
				t.Fatalf("call %d: %v", i, out.err)
			}
		}
		if _, out := overflowing(t, b, eve); out.err == nil || !strings.Contains(string(out.err.Data), "retryAfterMs") {
			t.Errorf("%+v %v", out, out.err)
		}
		if _, out := overflowing(t, b, ada); out.err != nil {
			t.Errorf("another principal: %v", out.err)
		}
		time.Sleep(stateLifetime + time.Second)
		if _, out := overflowing(t, b, eve); out.err != nil {
			t.Errorf("after the states have expired: %v", out.err)
		}
		s := askingServer(t, ask("one"), ask("two"))
		s.Store = b
		first := round(t, s, ada, "x")
		out := round(t, s, ada, "x", echoing(first.State), answering("one", `{"action":"accept","content":{"text":"`+strings.Repeat("x", maxStoredBytes)+`"}}`))
		if out.err == nil || !strings.Contains(out.err.Message, "bytes") {
			t.Errorf("an answer over the limit: %+v %v", out, out.err)
		}
	})
}
