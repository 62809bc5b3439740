// Package tokenstore stores the tokens and registrations of an oauth.Client: in memory, or in one encrypted file, which
// lasts until the next start and can be shared by several programs of the user.
package tokenstore

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

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/atomicfile"
	"github.com/parley-mcp/parley/internal/seal"
)

// maxEntries is the maximum number of entries in a store. Each server needs three.
const maxEntries = 16 << 10

var errStoreFull = fmt.Errorf("token store is full, the limit is %d entries: log out of servers that you do not need",
	maxEntries)

// File is an oauth.TokenStore in one encrypted file, which the programs of one user can
// share. It replaces the file atomically, and only the user can read it. Lock files are
// in the same directory. Use [OpenFile]; the zero value is not usable.
type File struct {
	path string
	keys *seal.Keys
	max  int           // size of the file in bytes: maxFile, less in tests
	lock chan struct{} // capacity 1; held by the goroutine of this process that uses the file
}

// maxFile is the maximum size of the file in bytes.
const maxFile = 16 << 20

var errFileFull = errors.New("token file is full: log out of servers that you do not need")

// sealPurpose separates token files from other data that is encrypted with the same key.
const sealPurpose = "oauth token store"

// OpenFile returns a store in the file at path. The directory must exist; the file is
// created when needed. Each key must consist of at least 32 random bytes. The first key
// encrypts with AES-256-GCM, all keys decrypt. Keep the keys elsewhere, for instance in
// the keyring of the operating system.
func OpenFile(path string, keys ...[]byte) (*File, error) {
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
	return &File{path: absolute, keys: k, max: maxFile, lock: make(chan struct{}, 1)}, nil
}

// errDamaged means that the file of a [File] cannot be decrypted with its keys.
var errDamaged = errors.New("token file is damaged, or encrypted with another key")

// Load implements oauth.TokenStore.
func (f *File) Load(ctx context.Context, key string) ([]byte, error) {
	values, err := f.load(ctx)
	return values[key], err
}

// Keys returns all keys in no particular order.
func (f *File) Keys(ctx context.Context) ([]string, error) {
	values, err := f.load(ctx)
	return slices.Collect(maps.Keys(values)), err
}

func (f *File) load(ctx context.Context) (map[string][]byte, error) {
	unlock, err := f.acquire(ctx) // needed to read, too: Windows cannot replace an open file
	if err != nil {
		return nil, err
	}
	defer unlock()
	return f.read()
}

// acquire waits until no other goroutine and no other process uses the file.
func (f *File) acquire(ctx context.Context) (unlock func(), err error) {
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

// Save implements oauth.TokenStore.
func (f *File) Save(ctx context.Context, key string, value []byte) error {
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

// Lock implements oauth.TokenStore.
func (f *File) Lock(ctx context.Context, key string) (unlock func(), err error) {
	digest := sha256.Sum256([]byte(key))
	return atomicfile.Lock(ctx, f.path+"."+hex.EncodeToString(digest[:8])+".lock")
}

func (f *File) read() (map[string][]byte, error) {
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
		return nil, fmt.Errorf("%w: %s", errDamaged, f.path)
	}
	text, err := f.keys.Open(sealPurpose, string(sealed))
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errDamaged, f.path)
	}
	var values map[string][]byte
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("%w: %s", errDamaged, f.path)
	}
	return values, nil
}
