package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/outbound"
)

// session holds the state of the authorization for one MCP server.
type session struct {
	owner  *Client
	server string // canonical URL
	peers  *peers
	lock   chan struct{} // capacity 1; held to get or renew a token, and not while the user logs in
	login  chan struct{} // capacity 1; held for a login by the user

	// Guarded by lock.
	loaded     bool
	discovery  *discovery // nil: not discovered by this process
	discovered time.Time  // when ofIssuer last fetched the metadata
	asNonce    string
	attempts   []time.Time        // when recent authorizations began
	failures   map[string]failure // recent failures by need.key
	issuer     string             // the issuer of the stored token

	mu      sync.Mutex
	token   *token // immutable
	rsNonce string
}

// failure is a recent error. Requests that need the same token fail with it instead of
// trying again.
type failure struct {
	err   error
	until time.Time
}

const (
	maxFailures = 32
	// How long a failure is remembered: if the user declined, and otherwise.
	declinedTTL = time.Minute
	failureTTL  = 5 * time.Second

	// At most maxAttempts authorizations for one server begin within attemptWindow.
	maxAttempts   = 3
	attemptWindow = time.Minute

	// If the server rejects a token that is no older than this, another one would not help.
	freshAge = 30 * time.Second
)

func (c *Client) newSession(server string) (*session, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot parse it", httpurl.ErrInsecure)
	}
	peers := c.newPeers(u)
	if c.Issuer != "" {
		local := peers.local
		if peers, err = peers.configured(c.Issuer); err != nil {
			return nil, err
		}
		peers.local = peers.local || local
	}
	return &session{owner: c, server: server, peers: peers, lock: make(chan struct{}, 1),
		login: make(chan struct{}, 1)}, nil
}

// authorize adds the token to a request. It renews the token if necessary.
func (s *session) authorize(req *http.Request) error {
	t, nonce := s.current()
	if t == nil || t.expiring(time.Now()) {
		var err error
		if t, err = s.ready(req.Context()); err != nil || t == nil {
			return err
		}
		_, nonce = s.current()
	}
	if _, err := s.peers.check(s.server); err != nil { // the connection must be encrypted or local
		return err
	}
	req.Header["Authorization"] = t.headers
	if t.Type != typeDPoP {
		return nil
	}
	proof, err := t.Proof.proof(req.Method, req.URL, nonce, t.Access)
	if err != nil {
		return err
	}
	req.Header[headerDPoP] = []string{proof}
	return nil
}

func (s *session) current() (t *token, nonce string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token, s.rsNonce
}

// use sets the token for the next requests; nil means none.
func (s *session) use(t *token) {
	if t != nil {
		t.headers = []string{t.Type + " " + t.Access}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = t
}

func (s *session) observe(nonce string) {
	if !validNonce(nonce) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rsNonce = nonce
}

// acquire waits for the lock.
func (s *session) acquire(ctx context.Context) (release func(), err error) {
	select {
	case s.lock <- struct{}{}:
	default:
		resume := outbound.PauseTimeouts(ctx)
		defer resume()
		select {
		case s.lock <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return func() { <-s.lock }, nil
}

// ready returns the token for the next request. It returns nil if there is none: the server then responds
// with a challenge.
func (s *session) ready(ctx context.Context) (*token, error) {
	t, err := s.renewed(ctx)
	if t != nil || err != nil {
		return t, err
	}
	if g, ok := s.owner.Grant.(*TokenExchange); ok {
		if !g.applies(ctx) { // does not count as an attempt
			return nil, fmt.Errorf("%w: %w", ErrInteraction, errNoCaller)
		}
		err = s.obtain(ctx, need{})
		t, _ = s.current()
	}
	if s.owner.NeedsLogin != nil {
		return s.requireLogin(ctx)
	}
	return t, err
}

// renewed returns the stored token, renewed if necessary, or nil if there is none.
func (s *session) renewed(ctx context.Context) (*token, error) {
	if s.tokenless() {
		return nil, nil
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	t, _ := s.current()
	if t == nil || !t.expiring(time.Now()) {
		return t, nil
	}
	renewed, err := s.renew(ctx, t)
	switch {
	case err == nil && renewed != nil:
		return renewed, nil
	case err != nil && !t.expired(time.Now()):
		s.owner.logger().Warn("cannot renew an access token; using the old one until it expires", "server",
			httpurl.WithoutQuery(s.peers.server), "error", err)
		return t, nil
	case err != nil:
		return nil, err
	}
	if t.expired(time.Now()) { // expired, and it cannot be renewed without the user
		s.use(nil)
		return nil, nil
	}
	return t, nil
}

// tokenless reports whether it is known, without waiting for the lock, that there is no
// token.
func (s *session) tokenless() bool {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
		t, _ := s.current()
		return s.loaded && t == nil
	default:
		return false
	}
}

// load loads the token from the store on the first call. The caller holds the lock.
func (s *session) load(ctx context.Context) error {
	if s.loaded {
		return nil
	}
	r, err := load[record](ctx, s.owner.store(), serverKey(s.server))
	if err != nil {
		return err
	}
	if r != nil {
		t, err := load[token](ctx, s.owner.store(), r.tokenKey(s.server))
		if err != nil {
			return err
		}
		s.issuer = r.Issuer
		if t.usable() {
			s.use(t)
		}
	}
	s.loaded = true
	return nil
}

// usable reports whether a stored token can be sent.
func (t *token) usable() bool {
	return t != nil && validToken(t.Access) && (t.Type == typeBearer || t.Type == typeDPoP && t.Proof != nil)
}

// reauthorize gets a new token after the server rejected req, if the challenge allows it.
func (s *session) reauthorize(req *http.Request, resp *http.Response) (again bool, err error) {
	scheme, sent, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	c, supported := challengeOf(resp.Header, scheme)
	if !supported {
		return false, nil
	}
	n := need{
		rejected: sent, metadataURL: c.Params["resource_metadata"], challenged: splitScopes(c.Params["scope"]),
		revision: req.Header.Get("MCP-Protocol-Version"), dpop: c.Is(typeDPoP),
	}
	switch {
	case resp.StatusCode == http.StatusForbidden && c.Params["error"] != "insufficient_scope":
		return false, nil
	case resp.StatusCode == http.StatusForbidden:
		n.stepUp = true
	case c.Is(typeDPoP) && c.Params["error"] == errDPoPNonce:
		_, nonce := s.current()
		return nonce != "" && sent != "", nil // Observe has stored the nonce
	}
	if err := s.obtain(req.Context(), n); err != nil {
		return false, err
	}
	return true, nil
}

// need describes the token that a request needs.
type need struct {
	rejected    string   // the token that the server rejected; empty: there was none
	metadataURL string   // resource_metadata of the challenge
	challenged  []string // scope of the challenge
	revision    string   // revision of the request, if known
	stepUp      bool     // the token was valid, but lacked scopes
	dpop        bool     // the token must be bound to a key
	accepted    bool     // the server accepted a request without token
	force       bool     // the user requested a login: ignore the token and recent failures
}

// key returns the key under which failures of this need are remembered.
func (n *need) key() string {
	scopes := slices.Sorted(slices.Values(n.challenged))
	return fmt.Sprintf("%t %t %s", n.stepUp, n.dpop, strings.Join(scopes, " "))
}

// obtain gets a token to replace the rejected one. Concurrent calls share the result.
func (s *session) obtain(ctx context.Context, n need) error {
	resume := outbound.PauseTimeouts(ctx)
	defer resume()
	if s.owner.Grant == nil && s.owner.Interaction != nil {
		leave, err := s.enterLogin(ctx, &n)
		if err != nil {
			return err
		}
		defer leave()
	}
	l, err := s.obtainAlone(ctx, &n)
	if l == nil {
		return err
	}
	return s.finishLogin(ctx, &n, l, s.ask(ctx, l))
}

// enterLogin waits until no other login runs. A login that the user requested does not wait: the other login may
// belong to a page that the user has closed.
func (s *session) enterLogin(ctx context.Context, n *need) (leave func(), err error) {
	select {
	case s.login <- struct{}{}:
		return func() { <-s.login }, nil
	default:
	}
	if n.force {
		return func() {}, nil
	}
	select {
	case s.login <- struct{}{}:
		return func() { <-s.login }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// obtainAlone gets a token without the user. If that is not possible, it returns the login that is necessary.
func (s *session) obtainAlone(ctx context.Context, n *need) (*login, error) {
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	before, _ := s.current()
	if before != nil && before.Access != n.rejected && !n.force &&
		(!n.stepUp || covers(before.Requested, n.challenged)) {
		return nil, nil // a concurrent call has got a token
	}
	if err := s.precheck(n, before); err != nil {
		if errors.Is(err, ErrInteraction) && s.adoptStored(ctx, n) {
			return nil, nil
		}
		return nil, err
	}
	t, l, err := s.authorizeAgain(ctx, n, before)
	if l == nil {
		s.conclude(n, t, err)
	}
	return l, err
}

// conclude uses the token that a need has led to, or remembers the error. The caller holds the lock.
func (s *session) conclude(n *need, t *token, err error) {
	if err != nil {
		s.remember(n, err)
		return
	}
	s.use(t)
	s.failures = nil
}

// precheck returns an error if another authorization cannot succeed, so that the user is
// not asked without need.
func (s *session) precheck(n *need, before *token) error {
	if n.force {
		s.failures, s.attempts = nil, nil
		return nil
	}
	now := time.Now()
	if f, ok := s.failures[n.key()]; ok && now.Before(f.until) {
		return f.err
	}
	if n.stepUp && before != nil && before.Access == n.rejected && len(n.challenged) > 0 &&
		covers(before.Requested, n.challenged) {
		return fmt.Errorf("%w: %s requires %q, which the authorization server did not grant: log in again and allow "+
			"them", errInsufficientScope, httpurl.WithoutQuery(s.peers.server), n.challenged)
	}
	if n.stepUp && len(n.challenged) == 0 {
		return fmt.Errorf("%w: the challenge of %s does not name the scopes", errInsufficientScope,
			httpurl.WithoutQuery(s.peers.server))
	}
	return nil
}

// adoptStored uses a token that another process has stored, if the same
// authorization server issued it.
func (s *session) adoptStored(ctx context.Context, n *need) bool {
	store := s.owner.store()
	r, err := load[record](ctx, store, serverKey(s.server))
	if err != nil || r == nil || s.issuer != "" && s.issuer != r.Issuer {
		return false
	}
	t, err := load[token](ctx, store, r.tokenKey(s.server))
	if err != nil || !t.usable() || !t.satisfies(n) {
		return false
	}
	s.issuer = r.Issuer
	s.use(t)
	s.failures = nil
	return true
}

// satisfies reports whether t can replace the rejected token.
func (t *token) satisfies(n *need) bool {
	return t.Access != n.rejected && !t.expired(time.Now()) && covers(t.Requested, n.challenged) &&
		(!n.dpop || t.Type == typeDPoP)
}

// remember records a failure, unless the caller caused it.
func (s *session) remember(n *need, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, call.ErrClosed) ||
		errors.Is(err, errNoCaller) {
		return
	}
	ttl := failureTTL
	if errors.Is(err, errDeclined) || isServerError(err, "access_denied") {
		ttl = declinedTTL
	}
	if s.failures == nil || len(s.failures) >= maxFailures {
		s.failures = make(map[string]failure)
	}
	s.failures[n.key()] = failure{err, time.Now().Add(ttl)}
}

// countAttempt records the start of an authorization. It fails if there were too many.
func (s *session) countAttempt(now time.Time) error {
	s.attempts = slices.DeleteFunc(s.attempts, func(t time.Time) bool { return now.Sub(t) > attemptWindow })
	if len(s.attempts) >= maxAttempts {
		return fmt.Errorf("%w: %s keeps rejecting the tokens that it asks for: %d authorizations within %v",
			errTooManyAttempts, httpurl.WithoutQuery(s.peers.server), maxAttempts, attemptWindow)
	}
	s.attempts = append(s.attempts, now)
	return nil
}

// logout implements Client.Logout.
func (s *session) logout(ctx context.Context) error {
	release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	store := s.owner.store()
	r, err := load[record](ctx, store, serverKey(s.server))
	if err != nil {
		return err
	}
	s.use(nil)
	s.discovery, s.failures, s.attempts, s.issuer, s.loaded = nil, nil, nil, "", true
	if r == nil {
		return nil
	}
	t, err := load[token](ctx, store, r.tokenKey(s.server))
	err = errors.Join(err, remove(ctx, store, r.tokenKey(s.server)), remove(ctx, store, serverKey(s.server)))
	if t != nil {
		s.revoke(ctx, r, t)
	}
	return err
}
