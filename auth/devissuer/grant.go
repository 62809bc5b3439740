package devissuer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/digest"
)

// grant is what a user allowed a client: the tokens that descend from one consent.
type grant struct {
	client, user, resource string
	scopes                 []string
	key                    string // thumbprint of the one that its tokens are bound to (RFC 9449); empty: bearer tokens
	revoked                bool
}

// bind has the tokens of a grant be bound to a key from now on.
func (i *Issuer) bind(g *grant, key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	g.key = key
}

func (i *Issuer) boundTo(g *grant) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return g.key
}

// refresh is a refresh token. Used ones are kept until they expire, for to be recognised: whoever
// brings one again has a copy, and the whole grant ends (RFC 9700, section 4.14.2).
type refresh struct {
	grant *grant
	used  bool
}

// claims are those of an access token (RFC 9068, section 2.2).
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Client   string `json:"client_id"`
	Scope    string `json:"scope,omitempty"`
	ID       string `json:"jti"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`

	Confirmation *confirmation `json:"cnf,omitempty"`
}

// confirmation names the key that a token is bound to (RFC 9449, section 6.1).
type confirmation struct {
	Thumbprint string `json:"jkt"`
}

// tokens is the answer of the token endpoint (RFC 6749, section 5.1).
type tokens struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int64  `json:"expires_in"`
	Refresh string `json:"refresh_token,omitempty"`
	Scope   string `json:"scope,omitempty"`
}

// Token returns an access token for user, as the token endpoint would give it to a client called
// "devissuer", without anybody's consent. The resource is the server that the token is for.
func (i *Issuer) Token(user, resource string, scopes ...string) (string, error) {
	if err := checkResource(resource); err != nil {
		return "", fmt.Errorf("devissuer: resource %q: %w", resource, err)
	}
	if user == "" || slices.ContainsFunc(scopes, func(scope string) bool { return !isScope(scope) }) {
		return "", fmt.Errorf("devissuer: a token needs a user and scopes of one word each")
	}
	return i.access(&grant{client: "devissuer", user: user, resource: resource, scopes: scopes}, scopes)
}

// access returns a signed access token.
func (i *Issuer) access(g *grant, scopes []string) (string, error) {
	now := time.Now()
	said := claims{
		Issuer: i.url, Subject: g.user, Audience: g.resource, Client: g.client, Scope: strings.Join(scopes, " "),
		ID: secret(), IssuedAt: now.Unix(), Expires: now.Add(i.config.AccessTokenLifetime).Unix(),
	}
	if key := i.boundTo(g); key != "" {
		said.Confirmation = &confirmation{key}
	}
	return i.sign(said)
}

// tokens returns an access token for some of a grant's scopes, and a refresh token for all of them.
func (i *Issuer) tokens(g *grant, scopes []string, renewable bool) (tokens, error) {
	access, err := i.access(g, scopes)
	if err != nil {
		return tokens{}, err
	}
	given := tokens{
		Access: access, Type: "Bearer", Expires: int64(i.config.AccessTokenLifetime / time.Second),
		Scope: strings.Join(scopes, " "),
	}
	if i.boundTo(g) != "" {
		given.Type = "DPoP"
	}
	if renewable {
		given.Refresh = secret()
		i.mu.Lock()
		i.refreshes.put(digest.Of(given.Refresh), &refresh{grant: g}, time.Now().Add(i.config.RefreshTokenLifetime))
		i.mu.Unlock()
	}
	return given, nil
}
