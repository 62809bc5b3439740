package credstore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/zalando/go-keyring"
)

// Keyring keeps small secrets under names.
type Keyring interface {
	// Get returns a secret, or ErrNotFound.
	Get(name string) (string, error)
	Set(name, secret string) error
}

// ErrNotFound: a keyring works and has no such secret.
var ErrNotFound = errors.New("not in the keyring")

// System returns the keyring of the user's session; nil if there is none, or if
// PARLEY_NO_KEYRING is set to anything.
func System() Keyring {
	if os.Getenv("PARLEY_NO_KEYRING") != "" || !hasSession(runtime.GOOS, os.Getenv) {
		return nil
	}
	return system{}
}

// hasSession keeps the keyring's client from starting a message bus of its own where the
// user has no session, as on a server.
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

// service is what the keyring's own programs show.
const service = "parley"

type system struct{}

func (system) Get(name string) (string, error) {
	secret, err := keyring.Get(service, name)
	if errors.Is(err, keyring.ErrNotFound) {
		err = ErrNotFound
	}
	return secret, err
}

func (system) Set(name, secret string) error { return keyring.Set(service, name, secret) }
