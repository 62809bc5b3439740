package oauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// code gets a token by the authorization code grant with PKCE (2026-07-28,
// basic/authorization, Authorization Flow Steps).
func (s *session) code(ctx context.Context, d *discovery, scopes []string, key *proofKey) (*token, error) {
	if err := d.server.checkCode(); err != nil {
		return nil, err
	}
	c, err := s.existingClient(ctx, d)
	if err != nil {
		return nil, err
	}
	previous := ""
	if c != nil {
		previous = c.RedirectURI
	}
	flow, err := s.owner.Interaction.Begin(ctx, previous)
	if err != nil {
		return nil, err
	}
	defer flow.Close()
	if c, err = s.clientFor(ctx, d, c, flow.RedirectURI(), scopes); err != nil {
		return nil, err
	}
	t, err := s.run(ctx, d, c, flow, scopes, key)
	if c.isRejected(err) {
		s.forgetClient(ctx, d, c)
	}
	if err == nil && c.stored {
		t.Client = c // a later registration must not renew this token
	}
	return t, err
}

// isRejected reports whether an error says that another registration may help. A dynamic client can be registered for
// fewer scopes than a login requests.
func (c *client) isRejected(err error) bool {
	return isServerError(err, "invalid_client", "unauthorized_client") || c.dynamic() && isServerError(err, "invalid_scope")
}

// checkCode returns an error if the authorization server does not support the authorization code grant with
// PKCE.
func (m *serverMetadata) checkCode() error {
	switch {
	case m.AuthorizationEndpoint == "":
		return fmt.Errorf("%w: the metadata of the authorization server has no authorization_endpoint", ErrDiscovery)
	case !m.supportsPKCE():
		return fmt.Errorf("%w: %.200q", ErrNoPKCE, m.Issuer)
	}
	return nil
}

// clientFor returns existing if it can be used with a redirect URI, or registers a client, which is to request scopes.
// Existing may be nil. A client that is registered for fewer scopes is kept until the authorization server rejects them:
// sessions and tasks belong to a client.
func (s *session) clientFor(ctx context.Context, d *discovery, existing *client, redirectURI string, scopes []string) (*client, error) {
	if err := checkRedirectURI(redirectURI); err != nil {
		return nil, err
	}
	if existing == nil || existing.dynamic() && existing.RedirectURI != redirectURI {
		if d.resource != nil { // a later login can request these, and must not be that of another client
			scopes = challenge.Union(scopes, d.resource.ScopesSupported)
		}
		return s.newClient(ctx, d, redirectURI, scopes)
	}
	return existing, nil
}

// run runs one flow: it opens the authorization page and exchanges the authorization
// code for a token.
func (s *session) run(ctx context.Context, d *discovery, c *client, flow Flow, scopes []string, key *proofKey) (*token, error) {
	request := newCodeRequest(flow.RedirectURI(), scopes)
	page, err := s.page(d, c, request)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	redirect, err := flow.Authorize(ctx, page)
	s.traceAuthorization(page, flow.RedirectURI(), redirect, err, start)
	if err != nil { // an authorization server does not redirect an unknown client
		s.forgetClient(ctx, d, c)
		return nil, err
	}
	return s.redeem(ctx, d, c, request, redirect, key)
}

// codeRequest is an authorization request. It is stored as JSON.
type codeRequest struct {
	State       string   `json:"state"`
	Verifier    string   `json:"code_verifier"`
	RedirectURI string   `json:"redirect_uri"`
	Scopes      []string `json:"scopes,omitzero"`
}

func newCodeRequest(redirectURI string, scopes []string) *codeRequest {
	return &codeRequest{rand.Text(), oauth2.GenerateVerifier(), redirectURI, scopes}
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
	if resource := d.resourceID(); resource != "" {
		query.Set("resource", resource)
	}
	setScope(query, request.Scopes)
	if slices.Contains(request.Scopes, offlineAccess) { // OpenID Connect Core 1.0, section 11
		query.Set("prompt", "consent")
	}
	page := *endpoint
	page.RawQuery = query.Encode()
	return page.String(), nil
}

// redeem exchanges the authorization code in a redirect for a token.
func (s *session) redeem(ctx context.Context, d *discovery, c *client, request *codeRequest, redirect string, key *proofKey) (*token, error) {
	response, err := parseAuthorizationResponse(redirect)
	if err != nil {
		return nil, err
	}
	code, err := response.accept(request.State, d.server)
	if err != nil {
		return nil, err
	}
	form := url.Values{
		"grant_type":    {"authorization_code"},
		"code":          {code},
		"redirect_uri":  {request.RedirectURI},
		"code_verifier": {request.Verifier},
	}
	t, err := s.tokenRequest(d, form, c, key).do(ctx, &s.asNonce)
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
	u, err := checkURL(redirectURI)
	if err != nil {
		return fmt.Errorf("redirect URI: %w", err)
	}
	if !httpurl.IsSecure(u) {
		return fmt.Errorf("redirect URI: %w: it must be https, or http on the loopback interface", ErrInsecureURL)
	}
	return nil
}
