package legacy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// Errors of Sessions.
var (
	// ErrNoSession: there is no session with this id for this principal, or no longer.
	ErrNoSession = errors.New("no such session")
	// ErrTooManySessions: the principal, or the process, has as many as it may.
	ErrTooManySessions = errors.New("too many sessions")
)

// SessionLimits bounds sessions that are kept in a store. A zero field means its default.
type SessionLimits struct {
	Idle          time.Duration // a session unused for so long ends; default 30 minutes
	Uninitialized time.Duration // as Idle, before notifications/initialized; default 30 seconds
	PerOwner      int           // sessions of one principal; default 100
	PerAddress    int           // sessions of one address, when nobody is authenticated; default 1,000
	Total         int           // sessions that this process begins; default 10,000
}

func (l SessionLimits) withDefaults() SessionLimits {
	if l.Idle <= 0 {
		l.Idle = 30 * time.Minute
	}
	if l.Uninitialized <= 0 {
		l.Uninitialized = 30 * time.Second
	}
	if l.PerOwner <= 0 {
		l.PerOwner = 100
	}
	if l.PerAddress <= 0 {
		l.PerAddress = 1_000
	}
	if l.Total <= 0 {
		l.Total = 10_000
	}
	return l
}

// Sessions keeps the sessions of a transport whose connections do not last, in a
// store. An idle session is a few hundred bytes there and, here, one entry in a
// count, apart from the ones that were used last; see maxWarm.
type Sessions struct {
	server *Server
	store  store.KV
	limits SessionLimits
	quota  quota

	mu       sync.Mutex
	live     map[string]*StoredSession // by store key; those in use, and the warm
	cache    sessionCache
	ticks    int         // how often beat has been called
	timer    *time.Timer // for beat; nil until needed
	armed    bool        // beat will be called
	draining bool        // no standalone stream may stay open
}

// Live is what a session has in this process while it is being used, and for a while
// afterwards.
type StoredSession struct {
	*Session
	ID       string
	key      string
	sessions *Sessions

	inflight *rpc.Inflight

	// Under the mutex of all.
	version   uint64 // of the state in the store that is known here
	refs      int
	touchedAt int // the beat after which it was last used or touched
	cached    bool
	older     *StoredSession // in the list of the warm
	newer     *StoredSession // likewise
	streams   chan struct{}  // closed when a newer standalone stream takes over, or the session ends
}

// storeTimeout bounds what is asked of the store for no request in particular.
const storeTimeout = 5 * time.Second

// NewSessions keeps the sessions of server in kv.
func NewSessions(server *Server, kv store.KV, limits SessionLimits) *Sessions {
	limits = limits.withDefaults()
	return &Sessions{server: server, store: kv, limits: limits, live: make(map[string]*StoredSession), quota: quota{total: limits.Total}}
}

// Create keeps the state of a session that has just had its handshake, and
// returns its id: 128 random bits, which is what guards the session of somebody
// anonymous. Address is where the client is; it counts instead of the principal
// when nobody is authenticated.
func (s *Sessions) Create(ctx context.Context, who principal.Principal, address string, state State) (id string, err error) {
	owner, most := who.Key(), s.limits.PerOwner
	if who == principal.Anonymous {
		owner, most = "address/"+address, s.limits.PerAddress
	}
	var random [randomBytes]byte
	rand.Read(random[:])
	id = base64.RawURLEncoding.EncodeToString(random[:])
	key := sessionKey(who, id)
	gone := func(key string) bool {
		_, err := s.store.Get(ctx, key)
		return errors.Is(err, store.ErrNotFound)
	}
	if !s.quota.add(owner, key, most, gone) {
		return "", ErrTooManySessions
	}
	_, err = s.store.Put(ctx, key, state.Encode(), store.PutOptions{TTL: s.limits.Uninitialized, IfAbsent: true})
	if err == nil {
		return id, nil
	}
	s.quota.remove(key)
	if errors.Is(err, store.ErrFull) {
		return "", fmt.Errorf("%w: %w", ErrTooManySessions, err)
	}
	return "", fmt.Errorf("keep session: %w", err)
}

// randomBytes is how long an id is before it is encoded.
const randomBytes = 16

// isID reports whether id could be one of ours. Others are not worth a look at the
// store, and may be of any length.
func isSessionID(id string) bool {
	if len(id) != base64.RawURLEncoding.EncodedLen(randomBytes) {
		return false
	}
	var random [randomBytes]byte
	_, err := base64.RawURLEncoding.Strict().Decode(random[:], []byte(id))
	return err == nil && !strings.ContainsAny(id, "\r\n") // which decoding skips
}

// Open finds a session for one use, which Release ends. The error is ErrNoSession,
// or the store's.
func (s *Sessions) Open(ctx context.Context, who principal.Principal, id string) (*StoredSession, error) {
	return s.open(who, id, func(key string, _ time.Duration) (store.Item, error) { return s.store.Get(ctx, key) })
}

// Use is Open, and makes the session young again: both in one operation of the store, if
// this process knows how long the session lives.
func (s *Sessions) Use(ctx context.Context, who principal.Principal, id string) (*StoredSession, error) {
	touched := false
	l, err := s.open(who, id, func(key string, ttl time.Duration) (store.Item, error) {
		if touched = ttl > 0; touched {
			return s.store.Touch(ctx, key, ttl)
		}
		return s.store.Get(ctx, key)
	})
	if err != nil || touched {
		return l, err
	}
	if err := l.Touch(ctx); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// open finds a session of which read reads the state. It is told how long the session
// lives when it is not used, 0 if that is not known here.
func (s *Sessions) open(who principal.Principal, id string, read func(key string, ttl time.Duration) (store.Item, error)) (*StoredSession, error) {
	if !isSessionID(id) {
		return nil, ErrNoSession
	}
	key := sessionKey(who, id)
	before, ttl := s.known(key)
	item, err := read(key, ttl)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("find session: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live[key]
	if l != nil && l.refs == 0 && l.version == before && (err != nil || item.Version != l.version) { // ended or changed by another replica
		s.evict(l)
		l = nil
	}
	switch {
	case err != nil:
		return nil, ErrNoSession
	case l != nil && (item.Version == l.version || l.version != before): // which is newer than item
		return s.acquire(l), nil
	}
	state, err := DecodeState(item.Value)
	if err != nil {
		return nil, err
	}
	if l == nil {
		l = &StoredSession{ID: id, key: key, version: item.Version, sessions: s, inflight: &rpc.Inflight{Max: s.server.MaxInflight}}
		if l.Session, err = s.server.Resume(who, state, l.inflight); err != nil {
			return nil, err
		}
		l.stored, l.Source = l, id
		l.subscriptions.stored = l
		s.live[key] = l
	} else { // in use, and another replica was told otherwise
		l.version, l.Ready = item.Version, state.Ready
		l.level.set(state.LogLevel)
		l.subscriptions.restore(state)
	}
	return s.acquire(l), nil
}

// known returns what is known here of a session: the version of its state, and how long
// it lives when it is not used. Of others it returns 0 and 0.
func (s *Sessions) known(key string) (version uint64, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.live[key]; l != nil {
		return l.version, l.ttl()
	}
	return 0, 0
}

// retain begins one more use of a session that is in use.
func (l *StoredSession) retain() {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	l.refs++
}

// Key is the session's key in the store. It begins with the principal.
func (l *StoredSession) Key() string { return l.key }

// Touch makes the session young again.
func (l *StoredSession) Touch(ctx context.Context) error {
	l.sessions.mu.Lock()
	ttl := l.ttl()
	l.touchedAt = l.sessions.ticks
	l.sessions.mu.Unlock()
	_, err := l.sessions.store.Touch(ctx, l.key, ttl)
	if errors.Is(err, store.ErrNotFound) {
		return ErrNoSession
	}
	return err
}

// ttl is how long the session lives when it is not used. It is called with the
// mutex of all held.
func (l *StoredSession) ttl() time.Duration {
	if l.Ready {
		return l.sessions.limits.Idle
	}
	return l.sessions.limits.Uninitialized
}

// Initialized notes that the client has finished the handshake: from now on the
// session lives as long as it is used. The error is ErrNoSession, or the store's.
func (l *StoredSession) MarkReady(ctx context.Context) error {
	l.sessions.mu.Lock()
	ready := l.Ready
	l.sessions.mu.Unlock()
	if ready {
		return nil
	}
	if err := l.update(ctx, func(state *State) { state.Ready = true }); err != nil {
		return err
	}
	l.sessions.mu.Lock()
	l.Ready = true
	l.sessions.mu.Unlock()
	return nil
}

// Delete ends a session, and whatever it has in flight in this process.
func (s *Sessions) Delete(ctx context.Context, who principal.Principal, id string) error {
	key := sessionKey(who, id)
	if err := s.store.Delete(ctx, key); err != nil {
		return err
	}
	s.quota.remove(key)
	s.mu.Lock()
	l := s.live[key]
	delete(s.live, key)
	if l != nil && l.cached {
		s.evict(l)
	}
	if l != nil && l.streams != nil {
		close(l.streams)
		l.streams = nil
	}
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
	return nil
}

// Stream claims the session's standalone stream, of which there is one: whoever
// had it finds its channel closed (2025-11-25, basic/transports, Multiple
// Connections: a message goes to one stream).
//
// When the server shuts down, or the session has been deleted meanwhile, the channel
// is closed already. Changes are for the client, see [Session.Listen].
func (l *StoredSession) Stream() (taken <-chan struct{}, changes *NotificationQueue) {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	if l.streams != nil {
		close(l.streams)
	}
	l.streams = make(chan struct{})
	taken, changes = l.streams, l.Notifications()
	if l.sessions.draining || l.sessions.live[l.key] != l {
		close(l.streams)
		l.streams = nil
	}
	return taken, changes
}

// CloseStreams ends every standalone stream, and those yet to come, for a server
// that shuts down.
func (s *Sessions) CloseStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for _, l := range s.live {
		if l.streams != nil {
			close(l.streams)
			l.streams = nil
		}
	}
}

// sessionKey begins with the principal, so that an id alone never opens somebody
// else's session. It has a digest of the id, which is all that guards the session of
// somebody anonymous: whoever gets to read keys, in a slow log of a store or in a
// listing, can open nothing.
func sessionKey(who principal.Principal, id string) string {
	sum := sha256.Sum256([]byte(id))
	var text [sessionDigest]byte
	base64.RawURLEncoding.Encode(text[:], sum[:])
	return who.Key() + "session/" + string(text[:])
}

const sessionDigest = (sha256.Size*8 + 5) / 6 // characters of base64
