package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"

	"github.com/parley-mcp/parley/auth/internal/secrets"
	"github.com/parley-mcp/parley/auth/oauth/internal/authresponse"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// login is an authorization by the user with the authorization code grant and PKCE (2026-07-28, basic/authorization,
// Authorization Flow Steps). No lock is held while it waits for the user.
type login struct {
	discovery *discovery
	wanted    AuthorizationRequest
	client    *client   // nil: none is registered
	key       *proofKey // nil: request a bearer token
	settings  settings

	// Set by ask.
	request  *codeRequest
	redirect string
}

// newLogin returns a login that has not begun. The caller holds the lock.
func (s *session) newLogin(ctx context.Context, d *discovery, wanted AuthorizationRequest, dpop bool,
	with settings) (*login, error) {
	if err := d.server.checkCode(with); err != nil {
		return nil, err
	}
	c, err := s.existingClient(ctx, d)
	var key *proofKey
	if err == nil && dpop {
		key, err = newProofKey()
	}
	if err != nil {
		return nil, err
	}
	return &login{discovery: d, wanted: wanted, client: c, key: key, settings: with}, nil
}

// ask waits for the user, who can refuse, register a client, and log in. The caller holds no lock.
func (s *session) ask(ctx context.Context, l *login) error {
	scopes, err := s.approve(ctx, l.wanted)
	if err != nil {
		return err
	}
	previous := ""
	if l.client != nil {
		previous = l.client.RedirectURI
	}
	flow, err := s.owner.Interaction.Begin(ctx, previous)
	if err != nil {
		return err
	}
	defer flow.Close()
	l.request = newCodeRequest(flow.RedirectURI(), scopes, l.settings)
	if l.client, err = s.clientFor(ctx, l.discovery, l.client, l.request.RedirectURI, scopes); err != nil {
		return err
	}
	page, err := s.page(l.discovery, l.client, l.request)
	if err != nil {
		return err
	}
	l.redirect, err = flow.Authorize(ctx, page)
	if err != nil { // the authorization server may not know the client, and then does not redirect
		s.forgetClient(ctx, l.discovery, l.client)
	}
	return err
}

// finishLogin gets and stores the token of a login, or remembers the error of ask.
func (s *session) finishLogin(ctx context.Context, n *need, l *login, asked error) error {
	release, err := s.acquire(ctx)
	if err != nil {
		return cmp.Or(asked, err)
	}
	defer release()
	var t *token
	if err = asked; err == nil {
		t, err = s.tokenOf(ctx, l)
	}
	err = s.peers.ofGuess(l.discovery, err)
	s.conclude(n, t, err)
	return err
}

// tokenOf exchanges the redirect of a login for a token, and stores it. The caller holds the lock.
func (s *session) tokenOf(ctx context.Context, l *login) (*token, error) {
	unlock, err := s.owner.store().Lock(ctx, l.discovery.record().tokenKey(s.server))
	if err != nil {
		return nil, err
	}
	defer unlock()
	t, err := s.redeem(ctx, l.discovery, l.client, l.request, l.redirect, l.key)
	if l.client.isRejected(err) {
		s.forgetClient(ctx, l.discovery, l.client)
	}
	if err != nil {
		return nil, err
	}
	if l.client.stored {
		t.Client = l.client // a later registration must not renew this token
	}
	t.issued = time.Now()
	s.saveToken(ctx, l.discovery, t)
	return t, nil
}

// isRejected reports whether an error says that another registration may help. A dynamic client may have been
// registered for fewer scopes than the login requests.
func (c *client) isRejected(err error) bool {
	return isServerError(err, "invalid_client", "unauthorized_client") ||
		c.dynamic() && isServerError(err, "invalid_scope")
}

// checkCode returns an error if the authorization server does not support the authorization code grant with
// PKCE.
func (m *serverMetadata) checkCode(with settings) error {
	switch {
	case m.AuthorizationEndpoint == "":
		return fmt.Errorf("%w: the metadata of the authorization server has no authorization_endpoint", ErrDiscovery)
	case !m.supportsPKCE() && !with.AssumePKCE:
		return fmt.Errorf("%w: %.200q; if it supports S256 nevertheless, the setting AssumePKCE allows logins",
			ErrNoPKCE, m.Issuer)
	}
	return nil
}

// codeRequest is an authorization request. It is stored as JSON.
type codeRequest struct {
	State       string   `json:"state"`
	Verifier    string   `json:"code_verifier"`
	RedirectURI string   `json:"redirect_uri"`
	Scopes      []string `json:"scopes,omitzero"`
	Settings    settings `json:"settings,omitzero"`
}

func newCodeRequest(redirectURI string, scopes []string, with settings) *codeRequest {
	return &codeRequest{rand.Text(), oauth2.GenerateVerifier(), redirectURI, scopes, with}
}

// page returns the URL of the authorization page for a request.
func (s *session) page(d *discovery, c *client, request *codeRequest) (string, error) {
	endpoint, err := s.peers.check(d.server.AuthorizationEndpoint)
	if err != nil {
		return "", err
	}
	query := endpoint.Query()
	query.Set("response_type", "code")
	query.Set("client_id", c.ID)
	query.Set("redirect_uri", request.RedirectURI)
	query.Set("state", request.State)
	query.Set("code_challenge", oauth2.S256ChallengeFromVerifier(request.Verifier))
	query.Set("code_challenge_method", "S256")
	request.Settings.setResource(query, d.resourceID())
	setScope(query, request.Scopes)
	if slices.Contains(request.Scopes, offlineAccess) { // OpenID Connect Core 1.0, section 11
		query.Set("prompt", "consent")
	}
	page := *endpoint
	page.RawQuery = query.Encode()
	return page.String(), nil
}

// redeem exchanges the authorization code in a redirect for a token.
func (s *session) redeem(ctx context.Context, d *discovery, c *client, request *codeRequest, redirect string,
	key *proofKey) (*token, error) {
	response, err := authresponse.Parse(redirect)
	if err != nil {
		return nil, err
	}
	code, err := accept(response, request.State, d.server, &s.owner.known)
	if err != nil && d.resourceID() != "" && !request.Settings.NoResource {
		err = ofResource(err)
	}
	if err != nil {
		return nil, err
	}
	form := url.Values{
		"grant_type":    {"authorization_code"},
		"code":          {code},
		"redirect_uri":  {request.RedirectURI},
		"code_verifier": {request.Verifier},
	}
	t, err := s.tokenRequest(d, form, c, key, request.Settings).do(ctx, &s.asNonce)
	if err != nil {
		return nil, err
	}
	t.Requested = request.Scopes
	if t.Scopes == nil {
		t.Scopes = request.Scopes
	}
	return t, nil
}

// checkRedirectURI requires a redirect URI that is https or on the loopback interface, so
// that the network cannot read the authorization code (2026-07-28,
// basic/authorization/security-considerations, Communication Security).
func checkRedirectURI(redirectURI string) error {
	u, err := httpurl.Parse(redirectURI)
	if err != nil {
		return fmt.Errorf("redirect URI: %w", err)
	}
	if !httpurl.IsSecure(u) {
		return fmt.Errorf("redirect URI: %w: it must be https, or http on the loopback interface", httpurl.ErrInsecure)
	}
	return nil
}

// accept returns the code of a response to the authorization request with the given state at server. It checks state
// and issuer first: the code or the error of another party must not be used, and its error must not be shown
// (2026-07-28, basic/authorization, Authorization Response Validation).
func accept(r *authresponse.Response, state string, server *serverMetadata, known *secrets.Memory) (code string,
	err error) {
	if state == "" || subtle.ConstantTimeCompare([]byte(r.State), []byte(state)) != 1 {
		return "", fmt.Errorf("%w: the state differs", authresponse.ErrState)
	}
	switch {
	case r.HasIss && r.Iss != server.Issuer:
		return "", fmt.Errorf("%w: the authorization response is not from %.200q", errIssuerMismatch, server.Issuer)
	case !r.HasIss && server.IssParameter:
		return "",
			fmt.Errorf("%w: the authorization response has no iss parameter, which %.200q always sends according to "+
				"its metadata", errIssuerMismatch, server.Issuer)
	case r.Error != "":
		return "", newServerError("authorization", 0, r.Error, r.Description,
			known.With(secrets.Set{Sent: []string{state, r.Code}}))
	case r.Code == "" || len(r.Code) > httpurl.MaxLength:
		return "", fmt.Errorf("%w: the authorization response has neither code nor error", errInvalidResponse)
	}
	return r.Code, nil
}
