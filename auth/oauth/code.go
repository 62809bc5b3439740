package oauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// code takes the user to the authorization server and trades what they come back with
// for a token: the authorization code grant with PKCE (2026-07-28,
// basic/authorization, Authorization Flow Steps).
func (s *session) code(ctx context.Context, f *found, scopes []string, proof *proofKey) (*token, error) {
	switch {
	case f.server.AuthorizationEndpoint == "":
		return nil, fmt.Errorf("%w: the authorization server names no authorization endpoint", ErrDiscovery)
	case !f.server.pkce():
		return nil, fmt.Errorf("%w: %.200q", ErrNoPKCE, f.server.Issuer)
	}
	c, err := s.registered(ctx, f)
	if err != nil {
		return nil, err
	}
	previous := ""
	if c != nil {
		previous = c.RedirectURI
	}
	visit, err := s.owner.Interaction.Begin(ctx, previous)
	if err != nil {
		return nil, err
	}
	defer visit.Close()
	redirect := visit.RedirectURI()
	if err := checkRedirect(redirect); err != nil {
		return nil, err
	}
	if c == nil || c.dynamic() && c.RedirectURI != redirect {
		if c, err = s.becomeKnown(ctx, f, redirect); err != nil {
			return nil, err
		}
	}
	t, err := s.visit(ctx, f, c, visit, scopes, proof)
	if isServerError(err, "invalid_client", "unauthorized_client") {
		s.unregister(ctx, f, c)
	}
	if err == nil && c.kept {
		t.Client = c // whatever we are registered as later on
	}
	return t, err
}

// unregister forgets a registration that the authorization server seems to have
// forgotten: the next login makes another.
func (s *session) unregister(ctx context.Context, f *found, c *client) {
	if !c.kept {
		return
	}
	ctx, done := linger(ctx, lingers)
	defer done()
	key := clientKey(f.server.Issuer)
	if stored, err := load[client](ctx, s.owner.store(), key); err == nil && stored != nil && stored.ID == c.ID {
		_ = remove(ctx, s.owner.store(), key)
	}
}

// visit is one round: out with a question that only we can use the answer of, and back.
func (s *session) visit(ctx context.Context, f *found, c *client, visit Flow, scopes []string, proof *proofKey) (*token, error) {
	endpoint, err := s.web.check(f.server.AuthorizationEndpoint)
	if err != nil {
		return nil, err
	}
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	query := endpoint.Query()
	query.Set("response_type", "code")
	query.Set("client_id", c.ID)
	query.Set("redirect_uri", visit.RedirectURI())
	query.Set("state", state)
	query.Set("code_challenge", oauth2.S256ChallengeFromVerifier(verifier))
	query.Set("code_challenge_method", "S256")
	if resource := f.resourceID(); resource != "" {
		query.Set("resource", resource)
	}
	setScope(query, scopes)
	if slices.Contains(scopes, offlineAccess) { // OpenID Connect Core 1.0, section 11
		query.Set("prompt", "consent")
	}
	target := *endpoint
	target.RawQuery = query.Encode()
	answer, err := visit.Authorize(ctx, target.String())
	if err != nil { // to a client that it does not know, the server sends nobody back
		s.unregister(ctx, f, c)
		return nil, err
	}
	response, err := parseCallback(answer)
	if err != nil {
		return nil, err
	}
	code, err := response.accept(state, f.server)
	if err != nil {
		return nil, err
	}
	form := url.Values{
		"grant_type":    {"authorization_code"},
		"code":          {code},
		"redirect_uri":  {visit.RedirectURI()},
		"code_verifier": {verifier},
	}
	t, err := s.request(f, form, c, proof).do(ctx, &s.asNonce)
	if err != nil {
		return nil, err
	}
	t.Requested = scopes
	if t.Scopes == nil {
		t.Scopes = scopes
	}
	return t, nil
}

// checkRedirect keeps codes on the user's machine, or on the way to where only one can
// read them (2026-07-28, basic/authorization/security-considerations, Communication
// Security).
func checkRedirect(redirect string) error {
	u, err := checkURL(redirect)
	if err != nil {
		return fmt.Errorf("the redirect URI: %w", err)
	}
	if u.Scheme == "http" && !httpurl.IsLoopback(u.Hostname()) {
		return fmt.Errorf("the redirect URI: %w: it is neither https nor of this machine", ErrInsecureURL)
	}
	return nil
}

// registered is the client that an authorization server knows already; nil for none.
// In their order: one that the program has, the program's document, one that was
// registered before (2026-07-28, basic/authorization/client-registration).
func (s *session) registered(ctx context.Context, f *found) (*client, error) {
	issuer := f.server.Issuer
	if c := s.owner.preRegistered(issuer, s.server); c != nil {
		switch {
		case !c.bound || s.bound == issuer:
		case s.bound == "": // from now on, whatever comes of this attempt
			if err := s.know(ctx, f); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%w: from %.200q to %.200q; the registration for %s is not used there", ErrIssuerChanged, s.bound, issuer, shown(s.web.server))
		}
		return c, nil
	}
	if s.owner.MetadataURL != "" && f.server.ClientIDDocuments {
		u, err := checkURL(s.owner.MetadataURL)
		if err != nil || u.Scheme != "https" || u.Path == "" || u.Path == "/" {
			return nil, fmt.Errorf("%w: Client.MetadataURL must be https and have a path", ErrRegistration)
		}
		return &client{ID: s.owner.MetadataURL, key: s.owner.MetadataKey}, nil
	}
	c, err := load[client](ctx, s.owner.store(), clientKey(issuer))
	if err != nil || c == nil || c.ID == "" || c.expired(time.Now()) {
		return nil, err
	}
	c.kept = true
	return c, nil
}

// becomeKnown registers, or asks for a registration.
func (s *session) becomeKnown(ctx context.Context, f *found, redirect string) (*client, error) {
	switch {
	case f.server.RegistrationEndpoint != "":
		c, err := s.register(ctx, f, redirect)
		if err != nil {
			return nil, err
		}
		if err := save(ctx, s.owner.store(), clientKey(f.server.Issuer), c); err != nil {
			s.owner.logger().Warn("a registration is not kept", "issuer", f.server.Issuer, "error", err)
		}
		return c, nil
	case s.owner.PromptRegistration != nil:
		r, err := s.owner.PromptRegistration(ctx, f.server.Issuer)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRegistration, err)
		}
		if r != nil && r.ClientID != "" {
			c := &client{ID: r.ClientID, Secret: r.ClientSecret, Method: r.Method, RedirectURI: redirect, ByHand: true, key: r.Key}
			if r.Key == nil {
				c.kept = true
				_ = save(ctx, s.owner.store(), clientKey(f.server.Issuer), c)
			}
			return c, nil
		}
	}
	return nil, fmt.Errorf("%w: %.200q registers none by itself; register one there and enter it in Client.Registrations", ErrRegistration, f.server.Issuer)
}
