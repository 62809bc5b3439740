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
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/atomicfile"
	"github.com/parley-mcp/parley/internal/seal"
)

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

// ErrDamagedStore means that the file of a [FileStore] cannot be decrypted with its keys.
var ErrDamagedStore = errors.New("token file is damaged, or encrypted with another key")

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
	release, err := lockFile(ctx, f.path+".lock")
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
	return lockFile(ctx, f.path+"."+hex.EncodeToString(digest[:8])+".lock")
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
		return nil, fmt.Errorf("%w: %s", ErrDamagedStore, f.path)
	}
	text, err := f.keys.Open(sealPurpose, string(sealed))
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrDamagedStore, f.path)
	}
	var values map[string][]byte
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrDamagedStore, f.path)
	}
	return values, nil
}

// Intervals between attempts to lock a file.
const (
	minLockWait = 2 * time.Millisecond
	maxLockWait = 100 * time.Millisecond
)

// lockFile waits for the lock of a file. The operating system releases it when the
// process ends. The file is not removed, because two processes could then lock different
// files of the same name.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for wait := minLockWait; ; wait = min(2*wait, maxLockWait) {
		locked, err := tryLock(file)
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		if locked {
			return func() { file.Close() }, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			file.Close()
			return nil, context.Cause(ctx)
		}
	}
}
