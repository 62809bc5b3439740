package legacy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// ErrTooManySessions is the error when a limit on sessions is reached.
var ErrTooManySessions = &call.OverloadError{Limit: "sessions", RetryAfter: time.Minute}

// SessionLimits limits stored sessions. A zero field means its default.
type SessionLimits struct {
	Idle          time.Duration // time without use after which a session ends; default 30 minutes
	Uninitialized time.Duration // the same before notifications/initialized; default 30 seconds
	PerOwner      int           // sessions per principal; default 100
	PerAddress    int           // anonymous sessions per address; default 1,000
	Total         int           // sessions created by this process; default 10,000
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

// Sessions stores the sessions of a transport whose connections are shorter than a session.
// An idle session uses a few hundred bytes in the store and one entry in a map. The most
// recently used sessions also stay in memory, see maxCached.
type Sessions struct {
	// Replicas tells the other replicas about sessions; nil if the server has none. Set it before the first session.
	Replicas Replicas

	server     *Server
	unreadable loglimit.Limiter
	displaced  loglimit.Limiter
	store      store.KV
	limits     SessionLimits
	quota      quota

	mu       sync.Mutex
	live     map[sessionRef]*StoredSession // in use or cached
	byKey    map[string]*StoredSession     // the same by store key, for messages of other replicas
	cache    sessionCache
	uses     uint32      // incremented with each session and each use that ends, to order them; it may wrap around
	ticks    int         // calls of touchActive
	timer    *time.Timer // for touchActive; nil until needed
	armed    bool        // the timer is running
	draining bool        // no standalone stream may be open
}

// sessionRef is the principal of a session and its id. Finding a session in memory by it needs
// neither the digest nor the text of a store key.
type sessionRef struct {
	who principal.Principal
	ID  string
}

// storeTimeout is the time-out for store operations that belong to no request.
const storeTimeout = 5 * time.Second

// NewSessions returns the sessions of server, stored in kv.
func NewSessions(server *Server, kv store.KV, limits SessionLimits) *Sessions {
	limits = limits.withDefaults()
	s := &Sessions{server: server, store: kv, limits: limits, live: make(map[sessionRef]*StoredSession),
		byKey: make(map[string]*StoredSession), quota: quota{total: limits.Total}}
	return s
}

// Create stores the state of a new session and returns its id: 128 random bits, which protect the session of an
// anonymous client. The sessions of anonymous clients are counted by address, other sessions by principal.
func (s *Sessions) Create(ctx context.Context, who principal.Principal, address string, state State) (id string,
	err error) {
	owner, most := changes.OwnerOf(who, address), s.limits.PerOwner
	if who == principal.Anonymous {
		state.Address, most = address, s.limits.PerAddress
	}
	var random [randomBytes]byte
	rand.Read(random[:])
	id = base64.RawURLEncoding.EncodeToString(random[:])
	key := sessionKey(who, id)
	order := s.nextUse()
	if !s.quota.add(owner, key, order, most, s.expired(ctx)) && !s.displace(ctx, owner, key, order) {
		return "", ErrTooManySessions
	}
	record := state.Encode()
	version, err := s.store.Put(ctx, key, record, store.PutOptions{TTL: s.limits.Uninitialized, IfAbsent: true})
	if err != nil {
		s.quota.remove(key)
		return "", fmt.Errorf("cannot write session: %w", err)
	}
	s.mu.Lock()
	ss, err := s.add(sessionRef{who, id}, key, state, store.Item{Value: record, Version: version})
	s.mu.Unlock()
	if err != nil {
		s.quota.remove(key)
		return "", err
	}
	ss.Release()
	return id, nil
}

// nextUse counts a new session.
func (s *Sessions) nextUse() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	return s.uses
}

// randomBytes is the length of an id before it is encoded.
const randomBytes = 16

// isSessionID reports whether id has the form of a session id. Other ids, which may have
// any length, are not looked up in the store.
func isSessionID(id string) bool {
	if len(id) != base64.RawURLEncoding.EncodedLen(randomBytes) {
		return false
	}
	var random [randomBytes]byte
	_, err := base64.RawURLEncoding.Strict().Decode(random[:], []byte(id))
	return err == nil && !strings.ContainsAny(id, "\r\n") // the decoder would skip them
}

// MarkReady is Use for notifications/initialized: from then on the idle limit applies. If the session is in memory as
// it was created, the write that records the notification also finds out whether it still exists.
func (s *Sessions) MarkReady(ctx context.Context, who principal.Principal, id string) (ss *StoredSession, err error) {
	ref := sessionRef{who, id}
	s.mu.Lock()
	if ss = s.live[ref]; ss != nil && ss.record != nil && !ss.Ready {
		s.acquire(ss)
	} else {
		ss = nil
	}
	s.mu.Unlock()
	if ss == nil {
		if ss, err = s.Use(ctx, who, id, false); err != nil {
			return nil, err
		}
	}
	if err = ss.MarkReady(ctx); err == nil {
		return ss, nil
	}
	ss.Release()
	if errors.Is(err, ErrNoSession) {
		s.end(ref, ss.key)
	}
	return nil, err
}

// Use finds a session for one use, which Release ends, and renews the session's life if renew is set. It needs one
// store operation if the session is in memory. The error is ErrNoSession or the store's.
func (s *Sessions) Use(ctx context.Context, who principal.Principal, id string, renew bool) (ss *StoredSession,
	err error) {
	ref := sessionRef{who, id}
	var version uint64
	var ttl time.Duration
	s.mu.Lock()
	known := s.live[ref]
	if known != nil {
		version, ttl = known.version, known.ttl()
	}
	s.mu.Unlock()
	var key string
	switch {
	case known != nil:
		key = known.key
	case isSessionID(id):
		key = sessionKey(who, id)
	default:
		return nil, ErrNoSession
	}
	var item store.Item
	if renew && known != nil {
		item, err = s.store.Touch(ctx, key, ttl)
	} else {
		item, err = s.store.Get(ctx, key)
	}
	switch {
	case errors.Is(err, store.ErrInvalidArgument):
		err = fmt.Errorf("%w: %w", errBadState, err)
	case err == nil, errors.Is(err, store.ErrNotFound):
		ss, err = s.adopt(ref, key, known, version, item, err == nil)
	default:
		return nil, fmt.Errorf("cannot read session: %w", err)
	}
	switch {
	case errors.Is(err, errBadState):
		s.unreadable.Log(ctx, s.server.Logger, slog.LevelError, "stored session ignored", slog.Any("error", err))
	case errors.Is(err, ErrNoSession):
		s.quota.remove(key)
	case err == nil && renew && !ss.isRenewed(ttl): // another replica may have read notifications/initialized
		if err = ss.Touch(ctx); err != nil {
			ss.Release()
		}
	}
	if err != nil {
		return nil, err
	}
	return ss, nil
}

// adopt begins a use of the session with the given record, which was read when known was the
// session in memory and had the version before. The error is ErrNoSession if found is not set.
func (s *Sessions) adopt(ref sessionRef, key string, known *StoredSession, before uint64, item store.Item,
	found bool) (*StoredSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := known
	if ss == nil || ss.removed {
		ss = s.live[ref]
	}
	var queued [][]byte
	// another replica has ended or changed it
	if ss != nil && ss.refs == 0 && ss.version == before && (!found || item.Version != ss.version) {
		queued = ss.deferred.takeQueued()
		s.evict(ss)
		ss = nil
	}
	switch {
	case !found:
		return nil, ErrNoSession
	case ss != nil && item.Version == ss.version:
		ss.record = item.Value
		return s.acquire(ss), nil
	case ss != nil && ss.version != before: // newer than item
		return s.acquire(ss), nil
	}
	state, err := DecodeState(item.Value)
	if err != nil {
		return nil, err
	}
	if ss == nil {
		ref.ID = strings.Clone(ref.ID) // it may be a part of a larger text
		if ss, err = s.add(ref, key, state, item); err == nil {
			ss.deferred.queued = queued
		}
		return ss, err
	}
	// another replica has changed it while it is in use
	ss.Ready = state.Ready
	ss.level.set(state.LogLevel)
	ss.subscriptions.restore(&state)
	ss.version, ss.record = item.Version, item.Value
	ss.setNewest(state.Streams)
	return s.acquire(ss), nil
}

// add restores a session from its record and begins the first use. The caller holds mu. The error is errBadState.
func (s *Sessions) add(ref sessionRef, key string, state State, item store.Item) (ss *StoredSession, err error) {
	ss = &StoredSession{sessionRef: ref, key: key, sessions: s, inflight: &rpc.Inflight{Max: s.server.MaxInflight},
		version: item.Version, record: item.Value}
	if ss.Session, err = s.server.Resume(ref.who, state, ss.inflight); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadState, err)
	}
	ss.stored, ss.Source = ss, ref.ID
	ss.setNewest(state.Streams)
	s.live[ref], s.byKey[key] = ss, ss
	return s.acquire(ss), nil
}

// Delete ends a session, and cancels its requests in flight in this process and at the other replicas.
func (s *Sessions) Delete(ctx context.Context, who principal.Principal, id string) error {
	key := sessionKey(who, id)
	if err := s.store.Delete(ctx, key); err != nil {
		return err
	}
	s.end(sessionRef{who, id}, key)
	if s.Replicas != nil {
		s.Replicas.Ended(key)
	}
	return nil
}

// end ends a session that the store no longer has: it cancels its requests in flight and ends its standalone stream.
func (s *Sessions) end(ref sessionRef, key string) {
	s.mu.Lock()
	ss := s.live[ref]
	if ss != nil {
		s.evict(ss)
		if ss.streams != nil {
			close(ss.streams)
			ss.streams = nil
		}
	}
	s.mu.Unlock()
	if ss != nil {
		ss.Close()
	}
	s.quota.remove(key)
}

// InUse returns the session with a key, or nil if this replica is not serving a request of it.
func (s *Sessions) InUse(key string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ss := s.byKey[key]; ss != nil && ss.refs > 0 {
		return ss.Session
	}
	return nil
}

// UseLately begins a use of the session with a key, which Release ends, if this replica has served it lately. Otherwise
// it returns nil.
func (s *Sessions) UseLately(key string) *StoredSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ss := s.byKey[key]; ss != nil {
		return s.acquire(ss)
	}
	return nil
}

// current begins a use of the session in memory with the id of ss, which Release ends. Ss was in use once, and another
// object may have replaced it since. If none has, because the session was not used lately, ss is in memory again. It
// returns nil if the session has ended here.
func (s *Sessions) current(ss *StoredSession) *StoredSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.live[ss.sessionRef]
	switch {
	case now != nil:
		return s.acquire(now)
	case ss.deferred.isClosed():
		return nil
	}
	ss.removed = false
	s.live[ss.sessionRef], s.byKey[ss.key] = ss, ss
	return s.acquire(ss)
}

// Active returns the number of sessions with a request or a stream in this process.
func (s *Sessions) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live) - s.cache.n
}

// CloseStreams ends every standalone stream, including later ones. Call it when the server shuts down.
func (s *Sessions) CloseStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for _, ss := range s.live {
		if ss.streams != nil {
			close(ss.streams)
			ss.streams = nil
		}
	}
}

// sessionKey returns the key of a session in the store. It begins with the principal, so that an id opens no session of
// another principal. It contains a digest of the id, because the id alone protects an anonymous session: a reader of
// the keys, in a log or a listing, must not learn ids.
func sessionKey(who principal.Principal, id string) string {
	sum := sha256.Sum256([]byte(id))
	var text [sessionDigest]byte
	base64.RawURLEncoding.Encode(text[:], sum[:])
	return who.Key() + "session/" + string(text[:])
}

const sessionDigest = (sha256.Size*8 + 5) / 6 // characters of base64
