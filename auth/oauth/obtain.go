package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// authorizeAnew finds out who gives tokens for the server now, and gets one. It is
// called with the turn.
func (s *session) authorizeAnew(ctx context.Context, n *need, before *token) (*token, error) {
	if _, err := s.web.check(s.server); err != nil {
		return nil, err
	}
	f, err := s.web.discover(ctx, n.hint, n.revision, s.prefer(ctx))
	if err != nil {
		return nil, err
	}
	if n.let && f.server.guessed {
		return nil, fmt.Errorf("%w: %s lets requests in without a token, and names nobody who issues any", ErrDiscovery, shown(s.web.server))
	}
	previous := s.found
	s.found = f
	issuer, resource, key := f.server.Issuer, f.resourceID(), f.known().tokenKey(s.server)
	unlock, err := s.owner.store().Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	defer unlock()

	stored, err := load[token](ctx, s.owner.store(), key)
	if err != nil {
		return nil, err
	}
	if !stored.usable() {
		stored = nil
	}
	if stored != nil && !n.anew && stored.answers(n) {
		return stored, s.know(ctx, f) // another process, or another session, has got it
	}
	if stored != nil && stored.Refresh != "" && !n.stepUp && !n.anew && !s.refreshedInVain(before, n) && covers(stored.Requested, n.challenged) {
		t, err := s.refresh(ctx, f, stored)
		if err != nil || t != nil {
			return t, err
		}
	}
	var requested []string
	if stored != nil {
		requested = stored.Requested
	}
	scopes := wanted(n.challenged, requested, f)
	changed := previous == nil || previous.server.Issuer != issuer
	if !changed && !n.anew && before != nil && before.Access == n.refused && time.Since(before.issued) < fresh && covers(before.Requested, scopes) {
		return nil, fmt.Errorf("%w: %s", ErrTokenRejected, shown(s.web.server))
	}
	request := AuthorizationRequest{Server: s.server, Resource: resource, Issuer: issuer, Scopes: slices.Clone(scopes), Previous: slices.Clone(requested)}
	if s.owner.Grant == nil && s.owner.Interaction == nil {
		return nil, &InteractionError{request}
	}
	if err := s.attempt(time.Now()); err != nil {
		return nil, err
	}
	if scopes, err = s.approve(ctx, request); err != nil {
		return nil, err
	}
	t, err := s.grant(ctx, f, scopes, n.proof || f.resource != nil && f.resource.DPoPRequired)
	if err != nil {
		return nil, err
	}
	t.issued = time.Now()
	return t, s.keep(ctx, f, t)
}

// refreshedInVain reports whether the token that was refused is one that has just been
// refreshed.
func (s *session) refreshedInVain(before *token, n *need) bool {
	return before != nil && before.Access == n.refused && (time.Since(before.issued) < fresh || time.Since(before.refreshed) < fresh)
}

// prefer picks the authorization server for which there are credentials already, or
// else the first.
func (s *session) prefer(ctx context.Context) func([]string) string {
	return func(issuers []string) string {
		for _, issuer := range issuers {
			if s.owner.preRegistered(issuer, "") != nil {
				return issuer
			}
		}
		if slices.Contains(issuers, s.bound) {
			return s.bound
		}
		for _, issuer := range issuers {
			if c, err := load[client](ctx, s.owner.store(), clientKey(issuer)); err == nil && c != nil {
				return issuer
			}
		}
		return issuers[0]
	}
}

func (s *session) approve(ctx context.Context, request AuthorizationRequest) ([]string, error) {
	if s.owner.Approve == nil {
		return request.Scopes, nil
	}
	approved, err := s.owner.Approve(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDeclined, err)
	}
	if !validScopes(approved) {
		return nil, fmt.Errorf("%w: a scope that was approved is none", ErrDeclined)
	}
	return approved, nil
}

func (s *session) grant(ctx context.Context, f *found, scopes []string, proof bool) (*token, error) {
	var key *proofKey
	if proof {
		var err error
		if key, err = newProofKey(); err != nil {
			return nil, err
		}
	}
	if g := s.owner.Grant; g != nil {
		return g.token(ctx, s, f, scopes, key)
	}
	return s.code(ctx, f, scopes, key)
}

// keep stores a token, and to whom it belongs. A token that cannot be stored is used
// nevertheless: the user has just logged in for it.
func (s *session) keep(ctx context.Context, f *found, t *token) error {
	err := save(ctx, s.owner.store(), f.known().tokenKey(s.server), t)
	if err = errors.Join(err, s.know(ctx, f)); err != nil {
		s.owner.logger().Warn("a token is kept in memory only", "server", shown(s.web.server), "error", err)
	}
	return nil
}

func (s *session) know(ctx context.Context, f *found) error {
	s.bound = f.server.Issuer
	return save(ctx, s.owner.store(), serverKey(s.server), f.known())
}

// renew gets a token in place of one that expires, without asking anybody. It is nil
// if that cannot be done. It is called with the turn.
func (s *session) renew(ctx context.Context, t *token) (*token, error) {
	k, err := load[known](ctx, s.owner.store(), serverKey(s.server))
	if err != nil || k == nil {
		return nil, err
	}
	unlock, err := s.owner.store().Lock(ctx, k.tokenKey(s.server))
	if err != nil {
		return nil, err
	}
	defer unlock()
	stored, err := load[token](ctx, s.owner.store(), k.tokenKey(s.server))
	if err != nil {
		return nil, err
	}
	if stored.usable() && stored.Access != t.Access && !stored.expiring(time.Now()) {
		s.use(stored)
		return stored, nil // another process has done it
	}
	if !stored.usable() || stored.Refresh == "" && s.owner.Grant == nil {
		return nil, nil
	}
	f, err := s.rediscovered(ctx, k)
	if err != nil {
		return nil, err
	}
	var renewed *token
	if stored.Refresh != "" {
		renewed, err = s.refresh(ctx, f, stored)
	}
	if renewed == nil && err == nil && s.owner.Grant != nil {
		if renewed, err = s.owner.Grant.token(ctx, s, f, stored.Requested, stored.Proof); err == nil {
			err = s.keep(ctx, f, renewed)
		}
	}
	if err != nil || renewed == nil {
		return nil, err
	}
	s.use(renewed)
	return renewed, nil
}

// rediscovered is what was found out about a server that is known, and only about the
// authorization server that has issued its token: that one renews it.
func (s *session) rediscovered(ctx context.Context, k *known) (*found, error) {
	if s.found != nil && s.found.server.Issuer == k.Issuer && s.found.resourceID() == k.Resource {
		return s.found, nil
	}
	f := &found{}
	var err error
	if k.Fallback {
		f.server, err = s.web.ownServer(ctx, "")
	} else {
		f.resource = &resourceMetadata{Resource: k.Resource}
		f.server, err = s.web.authorizationServer(ctx, k.Issuer)
	}
	if err != nil {
		return nil, err
	}
	s.found = f
	return f, nil
}

// refresh is nil, without an error, when the refresh token is of no more use. It is
// called with the lock of the token.
func (s *session) refresh(ctx context.Context, f *found, t *token) (*token, error) {
	c, err := s.clientOf(ctx, f, t)
	if err != nil || c == nil {
		return nil, err
	}
	// The answer may hold the only refresh token that is still good: who asked may leave,
	// and it is kept nevertheless.
	ctx, done := linger(ctx, lingers)
	defer done()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.Refresh}}
	r := s.request(f, form, c, t.Proof)
	renewed, err := r.do(ctx, &s.asNonce)
	if isServerError(err, "invalid_grant", "invalid_client", "unauthorized_client") {
		if !isServerError(err, "invalid_grant") {
			s.unregister(ctx, f, c)
		}
		spent := *t
		spent.Refresh = ""
		return nil, save(ctx, s.owner.store(), f.known().tokenKey(s.server), &spent)
	}
	if err != nil {
		return nil, fmt.Errorf("refreshing the token: %w", err)
	}
	renewed.refreshed = time.Now()
	if renewed.Refresh == "" {
		renewed.Refresh = t.Refresh
	}
	renewed.Requested, renewed.Client = t.Requested, t.Client
	if len(renewed.Scopes) == 0 {
		renewed.Scopes = t.Scopes
	}
	return renewed, s.keep(ctx, f, renewed)
}

// clientOf is the client that a token was issued to, and that alone may renew it (RFC
// 6749, section 6); nil if it is not to be had any more.
func (s *session) clientOf(ctx context.Context, f *found, t *token) (*client, error) {
	switch {
	case t.Client == nil:
		return s.registered(ctx, f)
	case t.Client.expired(time.Now()):
		return nil, nil
	}
	issuedTo := *t.Client
	issuedTo.kept = true
	return &issuedTo, nil
}

// lingers is how long is waited for what has to be kept when nobody wants it any more; a
// Close of the client waits as long.
const lingers = 2 * time.Second

// linger returns a context that ends by so much later than ctx, or when it is done.
func linger(ctx context.Context, by time.Duration) (longer context.Context, done func()) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(by, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel(nil) }
}

// request is one to the token endpoint. The resource is in each of them, exactly as
// the metadata has it (2026-07-28, basic/authorization, Resource Parameter
// Implementation).
func (s *session) request(f *found, form url.Values, c *client, proof *proofKey) *tokenRequest {
	if resource := f.resourceID(); resource != "" {
		form.Set("resource", resource)
	}
	return &tokenRequest{
		endpoint: f.server.TokenEndpoint, issuer: f.server.Issuer, form: form,
		client: c, methods: f.server.TokenAuthMethods, proof: proof, send: s.web.do,
	}
}

func setScope(form url.Values, scopes []string) {
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
}

// revoke tells the authorization server that a token is not used any more (RFC 7009),
// if that is known to be possible. It is a courtesy: what fails is not reported.
func (s *session) revoke(ctx context.Context, k *known, t *token) {
	f, err := s.rediscovered(ctx, k)
	if err != nil || f.server.RevocationEndpoint == "" {
		return
	}
	c, err := s.clientOf(ctx, f, t)
	if err != nil || c == nil {
		return
	}
	secret, hint := t.Refresh, "refresh_token"
	if secret == "" {
		secret, hint = t.Access, "access_token"
	}
	r := s.request(f, url.Values{"token": {secret}, "token_type_hint": {hint}}, c, nil)
	r.endpoint = f.server.RevocationEndpoint
	r.form.Del("resource")
	if _, _, err := r.once(ctx, ""); err != nil {
		s.owner.logger().Debug("a token was not revoked", "issuer", k.Issuer, "error", err)
	}
}
