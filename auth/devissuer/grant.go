package devissuer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/digest"
)

// grant is a consent of a user for a client. All tokens that derive from it share it.
type grant struct {
	client, user, resource string
	scopes                 []string
	thumbprint             string // of the key that its tokens are bound to (RFC 9449); empty: bearer tokens
	revoked                bool
}

// bind sets the key of the next tokens of a grant.
func (i *Issuer) bind(g *grant, thumbprint string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	g.thumbprint = thumbprint
}

// boundTo returns the thumbprint of the key of a grant.
func (i *Issuer) boundTo(g *grant) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return g.thumbprint
}

// refresh is a refresh token. Used ones are stored until they expire: a second use means that
// the token was copied, and revokes the grant (RFC 9700, section 4.14.2).
type refresh struct {
	grant *grant
	used  bool
}

// claims are the claims of an access token (RFC 9068, section 2.2).
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

// confirmation identifies the key that a token is bound to (RFC 9449, section 6.1).
type confirmation struct {
	Thumbprint string `json:"jkt"`
}

// tokens is a response of the token endpoint (RFC 6749, section 5.1).
type tokens struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int64  `json:"expires_in"`
	Refresh string `json:"refresh_token,omitempty"`
	Scope   string `json:"scope,omitempty"`
}

// Token returns an access token of user for resource, the URL of a server. Its client is
// "devissuer". Token needs no consent.
func (i *Issuer) Token(user, resource string, scopes ...string) (string, error) {
	if err := checkResource(resource); err != nil {
		return "", fmt.Errorf("devissuer: resource %q: %w", resource, err)
	}
	if user == "" || slices.ContainsFunc(scopes, func(scope string) bool { return !isScope(scope) }) {
		return "", fmt.Errorf("devissuer: cannot issue a token: user is empty, or one of the scopes %q is invalid", scopes)
	}
	return i.access(&grant{client: "devissuer", user: user, resource: resource, scopes: scopes}, scopes)
}

// access returns a signed access token.
func (i *Issuer) access(g *grant, scopes []string) (string, error) {
	now := time.Now()
	c := claims{
		Issuer: i.url, Subject: g.user, Audience: g.resource, Client: g.client, Scope: strings.Join(scopes, " "),
		ID: secret(), IssuedAt: now.Unix(), Expires: now.Add(i.config.AccessTokenLifetime).Unix(),
	}
	if thumbprint := i.boundTo(g); thumbprint != "" {
		c.Confirmation = &confirmation{thumbprint}
	}
	return i.sign(c)
}

// tokens returns an access token for some scopes of a grant and, if renewable, a refresh
// token for all of them.
func (i *Issuer) tokens(g *grant, scopes []string, renewable bool) (tokens, error) {
	access, err := i.access(g, scopes)
	if err != nil {
		return tokens{}, err
	}
	issued := tokens{
		Access: access, Type: "Bearer", Expires: int64(i.config.AccessTokenLifetime / time.Second),
		Scope: strings.Join(scopes, " "),
	}
	if i.boundTo(g) != "" {
		issued.Type = "DPoP"
	}
	if renewable {
		issued.Refresh = secret()
		i.mu.Lock()
		i.refreshes.put(digest.Of(issued.Refresh), &refresh{grant: g}, time.Now().Add(i.config.RefreshTokenLifetime))
		i.mu.Unlock()
	}
	return issued, nil
}
