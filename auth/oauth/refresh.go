package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// justObtained reports whether the rejected token was issued or refreshed just now, so
// that refreshing it would not help.
func (s *session) justObtained(before *token, n *need) bool {
	return before != nil && before.Access == n.rejected &&
		(time.Since(before.issued) < freshAge || time.Since(before.refreshed) < freshAge)
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
// token is no longer valid. The caller holds the store's lock of the token.
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

// rejectsRefresh reports whether an error says that a refresh token, or its client, is no longer valid. Besides the
// codes of RFC 6749, section 5.2, some servers send private codes, such as "bad_refresh_token" and "token_revoked".
func rejectsRefresh(err error) bool {
	var e *ServerError
	if !errors.As(err, &e) || e.status >= 500 || e.status == http.StatusTooManyRequests ||
		strings.HasPrefix(e.Code, "unsupported_") {
		return false
	}
	return e.Code == "invalid_client" || e.Code == "unauthorized_client" || strings.Contains(e.Code, "grant") ||
		strings.Contains(e.Code, "token")
}
