package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/atomicfile"
	"github.com/parley-mcp/parley/internal/seal"
)

// TokenStore stores the credentials of one user. Keys contain URLs and no secrets, and
// have at most a few kilobytes. Values are secrets of up to 256 KiB, which only the user
// must be able to read. A TokenStore must be safe for concurrent use.
type TokenStore interface {
	// Load returns the value of a key, nil if there is none. The caller owns the value.
	Load(ctx context.Context, key string) ([]byte, error)
	// Save sets the value of a key, and must not retain value. Nil deletes the key.
	Save(ctx context.Context, key string, value []byte) error
	// Lock locks a key until unlock is called. It excludes other goroutines and other
	// processes that share the store. The end of a process releases its locks. Load and
	// Save do not need the lock.
	Lock(ctx context.Context, key string) (unlock func(), err error)
}

// MemoryStore is a [TokenStore] in memory. The zero value is an empty store.
type MemoryStore struct {
	mu     sync.Mutex
	values map[string][]byte
	locks  map[string]*memoryLock
}

type memoryLock struct {
	slot  chan struct{} // capacity 1
	users int
}

// Load implements [TokenStore].
func (m *MemoryStore) Load(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]byte(nil), m.values[key]...), nil
}

// Save implements [TokenStore].
func (m *MemoryStore) Save(_ context.Context, key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value == nil {
		delete(m.values, key)
		return nil
	}
	if m.values == nil {
		m.values = make(map[string][]byte)
	}
	if _, known := m.values[key]; !known && len(m.values) >= maxEntries {
		return errStoreFull
	}
	m.values[key] = append([]byte(nil), value...)
	return nil
}

// Keys returns all keys in no particular order.
func (m *MemoryStore) Keys(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.values)), nil
}

// maxEntries is the maximum number of entries of a store. Each server needs three.
const maxEntries = 16 << 10

var errStoreFull = fmt.Errorf("token store is full, the limit is %d entries: log out of servers that you do not need",
	maxEntries)

// Lock implements [TokenStore].
func (m *MemoryStore) Lock(ctx context.Context, key string) (unlock func(), err error) {
	m.mu.Lock()
	if m.locks == nil {
		m.locks = make(map[string]*memoryLock)
	}
	l := m.locks[key]
	if l == nil {
		l = &memoryLock{slot: make(chan struct{}, 1)}
		m.locks[key] = l
	}
	l.users++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(m.locks, key)
		}
	}
	select {
	case l.slot <- struct{}{}:
		return func() { <-l.slot; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// Keys of a store. A token belongs to an issuer and a resource, a client to an issuer.
// The record of an MCP server leads to its token: see record.tokenKey.
func serverKey(server string) string { return "server " + server }
func clientKey(issuer string) string { return "client " + issuer }

// record is the stored result of discovery for an MCP server.
type record struct {
	Issuer   string `json:"issuer"`
	Resource string `json:"resource,omitzero"` // exactly as in the metadata
	Fallback bool   `json:"fallback,omitzero"` // found by the rules of 2025-03-26
}

// tokenKey returns the key of the token for an MCP server. Without resource metadata, the
// token is for this server only, and not for others on the same host.
func (r *record) tokenKey(server string) string {
	resource := r.Resource
	if resource == "" {
		resource = server
	}
	return "token " + r.Issuer + " " + resource
}

// load loads a value. It returns nil if there is none, or if it cannot be decoded.
func load[T any](ctx context.Context, s TokenStore, key string) (*T, error) {
	raw, err := s.Load(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("token store: %w", err)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	v := new(T)
	if json.Unmarshal(raw, v) != nil {
		return nil, nil // written by another version of this package
	}
	return v, nil
}

func save(ctx context.Context, s TokenStore, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return errors.New("token store: cannot encode a value")
	}
	if err := s.Save(ctx, key, raw); err != nil {
		return fmt.Errorf("token store: %w", err)
	}
	return nil
}

func remove(ctx context.Context, s TokenStore, key string) error {
	if err := s.Save(ctx, key, nil); err != nil {
		return fmt.Errorf("token store: %w", err)
	}
	return nil
}

// FileStore is a [TokenStore] in one encrypted file, which the programs of one user can
// share. It replaces the file atomically, and only the user can read it. Lock files are
// in the same directory. Use [NewFileStore]; the zero value is not usable.
type FileStore struct {
	path string
	keys *seal.Keys
	max  int           // size of the file in bytes: maxStoreFile, less in tests
	lock chan struct{} // capacity 1; held by the goroutine of this process that uses the file
}

// maxStoreFile is the maximum size of the file in bytes.
const maxStoreFile = 16 << 20

var errFileFull = errors.New("token file is full: log out of servers that you do not need")

// sealPurpose separates token files from other data that is encrypted with the same key.
const sealPurpose = "oauth token store"

// NewFileStore returns a store in the file at path. The directory must exist; the file
// is created when needed. Each key must have at least 32 random bytes. The first key
// encrypts with AES-256-GCM, all keys decrypt. Keep the keys elsewhere, for instance in
// the keyring of the operating system.
func NewFileStore(path string, keys ...[]byte) (*FileStore, error) {
	if len(keys) == 0 {
		return nil, errors.New("file store: at least one key is required")
	}
	k, err := seal.New(keys...)
	if err != nil {
		return nil, fmt.Errorf("file store: %w", err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return &FileStore{path: absolute, keys: k, max: maxStoreFile, lock: make(chan struct{}, 1)}, nil
}

// errDamagedStore means that the file of a [FileStore] cannot be decrypted with its keys.
var errDamagedStore = errors.New("token file is damaged, or encrypted with another key")

// Load implements [TokenStore].
func (f *FileStore) Load(ctx context.Context, key string) ([]byte, error) {
	values, err := f.load(ctx)
	return values[key], err
}

// Keys returns all keys in no particular order.
func (f *FileStore) Keys(ctx context.Context) ([]string, error) {
	values, err := f.load(ctx)
	return slices.Collect(maps.Keys(values)), err
}

func (f *FileStore) load(ctx context.Context) (map[string][]byte, error) {
	unlock, err := f.acquire(ctx) // also to read: Windows cannot replace an open file
	if err != nil {
		return nil, err
	}
	defer unlock()
	return f.read()
}

// acquire waits until no other goroutine and no other process uses the file.
func (f *FileStore) acquire(ctx context.Context) (unlock func(), err error) {
	select {
	case f.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	release, err := atomicfile.Lock(ctx, f.path+".lock")
	if err != nil {
		<-f.lock
		return nil, err
	}
	return func() { release(); <-f.lock }, nil
}

// Save implements [TokenStore].
func (f *FileStore) Save(ctx context.Context, key string, value []byte) error {
	unlock, err := f.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	values, err := f.read()
	if err != nil {
		return err
	}
	if values == nil {
		values = make(map[string][]byte)
	}
	if value == nil {
		delete(values, key)
	} else {
		values[key] = value
	}
	if len(values) > maxEntries {
		return errStoreFull
	}
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	sealed := f.keys.Seal(sealPurpose, text)
	if len(sealed) > f.max { // read would reject it
		return errFileFull
	}
	return atomicfile.Write(f.path, []byte(sealed))
}

// Lock implements [TokenStore].
func (f *FileStore) Lock(ctx context.Context, key string) (unlock func(), err error) {
	digest := sha256.Sum256([]byte(key))
	return atomicfile.Lock(ctx, f.path+"."+hex.EncodeToString(digest[:8])+".lock")
}

func (f *FileStore) read() (map[string][]byte, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sealed, err := io.ReadAll(io.LimitReader(file, int64(f.max)+1))
	if err != nil {
		return nil, err
	}
	if len(sealed) == 0 || len(sealed) > f.max {
		return nil, fmt.Errorf("%w: %s", errDamagedStore, f.path)
	}
	text, err := f.keys.Open(sealPurpose, string(sealed))
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errDamagedStore, f.path)
	}
	var values map[string][]byte
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("%w: %s", errDamagedStore, f.path)
	}
	return values, nil
}
