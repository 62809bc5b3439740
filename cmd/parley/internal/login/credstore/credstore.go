// Package credstore stores the logins of the user in one encrypted file in the directory of the program. The key is in
// the system's keyring. If there is no keyring, the key is in a file in the same directory.
//
// The keyring does not contain the tokens themselves, because keyrings limit the size of a secret (2560 bytes on
// Windows, which many tokens exceed), cannot list their secrets, and offer no lock with which one process could refresh
// a token for all.
//
// If the key is in the keyring, the file alone reveals nothing. A key file protects copies of the tokens file only; it
// does not protect the logins from a program that can read both files. Both files are readable by the user only.
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

	"github.com/zalando/go-keyring"

	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/internal/atomicfile"
)

// Names of files in the directory.
const (
	tokensFile = "tokens"
	keyFile    = "tokens.key"
)

const keySize = 32 // bytes

// ErrUnavailable is the error if there are logins and their key is not available.
var ErrUnavailable = errors.New("cannot decrypt the stored logins")

// Dir returns the directory of the program: the value of PARLEY_CONFIG_DIR, or the directory
// "parley" in [os.UserConfigDir].
func Dir() (string, error) {
	if dir := os.Getenv("PARLEY_CONFIG_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "",
			fmt.Errorf("cannot find the directory of your configuration: %w; set PARLEY_CONFIG_DIR to a directory",
				err)
	}
	return filepath.Join(dir, "parley"), nil
}

// TokensPath returns the path of the file of the stored logins, which need not exist.
func TokensPath() (string, error) {
	dir, err := Dir()
	return filepath.Join(dir, tokensFile), err
}

// Store is an oauth.TokenStore in a directory. Before the first value is saved it creates
// no files and does not use the keyring. It is safe for concurrent use.
type Store struct {
	dir  string
	ring Keyring // nil if there is no keyring

	mu   sync.Mutex
	file *tokenstore.File // nil until opened
}

// New returns the store in the directory dir, which need not exist. ring can be nil.
func New(dir string, ring Keyring) *Store { return &Store{dir: dir, ring: ring} }

// Load implements oauth.TokenStore.
func (s *Store) Load(ctx context.Context, key string) ([]byte, error) {
	file, err := s.existing(ctx)
	if file == nil || err != nil {
		return nil, err
	}
	return file.Load(ctx, key)
}

// Keys returns the keys of all saved values, in no particular order.
func (s *Store) Keys(ctx context.Context) ([]string, error) {
	file, err := s.existing(ctx)
	if file == nil || err != nil {
		return nil, err
	}
	return file.Keys(ctx)
}

// Save implements oauth.TokenStore.
func (s *Store) Save(ctx context.Context, key string, value []byte) error {
	file, err := s.existing(ctx)
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

// Lock implements oauth.TokenStore. It does nothing while the store is empty.
func (s *Store) Lock(ctx context.Context, key string) (unlock func(), err error) {
	file, err := s.existing(ctx)
	if err != nil {
		return nil, err
	}
	if file == nil {
		return func() {}, nil
	}
	return file.Lock(ctx, key)
}

// Location describes the location of the logins and their key, for the user.
func (s *Store) Location() string {
	location := filepath.Join(s.dir, tokensFile) + ", encrypted with a key in "
	if _, err := os.Stat(s.keyPath()); err == nil {
		return location + s.keyPath()
	}
	return location + "the system's keyring"
}

func (s *Store) keyPath() string { return filepath.Join(s.dir, keyFile) }

// existing opens the tokens file. It returns nil if there is none.
func (s *Store) existing(ctx context.Context) (*tokenstore.File, error) {
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

// open opens the tokens file with its key, and creates the key if necessary. A lock ensures
// that only one process creates it.
func (s *Store) open(ctx context.Context) (*tokenstore.File, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, tokensFile)
	locks, err := tokenstore.OpenFile(path, make([]byte, keySize)) // locks do not use the key
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
	file, err := tokenstore.OpenFile(path, key)
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

// key returns the key from the key file or the keyring. If there is neither a key nor a tokens file, it creates a key.
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
			return nil, errors.New("the entry of parley in the system's keyring must be a base64 key of 32 bytes")
		}
		ringErr = err
	}
	switch _, err := os.Stat(tokens); {
	case err == nil && ringErr != nil && !errors.Is(ringErr, keyring.ErrNotFound):
		return nil, fmt.Errorf("cannot read the key from the system's keyring: %w", ringErr)
	case err == nil:
		return nil, fmt.Errorf("the key is neither in %s nor in the system's keyring; remove %s and log in again",
			s.keyPath(), tokens)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	key := make([]byte, keySize)
	rand.Read(key)
	text := base64.StdEncoding.EncodeToString(key)
	if errors.Is(ringErr, keyring.ErrNotFound) && s.ring.Set(tokens, text) == nil {
		if stored, err := s.ring.Get(tokens); err == nil && stored == text {
			return key, nil
		}
	}
	return key, atomicfile.Write(s.keyPath(), []byte(text))
}

func decodeKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != keySize {
		return nil, errors.New("key must be 32 bytes in base64")
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
		return nil, fmt.Errorf("the key file must be readable by you only; run: chmod 600 %s",
			quoting.OfUser().Quote(path))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := decodeKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("key file %s is damaged: %w; remove it and %s, and log in again", path, err,
			filepath.Join(s.dir, tokensFile))
	}
	return key, nil
}

// Keyring stores small secrets by name.
type Keyring interface {
	// Get returns a secret. The error is [keyring.ErrNotFound] if there is none.
	Get(name string) (string, error)
	// Set stores a secret, and replaces one with the same name.
	Set(name, secret string) error
}

// System returns the keyring of the user's session. It returns nil if there is none, or if
// PARLEY_NO_KEYRING is not empty.
func System() Keyring {
	if os.Getenv("PARLEY_NO_KEYRING") != "" || !hasSession(runtime.GOOS, os.Getenv) {
		return nil
	}
	return system{}
}

// hasSession reports whether the user has a desktop session. Without one, as on a server, the
// keyring client would start a message bus.
func hasSession(goos string, getenv func(string) string) bool {
	switch goos {
	case "darwin", "windows":
		return true
	}
	if getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return true
	}
	dir := getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "bus"))
	return err == nil
}

// service is the name that the keyring's user interface shows.
const service = "parley"

type system struct{}

func (system) Get(name string) (string, error) { return keyring.Get(service, name) }

func (system) Set(name, secret string) error { return keyring.Set(service, name, secret) }
