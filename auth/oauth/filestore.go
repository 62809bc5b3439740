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

// FileStore is a TokenStore in one encrypted file, which the programs of one user may
// share. It is written anew and put in place of the old one, readable by the user
// alone; beside it are empty files that are locks. The zero value is not usable.
type FileStore struct {
	path string
	keys *seal.Keys
	most int           // bytes of the file: maxStoreFile, but for tests
	turn chan struct{} // capacity 1; of this process to wait for the file
}

// maxStoreFile bounds the file, in bytes.
const maxStoreFile = 16 << 20

var errFileFull = errors.New("the file of tokens would become too long: log out of servers that are not used any more")

// sealedFor keeps what is sealed for other purposes with the same key from being read
// as a store.
const sealedFor = "oauth token store"

// NewFileStore makes a store in the file at path, whose directory must exist; the file
// need not. Each key has at least 32 random bytes, and is kept elsewhere, as in the
// system's keyring: with AES-256-GCM, the first encrypts and all decrypt.
func NewFileStore(path string, keys ...[]byte) (*FileStore, error) {
	if len(keys) == 0 {
		return nil, errors.New("a file store needs a key")
	}
	k, err := seal.New(keys...)
	if err != nil {
		return nil, fmt.Errorf("a file store: %w", err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return &FileStore{path: absolute, keys: k, most: maxStoreFile, turn: make(chan struct{}, 1)}, nil
}

// ErrDamagedStore: the file of a FileStore does not open with its keys.
var ErrDamagedStore = errors.New("the file of tokens is damaged, or encrypted with another key")

// Load implements TokenStore.
func (f *FileStore) Load(ctx context.Context, key string) ([]byte, error) {
	values, err := f.load(ctx)
	return values[key], err
}

// Keys returns the keys under which something is saved, in no order.
func (f *FileStore) Keys(ctx context.Context) ([]string, error) {
	values, err := f.load(ctx)
	return slices.Collect(maps.Keys(values)), err
}

func (f *FileStore) load(ctx context.Context) (map[string][]byte, error) {
	unlock, err := f.take(ctx) // to read, too: Windows replaces no file that is open
	if err != nil {
		return nil, err
	}
	defer unlock()
	return f.read()
}

// take waits for the file, and gives it to one goroutine of one process.
func (f *FileStore) take(ctx context.Context) (unlock func(), err error) {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	release, err := lockFile(ctx, f.path+".lock")
	if err != nil {
		<-f.turn
		return nil, err
	}
	return func() { release(); <-f.turn }, nil
}

// Save implements TokenStore.
func (f *FileStore) Save(ctx context.Context, key string, value []byte) error {
	unlock, err := f.take(ctx)
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
	sealed := f.keys.Seal(sealedFor, text)
	if len(sealed) > f.most { // it could not be read again
		return errFileFull
	}
	return atomicfile.Write(f.path, []byte(sealed))
}

// Lock implements TokenStore.
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
	sealed, err := io.ReadAll(io.LimitReader(file, int64(f.most)+1))
	if err != nil {
		return nil, err
	}
	if len(sealed) == 0 || len(sealed) > f.most {
		return nil, fmt.Errorf("%w: %s", ErrDamagedStore, f.path)
	}
	text, err := f.keys.Open(sealedFor, string(sealed))
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrDamagedStore, f.path)
	}
	var values map[string][]byte
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrDamagedStore, f.path)
	}
	return values, nil
}

// Waits between attempts to lock a file.
const (
	leastLockWait = 2 * time.Millisecond
	mostLockWait  = 100 * time.Millisecond
)

// lockFile waits for a lock that is held by an open file, so that it ends with the
// process at the latest. The file stays: removing it would let two hold it.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for wait := leastLockWait; ; wait = min(2*wait, mostLockWait) {
		held, err := tryLock(file)
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if held {
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
