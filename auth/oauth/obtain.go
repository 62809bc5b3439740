package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/challenge"
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
				"server", ErrDiscovery, withoutQuery(s.peers.server))
	}
	previous := s.discovery
	s.discovery = d
	issuer, resource, key := d.server.Issuer, d.resourceID(), d.record().tokenKey(s.server)
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
		return nil, nil, fmt.Errorf("%w: %s", errTokenRejected, withoutQuery(s.peers.server))
	}
	if d.server.guessed && s.owner.Grant == nil && s.owner.Interaction == nil {
		return nil, nil, s.peers.noIssuer()
	}
	request := AuthorizationRequest{Server: s.server, Resource: resource, Issuer: issuer, Scopes: slices.Clone(scopes),
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

// discover finds the authorization server of the MCP server.
func (s *session) discover(ctx context.Context, n *need) (*discovery, error) {
	if g, ok := s.owner.Grant.(*TokenExchange); ok {
		return g.discovery(s), nil
	}
	if s.owner.Issuer != "" {
		return s.ofIssuer(ctx)
	}
	return s.peers.discover(ctx, n.metadataURL, n.revision, s.preferredIssuer(ctx))
}

// discoveryAge is how long the metadata of Client.Issuer is used for new logins.
const discoveryAge = 10 * time.Minute

// ofIssuer returns the metadata of Client.Issuer.
func (s *session) ofIssuer(ctx context.Context) (*discovery, error) {
	if s.discovery == nil || time.Since(s.discovered) > discoveryAge {
		m, err := s.peers.authorizationServer(ctx, s.owner.Issuer)
		if err != nil {
			return nil, err
		}
		s.discovery, s.discovered = &discovery{resource: &resourceMetadata{Resource: s.server}, server: m}, time.Now()
	}
	return s.discovery, nil
}

// justObtained reports whether the rejected token was issued or refreshed just now, so
// that refreshing it would not help.
func (s *session) justObtained(before *token, n *need) bool {
	return before != nil && before.Access == n.rejected &&
		(time.Since(before.issued) < freshAge || time.Since(before.refreshed) < freshAge)
}

// preferredIssuer returns a function that chooses one of several authorization servers:
// one with a configured registration, the one of the stored token, one with a stored
// registration, or else the first.
func (s *session) preferredIssuer(ctx context.Context) func([]string) string {
	return func(issuers []string) string {
		for _, issuer := range issuers {
			if s.owner.configured(issuer, "") != nil {
				return issuer
			}
		}
		if slices.Contains(issuers, s.issuer) {
			return s.issuer
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
		return nil, fmt.Errorf("%w: Client.Approve returned an invalid scope", ErrDeclined)
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
// is used nevertheless, because the user has just logged in.
func (s *session) saveToken(ctx context.Context, d *discovery, t *token) {
	err := save(ctx, s.owner.store(), d.record().tokenKey(s.server), t)
	if err = errors.Join(err, s.saveRecord(ctx, d)); err != nil {
		s.owner.logger().Warn("cannot store an access token; it is lost when the program ends", "server",
			withoutQuery(s.peers.server), "error", err)
	}
}

func (s *session) saveRecord(ctx context.Context, d *discovery) error {
	s.issuer = d.server.Issuer
	return save(ctx, s.owner.store(), serverKey(s.server), d.record())
}

// renew replaces a token that is about to expire, without the user. It returns nil if
// that is not possible. The caller holds the lock.
func (s *session) renew(ctx context.Context, t *token) (*token, error) {
	r, err := load[record](ctx, s.owner.store(), serverKey(s.server))
	if err != nil || r == nil {
		return nil, err
	}
	unlock, err := s.owner.store().Lock(ctx, r.tokenKey(s.server))
	if err != nil {
		return nil, err
	}
	defer unlock()
	stored, err := load[token](ctx, s.owner.store(), r.tokenKey(s.server))
	if err != nil {
		return nil, err
	}
	if stored.usable() && stored.Access != t.Access && !stored.expiring(time.Now()) {
		s.use(stored)
		return stored, nil // renewed by another process
	}
	if !stored.usable() || stored.Refresh == "" && s.owner.Grant == nil {
		return nil, nil
	}
	d, err := s.discoveryOf(ctx, r)
	if err != nil {
		return nil, err
	}
	var renewed *token
	if stored.Refresh != "" {
		renewed, err = s.refresh(ctx, d, stored)
	}
	if renewed == nil && err == nil && s.owner.Grant != nil {
		if renewed, err = s.owner.Grant.token(ctx, s, d, stored.Requested, stored.Proof); err == nil {
			s.saveToken(ctx, d, renewed)
		}
	}
	if err != nil || renewed == nil {
		return nil, err
	}
	s.use(renewed)
	return renewed, nil
}

// discoveryOf returns the metadata of the authorization server that issued a stored
// token, which alone can renew or revoke it.
func (s *session) discoveryOf(ctx context.Context, r *record) (*discovery, error) {
	if s.discovery != nil && s.discovery.server.Issuer == r.Issuer && s.discovery.resourceID() == r.Resource {
		return s.discovery, nil
	}
	if g, ok := s.owner.Grant.(*TokenExchange); ok {
		return g.discovery(s), nil
	}
	d := &discovery{}
	var err error
	if r.Fallback {
		d.server, err = s.peers.ownServer(ctx, "")
	} else {
		d.resource = &resourceMetadata{Resource: r.Resource}
		d.server, err = s.peers.authorizationServer(ctx, r.Issuer)
	}
	if err != nil {
		return nil, err
	}
	s.discovery = d
	return d, nil
}

// refresh uses the refresh token of t. It returns nil without an error if the refresh
// token is not valid any more. The caller holds the store's lock of the token.
func (s *session) refresh(ctx context.Context, d *discovery, t *token) (*token, error) {
	c, err := s.clientOf(ctx, d, t)
	if err != nil || c == nil {
		return nil, err
	}
	// The response may contain the only valid refresh token. It must be stored even if
	// the caller cancels.
	ctx, done := withGrace(ctx, gracePeriod)
	defer done()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.Refresh}}
	renewed, err := s.tokenRequest(d, form, c, t.Proof, s.owner.settingsAfter(t)).do(ctx, &s.asNonce)
	if rejectsRefresh(err) {
		if isServerError(err, "invalid_client", "unauthorized_client") {
			s.forgetClient(ctx, d, c)
		}
		spent := *t
		spent.Refresh = ""
		return nil, save(ctx, s.owner.store(), d.record().tokenKey(s.server), &spent)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot refresh the access token: %w", err)
	}
	renewed.refreshed = time.Now()
	if renewed.Refresh == "" {
		renewed.Refresh = t.Refresh
	}
	renewed.Requested, renewed.Client = t.Requested, t.Client
	if len(renewed.Scopes) == 0 {
		renewed.Scopes = t.Scopes
	}
	s.saveToken(ctx, d, renewed)
	return renewed, nil
}

// rejectsRefresh reports whether an error says that a refresh token, or its client, is not valid any more. Besides the
// codes of RFC 6749, section 5.2, some servers send codes of their own, such as "bad_refresh_token" and
// "token_revoked".
func rejectsRefresh(err error) bool {
	var e *ServerError
	if !errors.As(err, &e) || e.Status >= 500 || e.Status == http.StatusTooManyRequests ||
		strings.HasPrefix(e.Code, "unsupported_") {
		return false
	}
	return e.Code == "invalid_client" || e.Code == "unauthorized_client" || strings.Contains(e.Code, "grant") ||
		strings.Contains(e.Code, "token")
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
// context is cancelled. Close of a client waits as long.
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

// tokenRequest returns a request to the token endpoint.
func (s *session) tokenRequest(d *discovery, form url.Values, c *client, key *proofKey, with settings) *tokenRequest {
	with.setResource(form, d.resourceID())
	return &tokenRequest{
		endpoint: d.server.TokenEndpoint, issuer: d.server.Issuer, form: form,
		client: c, methods: d.server.TokenAuthMethods, key: key, settings: with,
		send: func(req *http.Request) (*response, error) { return s.peers.do(req) },
	}
}

// setResource sets the parameter resource exactly as the metadata has it (2026-07-28, basic/authorization, Resource
// Parameter Implementation), unless the settings leave it out.
func (s settings) setResource(form url.Values, resource string) {
	if resource != "" && !s.NoResource {
		form.Set("resource", resource)
	}
}

func setScope(form url.Values, scopes []string) {
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
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

const offlineAccess = "offline_access"

// splitScopes splits a space-separated list of scopes, and drops invalid ones.
func splitScopes(s string) []string {
	if len(s) > 16<<10 {
		return nil
	}
	return slices.DeleteFunc(strings.Fields(s), func(scope string) bool { return !validScopes([]string{scope}) })
}

// covers reports whether have contains all of the scopes.
func covers(have, scopes []string) bool {
	for _, s := range scopes {
		if !slices.Contains(have, s) {
			return false
		}
	}
	return true
}

// scopesToRequest returns the scopes to request (2026-07-28, basic/authorization, Scope
// Selection Strategy): those of the challenge, else those of the server's metadata, else
// none. It adds the scopes of the previous request, because a challenge names the scopes
// of one operation only.
func scopesToRequest(challenged, previous []string, d *discovery) []string {
	scopes := challenged
	if len(scopes) == 0 && len(previous) == 0 && d.resource != nil {
		scopes = d.resource.ScopesSupported
	}
	scopes = challenge.Union(previous, scopes)
	supported := d.server.ScopesSupported
	if len(supported) == 0 {
		return scopes
	}
	// The authorization server, not the resource, decides about refresh tokens (2026-07-28,
	// basic/authorization, Refresh Tokens). As the only scope, offline_access would replace
	// the default scopes.
	scopes = slices.DeleteFunc(scopes, func(s string) bool { return s == offlineAccess })
	if len(scopes) > 0 && slices.Contains(supported, offlineAccess) && d.server.supportsGrant("refresh_token") {
		scopes = append(scopes, offlineAccess)
	}
	return scopes
}

// supportsGrant reports whether the server supports a grant type. A server that lists
// none may support any.
func (m *serverMetadata) supportsGrant(grant string) bool {
	return len(m.GrantTypes) == 0 || slices.Contains(m.GrantTypes, grant)
}
