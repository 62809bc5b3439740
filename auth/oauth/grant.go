package oauth

import (
	"context"
	"fmt"
	"net/url"
)

// Grant is a way to get tokens without a user: a [*ClientCredentials], [*Enterprise],
// [*TokenExchange] or [*Workload].
type Grant interface {
	token(ctx context.Context, s *session, d *discovery, scopes []string, key *proofKey) (*token, error)
}

// ClientCredentials is the [Grant] for programs that act on their own behalf (extension
// io.modelcontextprotocol/oauth-client-credentials). It needs an entry in
// Client.Registrations with a key or a secret.
type ClientCredentials struct{}

func (*ClientCredentials) token(ctx context.Context, s *session, d *discovery, scopes []string, key *proofKey) (*token, error) {
	c, err := s.confidentialClient(ctx, d)
	if err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	setScope(form, scopes)
	return s.tokenRequest(d, form, c, key).do(ctx, &s.asNonce)
}

// confidentialClient returns a client with a secret or key that was not registered
// dynamically.
func (s *session) confidentialClient(ctx context.Context, d *discovery) (*client, error) {
	c, err := s.existingClient(ctx, d)
	if err != nil {
		return nil, err
	}
	if c == nil || c.dynamic() || c.Secret == "" && c.key == nil {
		return nil, fmt.Errorf("%w: add a registration with a key or a secret for %.200q to Client.Registrations", ErrRegistration, d.server.Issuer)
	}
	return c, nil
}

const grantJWT = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// Workload is the [Grant] for programs that their platform identifies with a JWT (RFC
// 7523, section 2.1).
type Workload struct {
	// Assertion returns a JWT that identifies this program, for an audience: the issuer
	// of the authorization server. It must check that it trusts the audience.
	Assertion func(ctx context.Context, audience string) (string, error)
	// ClientID is the client identifier, if Client.Registrations has none. It may be
	// empty.
	ClientID string
}

func (g *Workload) token(ctx context.Context, s *session, d *discovery, scopes []string, key *proofKey) (*token, error) {
	assertion, err := g.Assertion(ctx, d.server.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: Workload.Assertion: %w", ErrDeclined, err)
	}
	c := s.owner.configured(d.server.Issuer, s.server)
	if c == nil {
		c = &client{ID: g.ClientID, Method: methodNone}
	}
	form := url.Values{"grant_type": {grantJWT}, "assertion": {assertion}}
	setScope(form, scopes)
	return s.tokenRequest(d, form, c, key).do(ctx, &s.asNonce)
}

// Enterprise is the [Grant] for users whose organization manages access to MCP servers
// (extension io.modelcontextprotocol/enterprise-managed-authorization): the identity
// provider issues a grant for the authorization server of the MCP server. It needs an
// entry in Client.Registrations for that authorization server.
type Enterprise struct {
	// Issuer is the identity provider.
	Issuer string
	// TokenEndpoint is the token endpoint of the identity provider; empty: the one in
	// its metadata. Issuer and TokenEndpoint may have private addresses.
	TokenEndpoint string
	// ClientID and ClientSecret identify this program at the identity provider. A public
	// client has no secret. Key replaces the secret.
	ClientID, ClientSecret string
	Key                    *SigningKey
	// Subject returns the token that the identity provider issued when the user logged
	// in. Nil: the access token of the caller, see [TokenExchange].
	Subject func(ctx context.Context) (string, error)
	// SubjectType is the type of that token; empty:
	// "urn:ietf:params:oauth:token-type:id_token", or, if Subject is nil,
	// "urn:ietf:params:oauth:token-type:access_token".
	SubjectType string
}

const (
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeIDToken   = "urn:ietf:params:oauth:token-type:id_token"
	typeIDJAG     = "urn:ietf:params:oauth:token-type:id-jag"
	typeAccess    = "urn:ietf:params:oauth:token-type:access_token"
)

func (g *Enterprise) token(ctx context.Context, s *session, d *discovery, scopes []string, key *proofKey) (*token, error) {
	c, err := s.confidentialClient(ctx, d)
	if err != nil {
		return nil, err
	}
	assertion, err := g.exchange(ctx, s, d, scopes, c)
	if err != nil {
		return nil, fmt.Errorf("identity provider: %w", err)
	}
	form := url.Values{"grant_type": {grantJWT}, "assertion": {assertion}}
	setScope(form, scopes)
	return s.tokenRequest(d, form, c, key).do(ctx, &s.asNonce)
}

// exchange exchanges the user's token for a grant at the identity provider (RFC 8693).
func (g *Enterprise) exchange(ctx context.Context, s *session, d *discovery, scopes []string, c *client) (string, error) {
	of := &exchanger{g.Issuer, g.TokenEndpoint, &client{ID: g.ClientID, Secret: g.ClientSecret, key: g.Key}, g.Subject, g.SubjectType}
	resp, _, err := of.exchange(ctx, s, url.Values{
		"requested_token_type": {typeIDJAG},
		"audience":             {d.server.Issuer},
		"resource":             {d.resourceID()},
	}, scopes, nil)
	if err != nil {
		return "", err
	}
	jwt, err := readIDJAG(resp.body, idJAG{issuer: g.Issuer, audience: d.server.Issuer, resource: d.resourceID(), client: c.ID})
	return jwt, resp.secrets.CleanError(err)
}
