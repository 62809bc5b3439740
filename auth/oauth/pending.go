package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/internal/challenge"
)

// pending is an authorization that waits for the redirect. It is stored as JSON, so that any process can
// complete it.
type pending struct {
	Record  *record      `json:"record"`
	Request *codeRequest `json:"request"`
	Client  *client      `json:"client,omitzero"` // nil: a configured one
	Proof   *proofKey    `json:"proof_key,omitzero"`
}

// begin returns a new authorization for the given scopes and those that the MCP server requires, and the URL of
// the authorization page.
func (s *session) begin(ctx context.Context, redirectURI string, scopes []string) (p *pending, page string, err error) {
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, "", err
	}
	defer release()
	n := need{force: true}
	if err := s.probe(ctx, &n); err != nil {
		return nil, "", err
	}
	d, err := s.discover(ctx, &n)
	if err != nil {
		return nil, "", err
	}
	if n.accepted && d.server.guessed {
		return nil, "", fmt.Errorf("%w: %s accepts requests without a token, and has no metadata that names an authorization server", ErrDiscovery, withoutQuery(s.peers.server))
	}
	s.discovery = d
	stored, err := load[token](ctx, s.owner.store(), d.record().tokenKey(s.server))
	if err != nil {
		return nil, "", err
	}
	var previous []string
	if stored.usable() {
		previous = stored.Requested
	}
	scopes = scopesToRequest(challenge.Union(n.challenged, scopes), previous, d)
	scopes, err = s.approve(ctx, AuthorizationRequest{Server: s.server, Resource: d.resourceID(), Issuer: d.server.Issuer, Scopes: scopes, Previous: previous})
	if err != nil {
		return nil, "", err
	}
	p, page, err = s.beginAt(ctx, d, redirectURI, scopes)
	err = s.peers.ofGuess(d, err)
	if err == nil && (n.dpop || d.resource != nil && d.resource.DPoPRequired) {
		p.Proof, err = newProofKey()
	}
	return p, page, err
}

// beginAt is begin for an authorization server that is known. The caller holds the lock.
func (s *session) beginAt(ctx context.Context, d *discovery, redirectURI string, scopes []string) (p *pending, page string, err error) {
	if err := d.server.checkCode(); err != nil {
		return nil, "", err
	}
	c, err := s.existingClient(ctx, d)
	if err != nil {
		return nil, "", err
	}
	if c, err = s.clientFor(ctx, d, c, redirectURI, scopes); err != nil {
		return nil, "", err
	}
	p = &pending{Record: d.record(), Request: newCodeRequest(redirectURI, scopes)}
	if c.stored {
		p.Client = c
	}
	page, err = s.page(d, c, p.Request)
	return p, page, err
}

// exchange exchanges the authorization code in the redirect of an authorization for a token. The caller holds the
// lock.
func (s *session) exchange(ctx context.Context, d *discovery, p *pending, redirect string) (*token, error) {
	c, err := s.clientOf(ctx, d, &token{Client: p.Client})
	if err == nil && c == nil {
		err = fmt.Errorf("%w: the client has expired or was removed since the login began", ErrRegistration)
	}
	if err != nil {
		return nil, err
	}
	t, err := s.redeem(ctx, d, c, p.Request, redirect, p.Proof)
	if c.isRejected(err) {
		s.forgetClient(ctx, d, c)
	}
	if err == nil {
		t.Client, t.issued = p.Client, time.Now() // a later registration must not renew this token
	}
	return t, err
}

// finish completes an authorization and stores the token. It calls stored before another process can read the
// token.
func (s *session) finish(ctx context.Context, p *pending, redirect string, stored func(ctx context.Context) error) error {
	release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	d, err := s.discoveryOf(ctx, p.Record)
	if err != nil {
		return err
	}
	t, err := s.exchange(ctx, d, p, redirect)
	if err != nil {
		return err
	}
	// The authorization code is spent, so the token must be stored even if the browser disconnects.
	ctx, done := withGrace(ctx, gracePeriod)
	defer done()
	key := p.Record.tokenKey(s.server)
	unlock, err := s.owner.store().Lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	err = save(ctx, s.owner.store(), key, t)
	if err = errors.Join(err, s.saveRecord(ctx, d)); err != nil {
		return err
	}
	s.use(t)
	s.failures, s.loaded = nil, true
	return stored(ctx)
}

// requireLogin returns the token that another process has stored, or the error that asks the user to log in.
func (s *session) requireLogin(ctx context.Context) (*token, error) {
	if t, err := s.reloaded(ctx); t != nil || err != nil {
		return t, err
	}
	required := s.owner.interactionError(ctx, AuthorizationRequest{Server: s.server})
	if t, err := s.reloaded(ctx); t != nil && err == nil { // the user has logged in at the same time
		return t, nil
	}
	return nil, required
}

// reloaded is renewed after it has read the store again.
func (s *session) reloaded(ctx context.Context) (*token, error) {
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	s.loaded = false
	release()
	return s.renewed(ctx)
}
