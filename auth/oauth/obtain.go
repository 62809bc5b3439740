package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// authorizeAgain discovers the authorization server of the MCP server again, and gets a
// token from it, or returns the login that is necessary. The caller holds the lock.
func (s *session) authorizeAgain(ctx context.Context, n *need, before *token) (*token, *login, error) {
	if _, err := s.peers.check(s.server); err != nil {
		return nil, nil, err
	}
	d, err := s.discover(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	if n.accepted && d.server.guessed {
		return nil, nil,
			fmt.Errorf("%w: %s accepts requests without a token, and has no metadata that names an authorization "+
				"server", ErrDiscovery, httpurl.WithoutQuery(s.peers.server))
	}
	previous := s.discovery
	s.discovery = d
	issuer, key := d.server.Issuer, d.record().tokenKey(s.server)
	unlock, err := s.owner.store().Lock(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()

	stored, err := load[token](ctx, s.owner.store(), key)
	if err != nil {
		return nil, nil, err
	}
	if !stored.usable() {
		stored = nil
	}
	if stored != nil && !n.force && stored.satisfies(n) {
		return stored, nil, s.saveRecord(ctx, d) // stored by another process or session
	}
	if stored != nil && stored.Refresh != "" && !n.stepUp && !n.force && !s.justObtained(before, n) &&
		covers(stored.Requested, n.challenged) {
		t, err := s.refresh(ctx, d, stored)
		if err != nil || t != nil {
			return t, nil, err
		}
	}
	var requested []string
	if stored != nil {
		requested = stored.Requested
	}
	scopes := scopesToRequest(n.challenged, requested, d)
	changed := previous == nil || previous.server.Issuer != issuer
	if !changed && !n.force && before != nil && before.Access == n.rejected && time.Since(before.issued) < freshAge &&
		covers(before.Requested, scopes) {
		return nil, nil, fmt.Errorf("%w: %s", errTokenRejected, httpurl.WithoutQuery(s.peers.server))
	}
	if d.server.guessed && s.owner.Grant == nil && s.owner.Interaction == nil {
		return nil, nil, s.peers.noIssuer()
	}
	request := AuthorizationRequest{Server: s.server, Issuer: issuer, Scopes: slices.Clone(scopes),
		Previous: slices.Clone(requested)}
	if s.owner.Grant == nil && s.owner.Interaction == nil {
		if s.owner.NeedsLogin != nil {
			return nil, nil, s.owner.NeedsLogin(ctx, request)
		}
		return nil, nil, &InteractionError{request}
	}
	if err := s.countAttempt(time.Now()); err != nil {
		return nil, nil, err
	}
	dpop := n.dpop || d.resource != nil && d.resource.DPoPRequired
	if s.owner.Grant == nil {
		l, err := s.newLogin(ctx, d, request, dpop, s.owner.settingsAfter(stored))
		return nil, l, err
	}
	if scopes, err = s.approve(ctx, request); err != nil {
		return nil, nil, err
	}
	t, err := s.grant(ctx, d, scopes, dpop)
	if err != nil {
		return nil, nil, s.peers.ofGuess(d, err)
	}
	t.issued = time.Now()
	s.saveToken(ctx, d, t)
	return t, nil, nil
}

func (s *session) approve(ctx context.Context, request AuthorizationRequest) ([]string, error) {
	if s.owner.Approve == nil {
		return request.Scopes, nil
	}
	approved, err := s.owner.Approve(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDeclined, err)
	}
	if !validScopes(approved) {
		return nil, fmt.Errorf("%w: Client.Approve returned an invalid scope", errDeclined)
	}
	return approved, nil
}

func (s *session) grant(ctx context.Context, d *discovery, scopes []string, dpop bool) (*token, error) {
	var key *proofKey
	if dpop {
		var err error
		if key, err = newProofKey(); err != nil {
			return nil, err
		}
	}
	return s.owner.Grant.token(ctx, s, d, scopes, key)
}

// saveToken stores a token and the record that leads to it. If the store fails, the token
// is used anyway, because the user has just logged in.
func (s *session) saveToken(ctx context.Context, d *discovery, t *token) {
	err := save(ctx, s.owner.store(), d.record().tokenKey(s.server), t)
	if err = errors.Join(err, s.saveRecord(ctx, d)); err != nil {
		s.owner.logger().Warn("cannot store an access token; it is lost when the program ends", "server",
			httpurl.WithoutQuery(s.peers.server), "error", err)
	}
}

func (s *session) saveRecord(ctx context.Context, d *discovery) error {
	s.issuer = d.server.Issuer
	return save(ctx, s.owner.store(), serverKey(s.server), d.record())
}

// clientOf returns the client that a token was issued to, which alone may refresh it (RFC
// 6749, section 6). It returns nil if that client has expired.
func (s *session) clientOf(ctx context.Context, d *discovery, t *token) (*client, error) {
	switch {
	case t.Client == nil:
		return s.existingClient(ctx, d)
	case t.Client.expired(time.Now()):
		return nil, nil
	}
	issuedTo := *t.Client
	issuedTo.stored = true
	return &issuedTo, nil
}

// gracePeriod is how long an exchange whose result must be stored continues after its
// context is cancelled. Client.Close waits just as long.
const gracePeriod = 2 * time.Second

// withGrace returns a context that is cancelled a grace period after ctx, or by cancel.
func withGrace(ctx context.Context, grace time.Duration) (longer context.Context, cancel func()) {
	longer, cancelCause := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, func() { cancelCause(context.Cause(ctx)) })
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancelCause(nil) }
}

// revoke revokes a token (RFC 7009) if the authorization server is known to support that.
// It logs errors, because the token is deleted in any case.
func (s *session) revoke(ctx context.Context, r *record, t *token) {
	d, err := s.discoveryOf(ctx, r)
	if err != nil || d.server.RevocationEndpoint == "" {
		return
	}
	c, err := s.clientOf(ctx, d, t)
	if err != nil || c == nil {
		return
	}
	secret, hint := t.Refresh, "refresh_token"
	if secret == "" {
		secret, hint = t.Access, "access_token"
	}
	request := s.tokenRequest(d, url.Values{"token": {secret}, "token_type_hint": {hint}}, c, nil,
		settings{NoResource: true})
	request.endpoint = d.server.RevocationEndpoint
	request.send = func(req *http.Request) (*response, error) { return s.peers.do(req) }
	if _, err := request.once(ctx, ""); err != nil {
		s.owner.logger().Debug("cannot revoke a token", "issuer", r.Issuer, "error", err)
	}
}
