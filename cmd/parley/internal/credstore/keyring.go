package credstore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/zalando/go-keyring"
)

// Keyring stores small secrets by name.
type Keyring interface {
	// Get returns a secret. The error is ErrNotFound if there is none.
	Get(name string) (string, error)
	// Set stores a secret, and replaces one with the same name.
	Set(name, secret string) error
}

// ErrNotFound is the error if a keyring is available and has no secret with the name.
var ErrNotFound = errors.New("not in the keyring")

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

func (system) Get(name string) (string, error) {
	secret, err := keyring.Get(service, name)
	if errors.Is(err, keyring.ErrNotFound) {
		err = ErrNotFound
	}
	return secret, err
}

func (system) Set(name, secret string) error { return keyring.Set(service, name, secret) }
