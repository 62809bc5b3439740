// Package credstore keeps what the user of this machine has logged in with: one encrypted
// file in the program's own directory, whose key is in the system's keyring or, where
// there is none, in a file beside it.
//
// Tokens themselves are not put into the keyring: keyrings differ in how long a secret
// may be (2560 bytes on Windows, less than many a token), list nothing, and know no lock
// by which one process refreshes a token for all.
//
// With the key in the keyring, who gets at the files has nothing. A key file protects
// what is copied without it, as a backup of tokens alone, and nothing from whoever can
// read all files of the user. Both are readable by the user only.
package credstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/parley-mcp/parley/auth/oauth"
)

// Names of files in the directory.
const (
	tokensFile = "tokens"
	keyFile    = "tokens.key"
)

const keySize = 32 // bytes

// ErrUnavailable: there are logins, and the key that opens them is not to be had.
var ErrUnavailable = errors.New("your logins cannot be opened")

// Dir is where the program keeps things: what PARLEY_CONFIG_DIR says, or a directory in
// that of the user's configuration.
func Dir() (string, error) {
	if dir := os.Getenv("PARLEY_CONFIG_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no place for logins: %w; name a directory in PARLEY_CONFIG_DIR", err)
	}
	return filepath.Join(dir, "parley"), nil
}

// Store is an oauth.TokenStore in a directory. As long as nothing was ever saved there, it
// makes no file, and does not bother the keyring. It is safe for concurrent use.
type Store struct {
	dir  string
	ring Keyring // nil: none

	mu   sync.Mutex
	file *oauth.FileStore // nil: not opened yet
}

// New returns the store in a directory, which need not exist. The ring may be nil.
func New(dir string, ring Keyring) *Store { return &Store{dir: dir, ring: ring} }

// Load implements oauth.TokenStore.
func (s *Store) Load(ctx context.Context, key string) ([]byte, error) {
	file, err := s.opened(ctx)
	if file == nil || err != nil {
		return nil, err
	}
	return file.Load(ctx, key)
}

// Keys returns the keys under which something is saved, in no order.
func (s *Store) Keys(ctx context.Context) ([]string, error) {
	file, err := s.opened(ctx)
	if file == nil || err != nil {
		return nil, err
	}
	return file.Keys(ctx)
}

// Save implements oauth.TokenStore.
func (s *Store) Save(ctx context.Context, key string, value []byte) error {
	file, err := s.opened(ctx)
	if err == nil && file == nil {
		if value == nil {
			return nil
		}
		file, err = s.open(ctx)
	}
	if err != nil {
		return err
	}
	return file.Save(ctx, key, value)
}

// Lock implements oauth.TokenStore. Where nothing is kept yet, there is nothing that
// anybody could be kept from.
func (s *Store) Lock(ctx context.Context, key string) (unlock func(), err error) {
	file, err := s.opened(ctx)
	if err != nil {
		return nil, err
	}
	if file == nil {
		return func() {}, nil
	}
	return file.Lock(ctx, key)
}

// Where says where things are kept, for people.
func (s *Store) Where() string {
	where := filepath.Join(s.dir, tokensFile) + ", encrypted with a key in "
	if _, err := os.Stat(s.keyPath()); err == nil {
		return where + s.keyPath()
	}
	return where + "the system's keyring"
}

func (s *Store) keyPath() string { return filepath.Join(s.dir, keyFile) }

// opened returns the file if there is one, or nil.
func (s *Store) opened(ctx context.Context) (*oauth.FileStore, error) {
	s.mu.Lock()
	file := s.file
	s.mu.Unlock()
	if file != nil {
		return file, nil
	}
	if _, err := os.Stat(filepath.Join(s.dir, tokensFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return s.open(ctx)
}

// open finds the key of the file, or makes one. Of several processes one makes it.
func (s *Store) open(ctx context.Context) (*oauth.FileStore, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, tokensFile)
	locks, err := oauth.NewFileStore(path, make([]byte, keySize)) // whose key does not matter for locks
	if err != nil {
		return nil, err
	}
	unlock, err := locks.Lock(ctx, "key")
	if err != nil {
		return nil, err
	}
	defer unlock()
	key, err := s.key(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	file, err := oauth.NewFileStore(path, key)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		s.file = file
	}
	return s.file, nil
}

// key returns the key: of the key file, else of the keyring, else a new one. A new one
// is for a new file only: it would not open one that is there.
func (s *Store) key(tokens string) ([]byte, error) {
	if key, err := s.readKeyFile(); key != nil || err != nil {
		return key, err
	}
	var ringErr error
	if s.ring != nil {
		text, err := s.ring.Get(tokens)
		if err == nil {
			if key, err := decodeKey(text); err == nil {
				return key, nil
			}
			return nil, errors.New("what the system's keyring has for parley is no key")
		}
		ringErr = err
	}
	switch _, err := os.Stat(tokens); {
	case err == nil && ringErr != nil && !errors.Is(ringErr, ErrNotFound):
		return nil, fmt.Errorf("their key is in the system's keyring, which does not answer: %w", ringErr)
	case err == nil:
		return nil, fmt.Errorf("their key is neither in %s nor in a keyring: remove %s, and log in again", s.keyPath(), tokens)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	key := make([]byte, keySize)
	rand.Read(key)
	text := base64.StdEncoding.EncodeToString(key)
	if errors.Is(ringErr, ErrNotFound) && s.ring.Set(tokens, text) == nil {
		if kept, err := s.ring.Get(tokens); err == nil && kept == text {
			return key, nil
		}
	}
	return key, s.writeKeyFile(text)
}

func decodeKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != keySize {
		return nil, errors.New("it is no key")
	}
	return key, nil
}

func (s *Store) readKeyFile() ([]byte, error) {
	path := s.keyPath()
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others may read their key: chmod 600 %s", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := decodeKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: remove it and %s, and log in again", path, filepath.Join(s.dir, tokensFile))
	}
	return key, nil
}

// writeKeyFile leaves the whole key or no file.
func (s *Store) writeKeyFile(text string) (err error) {
	temporary, err := os.CreateTemp(s.dir, keyFile+".*.tmp") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			temporary.Close()
			os.Remove(temporary.Name())
		}
	}()
	if _, err = temporary.WriteString(text); err != nil {
		return err
	}
	if err = temporary.Sync(); err != nil {
		return err
	}
	if err = temporary.Close(); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), s.keyPath())
}
