package oauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"

	"golang.org/x/oauth2"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// code gets a token by the authorization code grant with PKCE (2026-07-28,
// basic/authorization, Authorization Flow Steps).
func (s *session) code(ctx context.Context, d *discovery, scopes []string, key *proofKey) (*token, error) {
	switch {
	case d.server.AuthorizationEndpoint == "":
		return nil, fmt.Errorf("%w: the metadata of the authorization server has no authorization_endpoint", ErrDiscovery)
	case !d.server.supportsPKCE():
		return nil, fmt.Errorf("%w: %.200q", ErrNoPKCE, d.server.Issuer)
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
	redirectURI := flow.RedirectURI()
	if err := checkRedirectURI(redirectURI); err != nil {
		return nil, err
	}
	if c == nil || c.dynamic() && c.RedirectURI != redirectURI {
		if c, err = s.newClient(ctx, d, redirectURI); err != nil {
			return nil, err
		}
	}
	t, err := s.run(ctx, d, c, flow, scopes, key)
	if isServerError(err, "invalid_client", "unauthorized_client") {
		s.forgetClient(ctx, d, c)
	}
	if err == nil && c.stored {
		t.Client = c // a later registration must not renew this token
	}
	return t, err
}

// run runs one flow: it opens the authorization page and exchanges the authorization
// code for a token.
func (s *session) run(ctx context.Context, d *discovery, c *client, flow Flow, scopes []string, key *proofKey) (*token, error) {
	endpoint, err := s.peers.check(d.server.AuthorizationEndpoint)
	if err != nil {
		return nil, err
	}
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	query := endpoint.Query()
	query.Set("response_type", "code")
	query.Set("client_id", c.ID)
	query.Set("redirect_uri", flow.RedirectURI())
	query.Set("state", state)
	query.Set("code_challenge", oauth2.S256ChallengeFromVerifier(verifier))
	query.Set("code_challenge_method", "S256")
	if resource := d.resourceID(); resource != "" {
		query.Set("resource", resource)
	}
	setScope(query, scopes)
	if slices.Contains(scopes, offlineAccess) { // OpenID Connect Core 1.0, section 11
		query.Set("prompt", "consent")
	}
	page := *endpoint
	page.RawQuery = query.Encode()
	redirect, err := flow.Authorize(ctx, page.String())
	if err != nil { // an authorization server does not redirect an unknown client
		s.forgetClient(ctx, d, c)
		return nil, err
	}
	response, err := parseAuthorizationResponse(redirect)
	if err != nil {
		return nil, err
	}
	code, err := response.accept(state, d.server)
	if err != nil {
		return nil, err
	}
	form := url.Values{
		"grant_type":    {"authorization_code"},
		"code":          {code},
		"redirect_uri":  {flow.RedirectURI()},
		"code_verifier": {verifier},
	}
	t, err := s.tokenRequest(d, form, c, key).do(ctx, &s.asNonce)
	if err != nil {
		return nil, err
	}
	t.Requested = scopes
	if t.Scopes == nil {
		t.Scopes = scopes
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
