package oauth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
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

func (*ClientCredentials) token(ctx context.Context, s *session, d *discovery, scopes []string,
	key *proofKey) (*token, error) {
	c, err := s.confidentialClient(ctx, d)
	if err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	setScope(form, scopes)
	return s.tokenRequest(d, form, c, key, s.owner.settingsAfter(nil)).do(ctx, &s.asNonce)
}

// confidentialClient returns a client with a secret or key that was not registered
// dynamically.
func (s *session) confidentialClient(ctx context.Context, d *discovery) (*client, error) {
	c, err := s.existingClient(ctx, d)
	if err != nil {
		return nil, err
	}
	if c == nil || c.dynamic() || c.Secret == "" && c.key == nil {
		return nil, fmt.Errorf("%w: add a registration with a key or a secret for %.200q to Client.Registrations",
			ErrRegistration, d.server.Issuer)
	}
	return c, nil
}

const grantJWT = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// Workload is the [Grant] for programs that their platform identifies with a JWT (RFC
// 7523, section 2.1). An entry in Client.Registrations adds a client identifier to the requests, if the authorization
// server requires one.
type Workload struct {
	// Assertion returns a JWT that identifies this program, for an audience: the issuer
	// of the authorization server. It must check that it trusts the audience.
	Assertion func(ctx context.Context, audience string) (string, error)
}

func (g *Workload) token(ctx context.Context, s *session, d *discovery, scopes []string,
	key *proofKey) (*token, error) {
	assertion, err := g.Assertion(ctx, d.server.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: Workload.Assertion: %w", errDeclined, err)
	}
	c := s.owner.configured(d.server.Issuer, s.server)
	if c == nil {
		c = &client{Method: methodNone}
	}
	form := url.Values{"grant_type": {grantJWT}, "assertion": {assertion}}
	setScope(form, scopes)
	return s.tokenRequest(d, form, c, key, s.owner.settingsAfter(nil)).do(ctx, &s.asNonce)
}

// Enterprise is the [Grant] for users whose organization manages access to MCP servers (extension
// io.modelcontextprotocol/enterprise-managed-authorization): the identity provider issues a grant for the authorization
// server of the MCP server. Client.Registrations must contain an entry for that authorization server.
type Enterprise struct {
	// Registration identifies this program at the identity provider, its Issuer. A public client has no secret.
	Registration Registration
	// TokenEndpoint is the token endpoint of the identity provider; empty: the one in
	// its metadata. The issuer and TokenEndpoint may have private addresses.
	TokenEndpoint string
	// Subject returns the token that the identity provider issued when the user logged in. Nil means the access token
	// of the caller; see [TokenExchange].
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

func (g *Enterprise) token(ctx context.Context, s *session, d *discovery, scopes []string,
	key *proofKey) (*token, error) {
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
	return s.tokenRequest(d, form, c, key, s.owner.settingsAfter(nil)).do(ctx, &s.asNonce)
}

// exchange exchanges the user's token for a grant at the identity provider (RFC 8693).
func (g *Enterprise) exchange(ctx context.Context, s *session, d *discovery, scopes []string,
	c *client) (string, error) {
	of := &exchanger{g.Registration, g.TokenEndpoint, g.Subject, g.SubjectType}
	resp, _, err := of.exchange(ctx, s, url.Values{
		"requested_token_type": {typeIDJAG},
		"audience":             {d.server.Issuer},
		"resource":             {d.resourceID()},
	}, scopes, nil)
	if err != nil {
		return "", err
	}
	jwt, err := readIDJAG(resp.body, idJAG{issuer: g.Registration.Issuer, audience: d.server.Issuer,
		resource: d.resourceID(), client: c.ID})
	return jwt, resp.secrets.CleanError(err)
}

// TokenExchange is the [Grant] for servers that call another MCP server for their users: a configured authorization
// server exchanges the user's token for a token of the other server (RFC 8693), which never receives the user's token.
// The token is requested before the first request, without the metadata of the MCP server. See callers.Clients.
type TokenExchange struct {
	// Registration identifies this program at the authorization server, its Issuer. A public client has no secret.
	Registration Registration
	// TokenEndpoint is the token endpoint of the authorization server; empty: the one in its metadata. The issuer
	// and TokenEndpoint may have private addresses. One of them is required.
	TokenEndpoint string
	// Audience is the logical name of the MCP server at the authorization server. If it is empty, the request names the
	// URL of the MCP server as its resource instead, unless Client.NoResource is set.
	Audience string
	// Scopes are requested in addition to those that the MCP server requires.
	Scopes []string
	// Subject returns the token of the user. Nil means the access token that authorized the request of ctx; see
	// auth.ProtectedResource.
	Subject func(ctx context.Context) (string, error)
	// SubjectType is the type of that token; empty: "urn:ietf:params:oauth:token-type:access_token".
	SubjectType string
}

// errNoCaller is the error of an exchange if the request does not belong to an authorized request of a caller.
// Another process may have received the caller's request: access tokens are neither stored nor sent to other
// processes.
var errNoCaller = errors.New("no access token of a caller: the request does not belong to an authorized request over " +
	"HTTP that this process has received; send the request again; if another process has taken over a task, call its " +
	"tool again")

func (g *TokenExchange) token(ctx context.Context, s *session, d *discovery, scopes []string,
	key *proofKey) (*token, error) {
	subjectType := g.SubjectType
	if subjectType == "" {
		subjectType = typeAccess
	}
	of := &exchanger{g.Registration, g.TokenEndpoint, g.Subject, subjectType}
	form, with := url.Values{"requested_token_type": {typeAccess}}, s.owner.settingsAfter(nil)
	if g.Audience != "" {
		form.Set("audience", g.Audience)
	} else {
		with.setResource(form, d.resourceID())
	}
	resp, request, err := of.exchange(ctx, s, form, challenge.Union(g.Scopes, scopes), key)
	if form.Has("resource") {
		err = ofResource(err)
	}
	if err != nil {
		return nil, fmt.Errorf("token exchange: %w", err)
	}
	var issued struct {
		Type string `json:"issued_token_type"`
	}
	if err := decode(resp.body, &issued); err != nil {
		return nil, fmt.Errorf("%w: token exchange: %w", errInvalidResponse, err)
	}
	if issued.Type != typeAccess {
		return nil, fmt.Errorf("%w: token exchange: issued_token_type must be %s", errInvalidResponse, typeAccess)
	}
	t, err := request.read(resp)
	if err != nil {
		return nil, err
	}
	t.Refresh, t.Requested, t.Settings = "", scopes, with // next time, the user's token of then is exchanged
	return t, nil
}

// discovery returns a discovery that takes the place of the MCP server's metadata.
func (g *TokenExchange) discovery(s *session) *discovery {
	issuer := g.Registration.Issuer
	if issuer == "" {
		issuer = g.TokenEndpoint
	}
	return &discovery{resource: &resourceMetadata{Resource: s.server}, server: &serverMetadata{Issuer: issuer}}
}

// applies reports whether a token can be requested for the request of ctx.
func (g *TokenExchange) applies(ctx context.Context) bool {
	return g.Subject != nil || challenge.Token(ctx) != ""
}

// exchanger exchanges the token of a user at an authorization server that the program has configured.
type exchanger struct {
	registration  Registration
	tokenEndpoint string
	subject       func(ctx context.Context) (string, error) // nil: the caller's token
	subjectType   string                                    // empty: the default of Enterprise
}

// exchange sends the request. If it succeeds, exchange returns the request and the response.
func (x *exchanger) exchange(ctx context.Context, s *session, form url.Values, scopes []string,
	key *proofKey) (*response, *tokenRequest, error) {
	endpoint, methods, err := x.endpoint(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	subject, subjectType := challenge.Token(ctx), x.subjectType
	switch {
	case x.subject != nil:
		if subject, err = x.subject(ctx); err != nil {
			return nil, nil, fmt.Errorf("%w: Subject: %w", errDeclined, err)
		}
		if subjectType == "" {
			subjectType = typeIDToken
		}
	case subject == "":
		return nil, nil, fmt.Errorf("%w: %w", ErrInteraction, errNoCaller)
	case subjectType == "":
		subjectType = typeAccess
	}
	form.Set("grant_type", grantExchange)
	form.Set("subject_token", subject)
	form.Set("subject_token_type", subjectType)
	setScope(form, scopes)
	r := &tokenRequest{
		endpoint: endpoint, issuer: x.registration.Issuer, form: form, methods: methods,
		client: x.registration.client(), key: key,
		send: func(req *http.Request) (*response, error) { return s.peers.exchange(s.peers.direct, req) },
	}
	resp, err := r.once(ctx, s.asNonce)
	if err == nil {
		err = resp.failure("token")
	}
	return resp, r, err
}

// endpoint returns the token endpoint and its authentication methods. The program has configured the
// authorization server, so its address may be private. The URL must be secure.
func (x *exchanger) endpoint(ctx context.Context, s *session) (endpoint string, methods []string, err error) {
	configured := x.tokenEndpoint
	if configured == "" {
		configured = x.registration.Issuer
	}
	provider, err := s.peers.configured(configured)
	if err != nil {
		return "", nil, err
	}
	if x.tokenEndpoint != "" {
		return x.tokenEndpoint, nil, nil
	}
	m, err := provider.authorizationServer(ctx, x.registration.Issuer)
	if err != nil {
		return "", nil, err
	}
	return m.TokenEndpoint, m.TokenAuthMethods, nil
}

// configured returns peers for an authorization server that the program has configured: its address may be
// private, and its URL must be https, or http on the loopback interface.
func (p *peers) configured(server string) (*peers, error) {
	u, err := httpurl.Parse(server)
	if err != nil {
		return nil, err
	}
	provider := *p
	provider.guarded, provider.local = provider.direct, httpurl.IsLoopback(u.Hostname())
	_, err = provider.check(server)
	return &provider, err
}

// idJAG contains the required claims of an identity assertion authorization grant (ID-JAG).
type idJAG struct {
	issuer   string // the identity provider; empty: not checked
	audience string
	resource string
	client   string
}

const idJAGType = "oauth-id-jag+jwt"

// readIDJAG reads the grant in the response of a token exchange, and checks that it is
// for the right authorization server, resource and client. The authorization server
// verifies the signature (extension enterprise-managed-authorization, sections 4.2 and
// 4.3).
func readIDJAG(body []byte, want idJAG) (string, error) {
	var exchanged struct {
		Access string `json:"access_token"`
		Issued string `json:"issued_token_type"`
		Type   string `json:"token_type"`
	}
	if err := decode(body, &exchanged); err != nil {
		return "", fmt.Errorf("%w: token exchange: %w", errInvalidResponse, err)
	}
	if !validToken(exchanged.Access) {
		return "", fmt.Errorf("%w: token exchange: access_token is missing or invalid", errInvalidResponse)
	}
	if exchanged.Issued != typeIDJAG {
		return "", fmt.Errorf("%w: token exchange: issued_token_type must be %s", errInvalidResponse, typeIDJAG)
	}
	if !strings.EqualFold(exchanged.Type, "N_A") {
		return "", fmt.Errorf("%w: token exchange: token_type must be N_A", errInvalidResponse)
	}
	if err := want.check(exchanged.Access); err != nil {
		return "", fmt.Errorf("%w: ID-JAG: %w", errInvalidResponse, err)
	}
	return exchanged.Access, nil
}

// check checks the header and the claims of a JWT.
func (want idJAG) check(jwt string) error {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 || parts[2] == "" {
		return errors.New("it must be a signed JWT")
	}
	var header struct {
		Type      string `json:"typ"`
		Algorithm string `json:"alg"`
	}
	var claims struct {
		Issuer   string         `json:"iss"`
		Subject  string         `json:"sub"`
		Audience jsontext.Value `json:"aud"`
		Resource jsontext.Value `json:"resource"`
		Client   string         `json:"client_id"`
		Expires  float64        `json:"exp"`
	}
	for i, into := range []any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || decode(raw, into) != nil {
			return errors.New("cannot decode its header or its claims")
		}
	}
	switch {
	case !strings.EqualFold(header.Type, idJAGType):
		return fmt.Errorf("typ must be %s, got %.32q", idJAGType, header.Type)
	case header.Algorithm == "" || strings.EqualFold(header.Algorithm, "none"):
		return errors.New("it must be signed")
	case want.issuer != "" && claims.Issuer != want.issuer:
		return fmt.Errorf("iss must be %.200q, got %.200q", want.issuer, claims.Issuer)
	case !isOnly(claims.Audience, want.audience):
		return fmt.Errorf("aud must be only %.200q", want.audience)
	case !isOnly(claims.Resource, want.resource):
		return fmt.Errorf("resource must be only %.200q", want.resource)
	case claims.Client != want.client:
		return fmt.Errorf("client_id must be %.200q, got %.200q", want.client, claims.Client)
	case claims.Subject == "":
		return errors.New("sub is missing")
	case time.Now().After(time.Unix(int64(min(max(claims.Expires, 0), 1<<40)), 0)):
		return errors.New("it has expired")
	}
	return nil
}

// isOnly reports whether a claim is want, or an array with want as its only element.
func isOnly(claim jsontext.Value, want string) bool {
	var one string
	if decode(claim, &one) == nil {
		return one == want
	}
	var many []string
	return decode(claim, &many) == nil && len(many) == 1 && many[0] == want
}
