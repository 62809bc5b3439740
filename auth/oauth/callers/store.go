package callers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

const (
	// maxIdleLogin is how long a login, and the registration of the program, are kept after their last use.
	maxIdleLogin = 90 * 24 * time.Hour

	// A lock is renewed every lockRenewal until it is released. If its owner ends, it expires after lockTTL.
	lockTTL     = 15 * time.Second
	lockRenewal = lockTTL / 3
	maxLockPoll = 500 * time.Millisecond

	releaseTimeout = 5 * time.Second
)

// guarded returns a store for logins whose errors contain no details, because callers receive them. A nil kv means
// memory.
func guarded(kv store.Store, logger *slog.Logger) store.Store {
	if kv == nil {
		return store.NewMemory()
	}
	return (&rpc.StoreGuard{Logger: logger}).Store(kv)
}

// values reads and writes JSON values in a KV that encrypts them.
type values struct{ kv store.Store }

// put stores a value as JSON.
func (s values) put(ctx context.Context, key string, v any, opt store.PutOptions) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = s.kv.Put(ctx, key, raw, opt)
	return err
}

// get reads a value, and its version.
func (s values) get(ctx context.Context, key string, v any) (version uint64, err error) {
	item, err := s.kv.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	if json.Unmarshal(item.Value, v) != nil {
		return 0, store.ErrNotFound // written by another version of this package
	}
	return item.Version, nil
}

// loginStore is the [oauth.TokenStore] of one user for the server with a name. All users of the server share the
// registration of the program, because its redirect URI contains the name.
type loginStore struct {
	values
	user   principal.Principal
	server string
}

func (b *loginStore) key(key string) string {
	owner := b.user.Key()
	if strings.HasPrefix(key, clientPrefix) {
		owner = "login/" + b.server + "/"
	}
	return owner + "oauth/" + digest.Of(key)
}

// Load implements [oauth.TokenStore].
func (b *loginStore) Load(ctx context.Context, key string) ([]byte, error) {
	isRecord := b.isLogin(key)
	key = b.key(key)
	item, err := b.kv.Touch(ctx, key, maxIdleLogin)
	if err != nil {
		return nil, withoutNotFound(err)
	}
	if isRecord {
		err = b.remember(ctx)
	}
	return item.Value, withoutNotFound(err)
}

// withoutNotFound returns nil if there is no value.
func withoutNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// Save implements [oauth.TokenStore].
func (b *loginStore) Save(ctx context.Context, key string, value []byte) error {
	isRecord := b.isLogin(key)
	key = b.key(key)
	if value == nil {
		return b.kv.Delete(ctx, key)
	}
	if isRecord {
		if err := b.remember(ctx); err != nil {
			return err
		}
	}
	_, err := b.kv.Put(ctx, key, value, store.PutOptions{TTL: maxIdleLogin})
	if err == nil && isRecord && ctx.Value(finishing{}) != nil {
		err = b.kv.Delete(ctx, needKey(b.user, b.server))
	}
	return err
}

// finishing marks the context in which a login ends: the need for the login is removed as soon as its token is
// stored, before another process that waits for the lock of the token can find that it needs another login.
type finishing struct{}

// clientPrefix is the prefix of the keys of registrations.
const clientPrefix = "client "

// signInStore is the [oauth.TokenStore] of the logins that identify the users of browsers. It keeps the registration of
// the program, and no tokens.
type signInStore struct{ registrations loginStore }

// Load implements [oauth.TokenStore].
func (s *signInStore) Load(ctx context.Context, key string) ([]byte, error) {
	if !strings.HasPrefix(key, clientPrefix) {
		return nil, nil
	}
	return s.registrations.Load(ctx, key)
}

// Save implements [oauth.TokenStore].
func (s *signInStore) Save(ctx context.Context, key string, value []byte) error {
	if !strings.HasPrefix(key, clientPrefix) {
		return nil
	}
	return s.registrations.Save(ctx, key, value)
}

// Lock implements [oauth.TokenStore]. Nothing needs the lock.
func (s *signInStore) Lock(context.Context, string) (unlock func(), err error) { return func() {}, nil }

// Lock implements [oauth.TokenStore]. All processes that share the KV honour the lock.
func (b *loginStore) Lock(ctx context.Context, key string) (unlock func(), err error) {
	key = b.key(key) + "/lock"
	owner := []byte(rand.Text())
	var version uint64
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, maxLockPoll) {
		version, err = b.kv.Put(ctx, key, owner, store.PutOptions{TTL: lockTTL, IfAbsent: true})
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, fmt.Errorf("cannot lock the token: %w", err)
		}
		timer := time.NewTimer(wait/2 + mathrand.N(wait/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
	l := &storeLock{kv: b.kv, key: key, owner: owner, version: version}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.renewing.Go(func() { l.renew(ctx) })
	return func() {
		cancel()
		l.renewing.Wait()
		l.release()
	}, nil
}

// storeLock is a lock in a KV. Only one goroutine at a time uses its version.
type storeLock struct {
	kv       store.Store
	key      string
	owner    []byte
	version  uint64
	renewing sync.WaitGroup
}

// renew renews the lock until ctx ends. If a renewal fails, it tries again until the lock has expired.
func (l *storeLock) renew(ctx context.Context) {
	ticker := time.NewTicker(lockRenewal)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if version, err := l.kv.Put(ctx, l.key, l.owner,
			store.PutOptions{TTL: lockTTL, IfVersion: l.version}); err == nil {
			l.version = version
		}
	}
}

// release makes the lock expire if its owner still holds it.
func (l *storeLock) release() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	_, _ = l.kv.Put(ctx, l.key, l.owner, store.PutOptions{TTL: time.Millisecond, IfVersion: l.version})
}

// loginsSet returns the key of the set of servers, by name, that a user has logged in to. A name can remain after the
// login has ended, so a page shows only the servers with a token.
func loginsSet(user principal.Principal) string { return user.Key() + "oauth/logins" }

// isLogin reports whether a key belongs to the record of a login.
func (b *loginStore) isLogin(key string) bool {
	return strings.HasPrefix(key, "server ")
}

// remember adds the server to the logins of the user.
func (b *loginStore) remember(ctx context.Context) error {
	err := b.kv.Add(ctx, loginsSet(b.user), b.server, maxIdleLogin, maxLogins)
	if errors.Is(err, store.ErrFull) { // the user can first end other logins
		return nil
	}
	return err
}
