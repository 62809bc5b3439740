package tokenstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/atomicfile"
	"github.com/parley-mcp/parley/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func storeKey() []byte { return bytes.Repeat([]byte("k"), 32) }

func newFile(t testing.TB) (*File, string) {
	path := filepath.Join(t.TempDir(), "tokens")
	return must.Get(OpenFile(path, storeKey()))(t), path
}

// stores returns an empty store of each kind.
func stores(t *testing.T) map[string]store {
	file, _ := newFile(t)
	return map[string]store{"memory": new(Memory), "file": file}
}

// store is an oauth.TokenStore that lists its keys.
type store interface {
	Load(ctx context.Context, key string) ([]byte, error)
	Save(ctx context.Context, key string, value []byte) error
	Lock(ctx context.Context, key string) (unlock func(), err error)
	Keys(ctx context.Context) ([]string, error)
}

func TestStoresKeepValuesUntilTheyAreDeleted(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			value := []byte("value")
			must.Do(t, store.Save(t.Context(), "a", value))
			must.Do(t, store.Save(t.Context(), "b", []byte("other")))
			value[0] = 'X' // the store must not retain it
			loaded := must.Get(store.Load(t.Context(), "a"))(t)
			must.CheckEqual(t, string(loaded), "value")
			loaded[0] = 'X' // belongs to the caller
			must.CheckEqual(t, string(must.Get(store.Load(t.Context(), "a"))(t)), "value")
			must.Do(t, store.Save(t.Context(), "a", nil))
			got := must.Get(store.Load(t.Context(), "a"))(t)
			must.CheckThat(t, len(got) == 0, "after the deletion: %q", got)
			keys := must.Get(store.Keys(t.Context()))(t)
			must.CheckThat(t, len(keys) == 1 && keys[0] == "b", "keys: %q", keys)
		})
	}
}

// A full store rejects new keys, and still accepts new values for its keys.
func TestFullStoresRejectNewKeys(t *testing.T) {
	memory := new(Memory)
	values := make(map[string][]byte)
	for i := range maxEntries {
		key := fmt.Sprint("server ", i)
		values[key] = []byte("v")
		must.Do(t, memory.Save(t.Context(), key, values[key]))
	}
	file, path := newFile(t)
	sealed := file.keys.Seal(sealPurpose, must.Get(json.Marshal(values))(t))
	must.Do(t, atomicfile.Write(path, []byte(sealed)))
	for _, store := range []store{memory, file} {
		must.CheckIs(t, store.Save(t.Context(), "server x", []byte("v")), errStoreFull)
		must.Do(t, store.Save(t.Context(), "server 0", []byte("w")))
		must.CheckEqual(t, len(must.Get(store.Keys(t.Context()))(t)), maxEntries)
	}
}

// The first key encrypts, and all keys decrypt. Another key does not.
func TestKeysOfAFileCanBeRotated(t *testing.T) {
	store, path := newFile(t)
	must.Do(t, store.Save(t.Context(), "server y", []byte("old")))
	const key = "server x"
	other := bytes.Repeat([]byte("o"), 32)
	otherKey := must.Get(OpenFile(path, other))(t)
	must.CheckIs(t, must.Err(otherKey.Load(t.Context(), key)), errDamaged, "Load with another key")
	must.CheckIs(t, otherKey.Save(t.Context(), key, []byte("x")), errDamaged)
	rotating := must.Get(OpenFile(path, other, storeKey()))(t)
	must.Do(t, rotating.Save(t.Context(), key, []byte("value")))
	for key, want := range map[string]string{key: "value", "server y": "old"} {
		must.CheckEqual(t, string(must.Get(otherKey.Load(t.Context(), key))(t)), want)
	}
}

// Save fails if the file would become too large, and keeps the other values.
func TestFullTokenFileKeepsItsValues(t *testing.T) {
	store, _ := newFile(t)
	store.max = 64 << 10
	value := bytes.Repeat([]byte("v"), 8<<10)
	full, saved := error(nil), 0
	for ; full == nil && saved < 8; saved++ {
		full = store.Save(t.Context(), fmt.Sprint("server ", saved), value)
	}
	must.That(t, full != nil && !errors.Is(full, errDamaged) && saved >= 2, "after %d values of 8 KiB: %v", saved, full)
	v := must.Get(store.Load(t.Context(), "server 0"))(t)
	must.Equal(t, string(v), string(value), "the first value", len(v))
	must.Do(t, store.Save(t.Context(), "server 0", nil))
	must.Do(t, store.Save(t.Context(), "server x", value))
}

// The context ends the wait for a file that another process has locked.
func TestContextEndsTheWaitForALockedFile(t *testing.T) {
	store, path := newFile(t)
	release := sync.OnceFunc(must.Get(atomicfile.Lock(t.Context(), path+".lock"))(t))
	defer release()
	first := waitObserver{t.Context(), make(chan struct{}, 2)}
	loaded := make(chan error, 1)
	go func() {
		_, err := store.Load(first, "server x")
		loaded <- err
	}()
	must.Receive(t, first.called, "Load, which locks the store,")
	must.Receive(t, first.called, "Load, which waits for the file,")
	cause := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	saved := make(chan error, 1)
	go func() { saved <- store.Save(ctx, "server y", []byte("v")) }()
	must.CheckIs(t, must.Receive(t, saved, "Save"), cause)
	release()
	must.Check(t, must.Receive(t, loaded, "Load"))
}

// waitObserver is a context that reports calls of Done.
type waitObserver struct {
	context.Context
	called chan struct{}
}

func (a waitObserver) Done() <-chan struct{} {
	select {
	case a.called <- struct{}{}:
	default:
	}
	return a.Context.Done()
}

func TestContextEndsTheWaitForALock(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			unlock, err := store.Lock(t.Context(), "a")
			must.Do(t, err)
			if other, err := store.Lock(t.Context(), "b"); err != nil {
				t.Fatal(err)
			} else {
				other()
			}
			cause := errors.New("cancelled")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			must.Is(t, must.Err(store.Lock(ctx, "a")), cause)
			unlock()
			unlock, err = store.Lock(t.Context(), "a")
			must.Do(t, err)
			unlock()
		})
	}
}
