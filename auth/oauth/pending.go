package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/oauth2"

	"github.com/parley-mcp/parley/auth/oauth/internal/authresponse"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// PendingLogin is a login that waits for the redirect to the program. It can be stored as JSON. Any process can finish
// it with a [Client] that has the same settings and the same Store.
type PendingLogin struct {
	// URL is the authorization page, for the browser of the user.
	URL string `json:"url,omitzero"`
	// State is the parameter state that the redirect must contain.
	State string `json:"state"`
	// Secret must be known to the program only, so store it encrypted.
	Secret []byte `json:"secret"`
}

// BeginLogin begins a login in a program with web pages, which redirects the user's browser itself. The redirect URI
// is an https URL, or an http URL on the loopback interface. Like [Client.Login], it first asks the server which
// scopes it requires, and requests these, the given scopes, and the scopes of the previous login.
func (c *Client) BeginLogin(ctx context.Context, server, redirectURI string, scopes ...string) (*PendingLogin, error) {
	s, err := c.session(server)
	if err != nil {
		return nil, err
	}
	return s.begin(ctx, redirectURI, scopes)
}

// FinishLogin finishes a login with the URL, or the query of the URL, that the browser was redirected to. It stores the
// token and returns it. The program must have verified that the redirect comes from the browser that it sent to the
// authorization page, and must finish a login only once.
func (c *Client) FinishLogin(ctx context.Context, server string, p *PendingLogin, redirect string) (*oauth2.Token,
	error) {
	s, err := c.session(server)
	if err != nil {
		return nil, err
	}
	return s.finish(ctx, p, redirect)
}

// pending is the secret of a PendingLogin.
type pending struct {
	Record  *record      `json:"record"`
	Request *codeRequest `json:"request"`
	Client  *client      `json:"client,omitzero"` // nil: configured by the program
	Proof   *proofKey    `json:"proof_key,omitzero"`
}

// begin implements Client.BeginLogin.
func (s *session) begin(ctx context.Context, redirectURI string, scopes []string) (*PendingLogin, error) {
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	n := need{force: true}
	if s.owner.Issuer == "" {
		if err := s.probe(ctx, &n); err != nil {
			return nil, err
		}
	}
	d, err := s.discover(ctx, &n)
	if err != nil {
		return nil, err
	}
	if n.accepted && d.server.guessed {
		return nil, fmt.Errorf("%w: %s accepts requests without a token, and has no metadata that names an "+
			"authorization server", ErrDiscovery, httpurl.WithoutQuery(s.peers.server))
	}
	s.discovery = d
	stored, err := load[token](ctx, s.owner.store(), d.record().tokenKey(s.server))
	if err != nil {
		return nil, err
	}
	var previous []string
	if stored.usable() {
		previous = stored.Requested
	}
	scopes = scopesToRequest(challenge.Union(n.challenged, scopes), previous, d)
	scopes, err = s.approve(ctx, AuthorizationRequest{Server: s.server, Issuer: d.server.Issuer, Scopes: scopes,
		Previous: previous})
	if err != nil {
		return nil, err
	}
	dpop := n.dpop || d.resource != nil && d.resource.DPoPRequired
	p, err := s.newPending(ctx, d, redirectURI, scopes, dpop, s.owner.settingsAfter(stored))
	return p, s.peers.ofGuess(d, err)
}

func (s *session) newPending(ctx context.Context, d *discovery, redirectURI string, scopes []string, dpop bool,
	with settings) (*PendingLogin, error) {
	l, err := s.newLogin(ctx, d, AuthorizationRequest{}, dpop, with)
	if err != nil {
		return nil, err
	}
	c, err := s.clientFor(ctx, d, l.client, redirectURI, scopes)
	if err != nil {
		return nil, err
	}
	p := &pending{Record: d.record(), Request: newCodeRequest(redirectURI, scopes, with), Proof: l.key}
	if c.stored {
		p.Client = c
	}
	page, err := s.page(d, c, p.Request)
	if err != nil {
		return nil, err
	}
	secret, err := json.Marshal(p)
	return &PendingLogin{URL: page, State: p.Request.State, Secret: secret}, err
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

// finish implements Client.FinishLogin.
func (s *session) finish(ctx context.Context, login *PendingLogin, redirect string) (*oauth2.Token, error) {
	p := new(pending)
	if err := json.Unmarshal(login.Secret, p); err != nil || p.Record == nil || p.Request == nil {
		return nil, fmt.Errorf("%w: the pending login is damaged", authresponse.ErrState)
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	d, err := s.discoveryOf(ctx, p.Record)
	if err != nil {
		return nil, err
	}
	t, err := s.exchange(ctx, d, p, redirect)
	if err != nil {
		return nil, err
	}
	// The authorization code is spent, so the token must be stored even if the browser disconnects.
	ctx, done := withGrace(ctx, gracePeriod)
	defer done()
	key := p.Record.tokenKey(s.server)
	unlock, err := s.owner.store().Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	err = save(ctx, s.owner.store(), key, t)
	if err = errors.Join(err, s.saveRecord(ctx, d)); err != nil {
		return nil, err
	}
	s.use(t)
	s.failures, s.loaded = nil, true
	return &oauth2.Token{AccessToken: t.Access, TokenType: t.Type, Expiry: t.Expires}, nil
}

// requireLogin returns the token that another process has stored, or the error that asks the user to log in.
func (s *session) requireLogin(ctx context.Context) (*token, error) {
	if t, err := s.reloaded(ctx); t != nil || err != nil {
		return t, err
	}
	required := s.owner.NeedsLogin(ctx, AuthorizationRequest{Server: s.server})
	if t, err := s.reloaded(ctx); t != nil && err == nil { // the user has logged in at the same time
		return t, nil
	}
	return nil, required
}

// reloaded reads the store again and returns the token, as renewed does.
func (s *session) reloaded(ctx context.Context) (*token, error) {
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	s.loaded = false
	release()
	return s.renewed(ctx)
}
