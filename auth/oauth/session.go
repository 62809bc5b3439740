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
	"github.com/parley-mcp/parley/internal/rpc"
)

// session is what is known of the authorization for one MCP server.
type session struct {
	owner  *Client
	server string // canonical
	web    *web
	turn   chan struct{} // held by the one who gets or renews a token

	// Of who holds turn.
	loaded   bool
	found    *found // nil: not discovered by this process
	asNonce  string
	attempts []time.Time              // of authorizations, the recent ones
	failures map[string]cachedFailure // by what was wanted
	bound    string                   // issuer of the credentials that were remembered

	mu      sync.Mutex
	token   *token // never changed once it is here
	rsNonce string
}

// cachedFailure keeps what has just failed from being tried for each request that
// waited for it, and for the next ones.
type cachedFailure struct {
	err   error
	until time.Time
}

const (
	maxFailures = 32
	// How long a failure is remembered: where somebody said no, and elsewhere.
	refusalLasts = time.Minute
	failureLasts = 5 * time.Second

	// maxAttempts is how many authorizations for one server may begin within a window.
	maxAttempts   = 3
	attemptWindow = time.Minute

	// fresh is how old a token is at most that was refused at once: another one from
	// the same server would be no better.
	fresh = 30 * time.Second
)

func (c *Client) newSession(server string) (*session, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be parsed", ErrInsecureURL)
	}
	return &session{owner: c, server: server, web: c.newWeb(u), turn: make(chan struct{}, 1)}, nil
}

// authorize adds the token to a request, renewed if need be.
func (s *session) authorize(req *http.Request) error {
	t, nonce := s.current()
	if t == nil || t.expiring(time.Now()) {
		var err error
		if t, err = s.ready(req.Context()); err != nil || t == nil {
			return err
		}
		_, nonce = s.current()
	}
	if _, err := s.web.check(s.server); err != nil { // a token is not sent where others can read it
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

// use makes a token the one for requests from now on; nil for none.
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

// take waits for the turn.
func (s *session) take(ctx context.Context) (done func(), err error) {
	select {
	case s.turn <- struct{}{}:
	default:
		release := rpc.StopClocks(ctx)
		defer release()
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return func() { <-s.turn }, nil
}

// ready returns the token for the next request: one that the store has, or a renewed
// one. Without any it is nil; the server then says what it wants.
func (s *session) ready(ctx context.Context) (*token, error) {
	if s.tokenless() {
		return nil, nil
	}
	done, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
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
		s.owner.logger().Warn("a token could not be renewed in advance", "server", shown(s.web.server), "error", err)
		return t, nil
	case err != nil:
		return nil, err
	}
	if t.expired(time.Now()) { // and nothing can be done about it without being asked
		s.use(nil)
		return nil, nil
	}
	return t, nil
}

// tokenless reports whether there is certainly no token, which then need not be waited
// for.
func (s *session) tokenless() bool {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		t, _ := s.current()
		return s.loaded && t == nil
	default:
		return false
	}
}

// load takes what the store has for the server, once. It is called with the turn.
func (s *session) load(ctx context.Context) error {
	if s.loaded {
		return nil
	}
	k, err := load[known](ctx, s.owner.store(), serverKey(s.server))
	if err != nil {
		return err
	}
	if k != nil {
		t, err := load[token](ctx, s.owner.store(), k.tokenKey(s.server))
		if err != nil {
			return err
		}
		s.bound = k.Issuer
		if t.usable() {
			s.use(t)
		}
	}
	s.loaded = true
	return nil
}

// usable reports whether a stored token is one that can be sent.
func (t *token) usable() bool {
	return t != nil && validToken(t.Access) && (t.Type == typeBearer || t.Type == typeDPoP && t.Proof != nil)
}

// refused answers what the server says of a request.
func (s *session) refused(req *http.Request, resp *http.Response) (again bool, err error) {
	scheme, sent, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	c, ours := challengeOf(resp.Header, scheme)
	if !ours {
		return false, nil
	}
	ctx := req.Context()
	revision := req.Header.Get("MCP-Protocol-Version")
	n := need{refused: sent, hint: c.Params["resource_metadata"], challenged: splitScopes(c.Params["scope"]), revision: revision, proof: c.Is(typeDPoP)}
	switch {
	case resp.StatusCode == http.StatusForbidden && c.Params["error"] != "insufficient_scope":
		return false, nil
	case resp.StatusCode == http.StatusForbidden:
		n.stepUp = true
	case c.Is(typeDPoP) && c.Params["error"] == errDPoPNonce:
		_, nonce := s.current()
		return nonce != "" && sent != "", nil // Observe has it
	}
	if err := s.obtain(ctx, n); err != nil {
		return false, err
	}
	return true, nil
}

// need is what a token is needed for.
type need struct {
	refused    string   // the token that will not do; empty: there was none
	hint       string   // where the challenge says that the metadata is
	challenged []string // scopes that the challenge names
	revision   string   // that the request was in, if that is known
	stepUp     bool     // the token was good, but for its scopes
	proof      bool     // it must be bound to a key
	let        bool     // the server has let a request in without a token
	anew       bool     // the user asks for it: what is there, and what failed, does not matter
}

// key is what failures are remembered by.
func (n *need) key() string {
	scopes := slices.Sorted(slices.Values(n.challenged))
	return fmt.Sprintf("%t %t %s", n.stepUp, n.proof, strings.Join(scopes, " "))
}

// obtain gets the session a token that is better than the one that was refused. Those
// who want one at the same time get the same.
func (s *session) obtain(ctx context.Context, n need) error {
	done, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	release := rpc.StopClocks(ctx)
	defer release()
	if err := s.load(ctx); err != nil {
		return err
	}
	before, _ := s.current()
	if before != nil && before.Access != n.refused && !n.anew && (!n.stepUp || covers(before.Requested, n.challenged)) {
		return nil // somebody else has got one meanwhile
	}
	if err := s.worthTrying(&n, before); err != nil {
		if errors.Is(err, ErrInteraction) && s.loggedInElsewhere(ctx, &n) {
			return nil
		}
		return err
	}
	t, err := s.authorizeAnew(ctx, &n, before)
	if err != nil {
		s.remember(&n, err)
		return err
	}
	s.use(t)
	s.failures = nil
	return nil
}

// worthTrying returns the error of what is not, so that nobody is asked for nothing.
func (s *session) worthTrying(n *need, before *token) error {
	if n.anew {
		s.failures, s.attempts = nil, nil
		return nil
	}
	now := time.Now()
	if f, ok := s.failures[n.key()]; ok && now.Before(f.until) {
		return f.err
	}
	if n.stepUp && before != nil && before.Access == n.refused && len(n.challenged) > 0 && covers(before.Requested, n.challenged) {
		return fmt.Errorf("%w: %s wants %q, which was asked for", ErrInsufficientScope, shown(s.web.server), n.challenged)
	}
	if n.stepUp && len(n.challenged) == 0 {
		return fmt.Errorf("%w: %s does not say which are wanted", ErrInsufficientScope, shown(s.web.server))
	}
	return nil
}

// loggedInElsewhere takes a token that another process has got from its user meanwhile,
// for the same authorization server as before.
func (s *session) loggedInElsewhere(ctx context.Context, n *need) bool {
	store := s.owner.store()
	k, err := load[known](ctx, store, serverKey(s.server))
	if err != nil || k == nil || s.bound != "" && s.bound != k.Issuer {
		return false
	}
	t, err := load[token](ctx, store, k.tokenKey(s.server))
	if err != nil || !t.usable() || !t.answers(n) {
		return false
	}
	s.bound = k.Issuer
	s.use(t)
	s.failures = nil
	return true
}

// answers reports whether a token will do where another was refused.
func (t *token) answers(n *need) bool {
	return t.Access != n.refused && !t.expired(time.Now()) && covers(t.Requested, n.challenged) && (!n.proof || t.Type == typeDPoP)
}

// remember notes a failure, unless it is the caller's own.
func (s *session) remember(n *need, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, call.ErrClosed) {
		return
	}
	lasts := failureLasts
	if errors.Is(err, ErrDeclined) || isServerError(err, "access_denied") {
		lasts = refusalLasts
	}
	if s.failures == nil || len(s.failures) >= maxFailures {
		s.failures = make(map[string]cachedFailure)
	}
	s.failures[n.key()] = cachedFailure{err, time.Now().Add(lasts)}
}

// attempt counts an authorization that begins.
func (s *session) attempt(now time.Time) error {
	s.attempts = slices.DeleteFunc(s.attempts, func(t time.Time) bool { return now.Sub(t) > attemptWindow })
	if len(s.attempts) >= maxAttempts {
		return fmt.Errorf("%w: %d for %s: it keeps refusing what it asks for", ErrTooManyAttempts, maxAttempts, shown(s.web.server))
	}
	s.attempts = append(s.attempts, now)
	return nil
}

// forget is Logout.
func (s *session) forget(ctx context.Context) error {
	done, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	store := s.owner.store()
	k, err := load[known](ctx, store, serverKey(s.server))
	if err != nil {
		return err
	}
	s.use(nil)
	s.found, s.failures, s.attempts, s.bound, s.loaded = nil, nil, nil, "", true
	if k == nil {
		return nil
	}
	t, err := load[token](ctx, store, k.tokenKey(s.server))
	err = errors.Join(err, remove(ctx, store, k.tokenKey(s.server)), remove(ctx, store, serverKey(s.server)))
	if t != nil {
		s.revoke(ctx, k, t)
	}
	return err
}
