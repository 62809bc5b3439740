package oauth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// Grant is a way to get tokens without a user: a [*ClientCredentials], [*Enterprise]
// or [*Workload].
type Grant interface {
	token(ctx context.Context, s *session, f *found, scopes []string, proof *proofKey) (*token, error)
}

// ClientCredentials is for programs that act for themselves (extension
// io.modelcontextprotocol/oauth-client-credentials). The client is one of
// Client.Registrations, with a key or a secret.
type ClientCredentials struct{}

func (*ClientCredentials) token(ctx context.Context, s *session, f *found, scopes []string, proof *proofKey) (*token, error) {
	c, err := s.confidential(ctx, f)
	if err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	setScope(form, scopes)
	return s.request(f, form, c, proof).do(ctx, &s.asNonce)
}

// confidential is a client that has been registered by hand, as grants without a user
// need it.
func (s *session) confidential(ctx context.Context, f *found) (*client, error) {
	c, err := s.registered(ctx, f)
	if err != nil {
		return nil, err
	}
	if c == nil || c.dynamic() || c.Secret == "" && c.key == nil {
		return nil, fmt.Errorf("%w: Client.Registrations has none with a key or a secret for %.200q", ErrRegistration, f.server.Issuer)
	}
	return c, nil
}

const grantJWT = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// Workload is for programs whose platform says who they are (RFC 7523, section 2.1).
type Workload struct {
	// Assertion returns a JWT about this program, for an audience: the issuer of the
	// authorization server. Only give it to one that should have it.
	Assertion func(ctx context.Context, audience string) (string, error)
	// ClientID is sent along, if it is not empty and Client.Registrations has no client.
	ClientID string
}

func (g *Workload) token(ctx context.Context, s *session, f *found, scopes []string, proof *proofKey) (*token, error) {
	assertion, err := g.Assertion(ctx, f.server.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: the assertion: %w", ErrDeclined, err)
	}
	c := s.owner.preRegistered(f.server.Issuer, s.server)
	if c == nil {
		c = &client{ID: g.ClientID, Method: methodNone}
	}
	form := url.Values{"grant_type": {grantJWT}, "assertion": {assertion}}
	setScope(form, scopes)
	return s.request(f, form, c, proof).do(ctx, &s.asNonce)
}

// Enterprise is for users whose organization decides what they may call (extension
// io.modelcontextprotocol/enterprise-managed-authorization): its identity provider
// gives out a grant for the MCP server's authorization server. The client there is one
// of Client.Registrations.
type Enterprise struct {
	// Issuer is the identity provider; its metadata says where its token endpoint is,
	// unless TokenEndpoint does. Both are trusted, as what the program itself says.
	Issuer        string
	TokenEndpoint string
	// ClientID and ClientSecret are the client at the identity provider; a public one
	// has no secret. Key takes the place of the secret.
	ClientID, ClientSecret string
	Key                    *SigningKey
	// Subject returns what the identity provider has given out when the user logged in.
	Subject func(ctx context.Context) (string, error)
	// SubjectType is what kind of token that is; default "urn:ietf:params:oauth:token-type:id_token".
	SubjectType string
}

const (
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeIDToken   = "urn:ietf:params:oauth:token-type:id_token"
	typeIDJAG     = "urn:ietf:params:oauth:token-type:id-jag"
)

func (g *Enterprise) token(ctx context.Context, s *session, f *found, scopes []string, proof *proofKey) (*token, error) {
	c, err := s.confidential(ctx, f)
	if err != nil {
		return nil, err
	}
	assertion, err := g.exchange(ctx, s, f, scopes, c)
	if err != nil {
		return nil, fmt.Errorf("the identity provider: %w", err)
	}
	form := url.Values{"grant_type": {grantJWT}, "assertion": {assertion}}
	setScope(form, scopes)
	return s.request(f, form, c, proof).do(ctx, &s.asNonce)
}

// exchange has the identity provider make a grant of what it said about the user
// (RFC 8693).
func (g *Enterprise) exchange(ctx context.Context, s *session, f *found, scopes []string, c *client) (string, error) {
	endpoint, methods, err := g.endpoint(ctx, s)
	if err != nil {
		return "", err
	}
	subject, err := g.Subject(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: the user's identity: %w", ErrDeclined, err)
	}
	kind := g.SubjectType
	if kind == "" {
		kind = typeIDToken
	}
	form := url.Values{
		"grant_type":           {grantExchange},
		"requested_token_type": {typeIDJAG},
		"audience":             {f.server.Issuer},
		"resource":             {f.resourceID()},
		"subject_token":        {subject},
		"subject_token_type":   {kind},
	}
	setScope(form, scopes)
	r := &tokenRequest{
		endpoint: endpoint, issuer: g.Issuer, form: form, methods: methods,
		client: &client{ID: g.ClientID, Secret: g.ClientSecret, key: g.Key},
		send:   func(req *http.Request) (*reply, error) { return exchange(s.web.plain, req) },
	}
	reply, secrets, err := r.once(ctx, "")
	if err != nil {
		return "", err
	}
	if reply.status != http.StatusOK {
		return "", reported("token", reply, secrets)
	}
	return readIDJAG(reply.body, idJAG{issuer: g.Issuer, audience: f.server.Issuer, resource: f.resourceID(), client: c.ID})
}

// endpoint is where the identity provider exchanges tokens. The program has named it,
// so it may be anywhere; it must be as secure as any.
func (g *Enterprise) endpoint(ctx context.Context, s *session) (endpoint string, methods []string, err error) {
	idp := *s.web
	idp.guarded = idp.plain
	named := g.TokenEndpoint
	if named == "" {
		named = g.Issuer
	}
	u, err := checkURL(named)
	if err != nil {
		return "", nil, err
	}
	idp.local = httpurl.IsLoopback(u.Hostname())
	if _, err := idp.check(named); err != nil {
		return "", nil, err
	}
	if g.TokenEndpoint != "" {
		return g.TokenEndpoint, nil, nil
	}
	m, err := idp.authorizationServer(ctx, g.Issuer)
	if err != nil {
		return "", nil, err
	}
	return m.TokenEndpoint, m.TokenAuthMethods, nil
}
