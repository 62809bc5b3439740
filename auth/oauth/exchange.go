package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// TokenExchange is the [Grant] for servers that call another server for their users: an authorization
// server that the program has configured exchanges the user's token for one for the MCP server (RFC 8693).
// The MCP server never receives the user's token. The token is requested before the first request to the MCP
// server, whose metadata is not used. See [Callers].
type TokenExchange struct {
	// Issuer is the authorization server.
	Issuer string
	// TokenEndpoint is its token endpoint; empty: the one in its metadata. Issuer and TokenEndpoint may
	// have private addresses. One of them is required.
	TokenEndpoint string
	// ClientID and ClientSecret identify this program at the authorization server. A public client has
	// no secret. Key replaces the secret.
	ClientID, ClientSecret string
	Key                    *SigningKey
	// Audience is the logical name of the MCP server at the authorization server. If it is empty, the request
	// has the URL of the MCP server as its resource instead.
	Audience string
	// Scopes are requested in addition to those that the MCP server requires.
	Scopes []string
	// Subject returns the token of the user. Nil: the access token of the caller, with which the request that
	// ctx belongs to was authorized; see auth.ProtectedResource.
	Subject func(ctx context.Context) (string, error)
	// SubjectType is the type of that token; empty: "urn:ietf:params:oauth:token-type:access_token".
	SubjectType string
}

// errNoCaller is the error of an exchange for a request that belongs to no authorized request of a caller. Another
// process may have received that request: access tokens are not stored, and not sent to other processes.
var errNoCaller = errors.New("no access token of a caller: the request does not belong to an authorized request over HTTP that this process has received; " +
	"send the request again, over HTTP+SSE on a new event stream; if another process has taken over a task, call its tool again")

func (g *TokenExchange) token(ctx context.Context, s *session, d *discovery, scopes []string, key *proofKey) (*token, error) {
	subjectType := g.SubjectType
	if subjectType == "" {
		subjectType = typeAccess
	}
	of := &exchanger{g.Issuer, g.TokenEndpoint, &client{ID: g.ClientID, Secret: g.ClientSecret, key: g.Key}, g.Subject, subjectType}
	form := url.Values{"requested_token_type": {typeAccess}}
	if g.Audience != "" {
		form.Set("audience", g.Audience)
	} else {
		form.Set("resource", d.resourceID())
	}
	resp, request, err := of.exchange(ctx, s, form, challenge.Union(g.Scopes, scopes), key)
	if err != nil {
		return nil, fmt.Errorf("token exchange: %w", err)
	}
	var issued struct {
		Type string `json:"issued_token_type"`
	}
	if err := decode(resp.body, &issued); err != nil {
		return nil, fmt.Errorf("%w: token exchange: %w", ErrInvalidResponse, err)
	}
	if issued.Type != typeAccess {
		return nil, fmt.Errorf("%w: token exchange: issued_token_type must be %s", ErrInvalidResponse, typeAccess)
	}
	t, err := request.read(resp)
	if err != nil {
		return nil, err
	}
	t.Refresh, t.Requested = "", scopes // the next token is for the user's token of that time
	return t, nil
}

// discovery returns what takes the place of the metadata of the MCP server.
func (g *TokenExchange) discovery(s *session) *discovery {
	issuer := g.Issuer
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
	issuer        string
	tokenEndpoint string
	client        *client
	subject       func(ctx context.Context) (string, error) // nil: the caller's token
	subjectType   string                                    // empty: the default of Enterprise
}

// exchange sends the request, and returns it with the response if that is a success.
func (x *exchanger) exchange(ctx context.Context, s *session, form url.Values, scopes []string, key *proofKey) (*response, *tokenRequest, error) {
	endpoint, methods, err := x.endpoint(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	subject, subjectType := challenge.Token(ctx), x.subjectType
	switch {
	case x.subject != nil:
		if subject, err = x.subject(ctx); err != nil {
			return nil, nil, fmt.Errorf("%w: Subject: %w", ErrDeclined, err)
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
		endpoint: endpoint, issuer: x.issuer, form: form, methods: methods, client: x.client, key: key,
		send: func(req *http.Request) (*response, error) { return s.peers.send(s.peers.direct, stepToken, req) },
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
		configured = x.issuer
	}
	provider, err := s.peers.configured(configured)
	if err != nil {
		return "", nil, err
	}
	if x.tokenEndpoint != "" {
		return x.tokenEndpoint, nil, nil
	}
	m, err := provider.authorizationServer(ctx, x.issuer)
	if err != nil {
		return "", nil, err
	}
	return m.TokenEndpoint, m.TokenAuthMethods, nil
}

// configured returns peers for an authorization server that the program has configured: its address may be
// private, and its URL must be https, or http on the loopback interface.
func (p *peers) configured(server string) (*peers, error) {
	u, err := checkURL(server)
	if err != nil {
		return nil, err
	}
	provider := *p
	provider.guarded, provider.local = provider.direct, httpurl.IsLoopback(u.Hostname())
	_, err = provider.check(server)
	return &provider, err
}
