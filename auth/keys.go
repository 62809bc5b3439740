package auth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/principal"
)

// Key describes a user's API key. It contains the digest of the key instead of the key. A user may have several keys,
// for example while one replaces another.
type Key struct {
	// User is the subject of the principal of requests with the key.
	User string `json:"user"`
	// SHA256 is the digest of the key in hex, as [HashKey] returns it.
	SHA256 string `json:"sha256"`
	// Scopes are the granted scopes.
	Scopes []string `json:"scopes,omitempty"`
	// Groups are the groups of the user: the claim "groups" of [Info].
	Groups []string `json:"groups,omitempty"`
	// Expires is the time from which the key is rejected; zero means never.
	Expires time.Time `json:"expires,omitzero"`
	// Comment is for people.
	Comment string `json:"comment,omitempty"`
}

// Limits of the keys of a Keys.
const (
	maxKeyFile = 4 << 20 // bytes
	maxKeys    = 10_000
	maxGroups  = 100   // groups of one key; also the maximum number of scopes
	maxText    = 1_000 // bytes of a comment or of the name of a group
)

// Keys is a [Verifier] of API keys. `parley key` writes its File.
//
//	s.Auth = &auth.ProtectedResource{Verifier: &auth.Keys{File: "keys.json"}}
//
// Only digests of the keys are stored, and a key is found by its digest. Comparing them need not take constant time:
// the time of a look-up tells a client something about the digest of what it sent, but it cannot choose texts by their
// digests. The digest has no salt and is fast, so keys must be random, like those of [NewKey].
//
// The limits are 4 MiB and 10,000 keys. Set the fields before the first use. Keys must not be
// copied after that. It is safe for concurrent use.
type Keys struct {
	// List contains keys in the memory of the program.
	List []Key
	// File is a JSON file with further keys, as [FormatKeys] writes it; empty for none. Keys reads it again when it
	// changes, and then rejects removed keys. If the file becomes invalid or disappears, the last keys stay valid, and
	// Logger receives an error.
	File string
	// Issuer is the issuer of the principals; empty means "keys". Changing it turns all users into different
	// principals.
	Issuer string
	// Next verifies other tokens, such as those of an authorization server. It does not receive
	// tokens with the prefix of NewKey. Nil: other tokens are rejected.
	Next Verifier
	// Logger receives errors of File; nil means slog.Default().
	Logger *slog.Logger

	Now func() time.Time // returns the current time; nil: time.Now

	once    sync.Once
	err     error // error of the first load
	loaded  atomic.Pointer[loadedKeys]
	reading sync.Mutex
}

// loadedKeys contains the accepted keys, and identifies the file that they were read from.
type loadedKeys struct {
	infos   map[[sha256.Size]byte]*Info
	content [sha256.Size]byte // hash of the file
	file    os.FileInfo       // nil if it could not be read
	settled bool              // any later change of the file also changes its time
}

// Check reads the keys. It returns an error if one of them is invalid, or the file cannot be read.
func (k *Keys) Check() error {
	k.once.Do(func() {
		k.err = k.load(nil)
		if checker, ok := k.Next.(interface{ Check() error }); ok && k.err == nil {
			k.err = checker.Check()
		}
	})
	return k.err
}

// Verify implements [Verifier].
func (k *Keys) Verify(ctx context.Context, token string) (*Info, error) {
	if err := k.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	info := k.current(ctx).infos[sha256.Sum256([]byte(token))]
	switch {
	case info == nil && k.Next != nil && !strings.HasPrefix(token, keyPrefix):
		return k.Next.Verify(ctx, token)
	case info == nil && isMistyped(token):
		return nil, &InvalidTokenError{Reason: "the API key is mistyped or cut off: its checksum is wrong"}
	case info == nil:
		return nil, &InvalidTokenError{Reason: "unknown API key"}
	case !info.Expiry.IsZero() && !k.now().Before(info.Expiry): // without leeway: the clock is ours
		return nil, &InvalidTokenError{Reason: "the API key expired on " + info.Expiry.UTC().Format(time.DateOnly) +
			": ask the operator of the server for a new one"}
	}
	return info, nil
}

func (k *Keys) now() time.Time {
	if k.Now != nil {
		return k.Now()
	}
	return time.Now()
}

// current returns the keys. It reads the file again if it has changed.
func (k *Keys) current(ctx context.Context) *loadedKeys {
	now := k.loaded.Load()
	if k.File == "" || now.isOf(k.File) {
		return now
	}
	k.reading.Lock()
	defer k.reading.Unlock()
	if now = k.loaded.Load(); now.isOf(k.File) { // another request has read it
		return now
	}
	if err := k.load(now); err != nil && (now.file != nil || k.loaded.Load().file != nil) {
		logger := k.Logger
		if logger == nil {
			logger = slog.Default()
		}
		logger.ErrorContext(ctx, "cannot read the API keys again: the previous keys stay valid", "error", err)
	}
	return k.loaded.Load()
}

// isOf reports whether the keys were read from the present version of the file.
func (l *loadedKeys) isOf(path string) bool {
	now, err := os.Stat(path)
	return err == nil && l.file != nil && l.settled && os.SameFile(now, l.file) &&
		now.ModTime().Equal(l.file.ModTime()) && now.Size() == l.file.Size()
}

// settling is how long a file may change again without a new modification time, on any file system.
const settling = 2 * time.Second

// load reads the keys. before contains the previous keys, which are kept if the file is unchanged or unusable.
func (k *Keys) load(before *loadedKeys) error {
	loaded := &loadedKeys{settled: true}
	if before != nil {
		loaded.infos = before.infos
	}
	defer func() { k.loaded.Store(loaded) }()
	all := k.List
	if k.File != "" {
		content, err := loaded.read(k.File, k.now())
		if err != nil {
			return fmt.Errorf("cannot read the API keys: %w; parley key add writes such a file", err)
		}
		if before != nil && before.file != nil && before.content == loaded.content {
			return nil
		}
		keys, err := ParseKeys(content)
		if err != nil {
			return fmt.Errorf("cannot read the API keys: %s: %w", k.File, err)
		}
		all = append(all[:len(all):len(all)], keys...)
	}
	infos, err := infosOf(all, cmp.Or(k.Issuer, "keys"))
	if err != nil {
		return fmt.Errorf("cannot read the API keys: %w", err)
	}
	loaded.infos = infos
	return nil
}

// read reads a file, and records its state at the time now.
func (l *loadedKeys) read(path string, now time.Time) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a pipe would block
		return nil, fmt.Errorf("%s must be a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err != nil {
		return nil, err
	}
	l.file, l.content, l.settled = info, sha256.Sum256(content), now.Sub(info.ModTime()).Abs() > settling
	return content, nil
}

// infosOf validates keys, and returns the information for requests with each key, by the digest of the key.
func infosOf(keys []Key, issuer string) (map[[sha256.Size]byte]*Info, error) {
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("there are %d keys; the limit is %d", len(keys), maxKeys)
	}
	infos := make(map[[sha256.Size]byte]*Info, len(keys))
	for i := range keys {
		digest, info, err := keys[i].info(issuer)
		if err == nil && infos[digest] != nil {
			err = errors.New("another entry has the same sha256")
		}
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		}
		infos[digest] = info
	}
	return infos, nil
}

// info validates a key.
func (k *Key) info(issuer string) (digest [sha256.Size]byte, info *Info, err error) {
	if n, err := hex.Decode(digest[:], []byte(k.SHA256[:min(len(k.SHA256), 2*len(digest))])); err != nil ||
		n != len(digest) || len(k.SHA256) != 2*len(digest) {
		return digest, nil, fmt.Errorf("sha256 must be a SHA-256 digest: %d hexadecimal digits", 2*len(digest))
	}
	who, err := principal.New(issuer, k.User, "")
	if err != nil {
		return digest, nil, fmt.Errorf("user: %w", err)
	}
	if err := challenge.CheckScopes(k.Scopes); err != nil {
		return digest, nil, err
	}
	if len(k.Scopes) > maxGroups || len(k.Groups) > maxGroups {
		return digest, nil, fmt.Errorf("the limit is %d scopes and %[1]d groups", maxGroups)
	}
	for _, group := range k.Groups {
		if group == "" || !isText(group) {
			return digest, nil, fmt.Errorf("a group must be a text of 1 to %d bytes without control characters",
				maxText)
		}
	}
	if !isText(k.Comment) {
		return digest, nil, fmt.Errorf("comment must be a text of at most %d bytes without control characters", maxText)
	}
	claims, err := json.Marshal(map[string]any{"sub": k.User, "groups": append([]string{}, k.Groups...)})
	return digest, &Info{Principal: who, Scopes: k.Scopes, Expiry: k.Expires, Claims: claims, own: true}, err
}

func isText(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// keyFile is the content of a file of keys.
type keyFile struct {
	Keys []Key `json:"keys"`
}

// ParseKeys parses a file of keys. It rejects unknown and repeated fields, so that a misspelled field does not create a
// key that never expires.
func ParseKeys(content []byte) ([]Key, error) {
	if len(content) > maxKeyFile {
		return nil, fmt.Errorf("the file is too large: the limit is %d bytes", maxKeyFile)
	}
	var file keyFile
	if err := jsonv2.Unmarshal(content, &file, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf(`must be JSON such as {"keys": [{"user": "ada", "sha256": "…"}]}: %w`, err)
	}
	if _, err := infosOf(file.Keys, "keys"); err != nil {
		return nil, err
	}
	return file.Keys, nil
}

// FormatKeys returns the content of a file of keys. It fails if a key is invalid.
func FormatKeys(keys []Key) ([]byte, error) {
	if _, err := infosOf(keys, "keys"); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(keyFile{append([]Key{}, keys...)}); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
