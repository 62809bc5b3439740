package devissuer

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/digest"
)

const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
	grantClient  = "client_credentials"
)

// serveToken is the token endpoint.
func (i *Issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	c, failed := i.readForm(r)
	if failed != nil {
		failed.write(w)
		return
	}
	thumbprint, failed := i.proofKey(r)
	if failed != nil {
		failed.write(w)
		return
	}
	var issued tokens
	grantType := r.PostForm.Get("grant_type")
	switch grantType {
	case grantCode:
		issued, failed = i.exchangeCode(r, c, thumbprint)
	case grantRefresh:
		issued, failed = i.refreshTokens(r, c, thumbprint)
	case grantClient:
		issued, failed = i.clientCredentials(r, c, thumbprint)
	default:
		grantType = "unknown" // for the log: the value could contain anything
		failed = fail("unsupported_grant_type", "grant_type must be "+grantCode+", "+grantRefresh+" or "+grantClient)
	}
	if failed != nil {
		i.logger.Info("token request failed", "client", c.ID, "grant", grantType, "error", failed.Code, "reason",
			failed.Description)
		failed.write(w)
		return
	}
	i.logger.Info("tokens issued", "client", c.ID, "grant", grantType, "scope", issued.Scope)
	w.Header().Set("Pragma", "no-cache") // RFC 6749, section 5.1
	writeJSON(w, http.StatusOK, issued)
}

// proofKey returns the thumbprint of the key of the DPoP proof, "" without a proof.
func (i *Issuer) proofKey(r *http.Request) (string, *failure) {
	if len(r.Header.Values("DPoP")) == 0 {
		return "", nil
	}
	thumbprint, err := i.proofs.VerifyTokenRequest(r, i.url+r.URL.Path)
	var invalid *auth.InvalidTokenError
	switch {
	case errors.As(err, &invalid):
		return "", fail("invalid_dpop_proof", "DPoP proof: "+invalid.Reason)
	case err != nil:
		return "", fail("temporarily_unavailable", "DPoP proof: "+err.Error())
	}
	return thumbprint, nil
}

// readForm reads the form of a client, and authenticates the client.
func (i *Issuer) readForm(r *http.Request) (*Client, *failure) {
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "application/x-www-form-urlencoded" {
		return nil, fail("invalid_request", "the body must be application/x-www-form-urlencoded")
	}
	if err := r.ParseForm(); err != nil {
		return nil, fail("invalid_request", "cannot parse the form")
	}
	for name, values := range r.PostForm {
		if len(values) > 1 && name != "resource" {
			return nil, fail("invalid_request", name+" is repeated")
		}
	}
	return i.authenticate(r)
}

// exchangeCode issues tokens for an authorization code. A second use of the code revokes the
// tokens (RFC 6749, section 4.1.2): the first user may have stolen the code.
func (i *Issuer) exchangeCode(r *http.Request, c *Client, thumbprint string) (tokens, *failure) {
	i.mu.Lock()
	stored, found := i.codes.get(digest.Of(r.PostForm.Get("code")))
	reused := found && stored.used
	if found {
		stored.used = true
		stored.grant.revoked = stored.grant.revoked || reused
	}
	i.mu.Unlock()
	switch {
	case !found:
		return tokens{}, fail("invalid_grant", "the code is unknown or has expired")
	case reused:
		return tokens{}, fail("invalid_grant", "the code was used before: its tokens are revoked")
	case stored.client.ID != c.ID:
		return tokens{}, fail("invalid_grant", "the code was issued to another client")
	case stored.redirectURI != r.PostForm.Get("redirect_uri"):
		return tokens{}, fail("invalid_grant", "redirect_uri differs from that of the authorization request")
	case !matchesChallenge(r.PostForm.Get("code_verifier"), stored.challenge):
		return tokens{}, fail("invalid_grant", "code_verifier does not match code_challenge")
	case stored.thumbprint != "" && stored.thumbprint != thumbprint:
		return tokens{}, fail("invalid_grant", "the DPoP proof must be signed with the key of dpop_jkt")
	}
	if failed := checkSameResource(r, stored.grant); failed != nil {
		return tokens{}, failed
	}
	i.bind(stored.grant, thumbprint)
	return i.issue(stored.grant, stored.grant.scopes, true)
}

// matchesChallenge implements RFC 7636, section 4.6.
func matchesChallenge(verifier, challenge string) bool {
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(digest.Of(verifier)), []byte(challenge)) == 1
}

// checkSameResource returns a failure if a request names another resource than the grant.
func checkSameResource(r *http.Request, g *grant) *failure {
	if requested := r.PostForm["resource"]; len(requested) > 1 || len(requested) == 1 && requested[0] != g.resource {
		return fail("invalid_target", "resource differs from that of the grant")
	}
	return nil
}

// refreshTokens issues an access token for a refresh token, which it replaces.
func (i *Issuer) refreshTokens(r *http.Request, c *Client, thumbprint string) (tokens, *failure) {
	i.mu.Lock()
	stored, found := i.refreshes.get(digest.Of(r.PostForm.Get("refresh_token")))
	i.mu.Unlock()
	// A failed request does not invalidate the refresh token.
	switch {
	case !found || stored.grant.client != c.ID:
		return tokens{}, fail("invalid_grant",
			"the refresh token is unknown, has expired, or belongs to another client")
	case c.Secret == "" && i.boundTo(stored.grant) != thumbprint: // not for confidential clients (RFC 9449, section 5)
		return tokens{}, fail("invalid_grant", "the refresh token is bound to another key")
	}
	if failed := checkSameResource(r, stored.grant); failed != nil {
		return tokens{}, failed
	}
	scopes := stored.grant.scopes
	if r.PostForm.Has("scope") { // a subset for this access token
		var failed *failure
		if scopes, failed = i.scopes(r.PostForm.Get("scope")); failed != nil {
			return tokens{}, failed
		}
		if slices.ContainsFunc(scopes, func(scope string) bool {
			return !slices.Contains(stored.grant.scopes, scope)
		}) {
			return tokens{}, fail("invalid_scope", "scope must not exceed the granted scopes")
		}
	}
	i.mu.Lock()
	reused := stored.used
	stored.used = true
	stored.grant.revoked = stored.grant.revoked || reused
	revoked := stored.grant.revoked
	i.mu.Unlock()
	switch {
	case reused:
		return tokens{}, fail("invalid_grant", "the refresh token was used before: all tokens of the grant are revoked")
	case revoked:
		return tokens{}, fail("invalid_grant", "the grant is revoked")
	}
	i.bind(stored.grant, thumbprint)
	return i.issue(stored.grant, scopes, true)
}

// clientCredentials issues a token to a confidential client on its own behalf.
func (i *Issuer) clientCredentials(r *http.Request, c *Client, thumbprint string) (tokens, *failure) {
	if c.Secret == "" {
		return tokens{}, fail("unauthorized_client", "a public client cannot use client_credentials")
	}
	resource, failed := resourceOf(r.PostForm["resource"])
	if failed != nil {
		return tokens{}, failed
	}
	scopes, failed := i.scopes(r.PostForm.Get("scope"))
	if failed != nil {
		return tokens{}, failed
	}
	return i.issue(&grant{client: c.ID, user: c.ID, resource: resource, scopes: scopes, thumbprint: thumbprint}, scopes,
		false)
}

// issue issues tokens for a grant.
func (i *Issuer) issue(g *grant, scopes []string, renewable bool) (tokens, *failure) {
	issued, err := i.tokens(g, scopes, renewable)
	if err != nil {
		i.logger.Error("cannot sign a token", "error", err)
		return tokens{}, fail("server_error", "cannot sign the token")
	}
	return issued, nil
}

// serveRevoke revokes a grant (RFC 7009). Its access tokens remain valid until they expire.
func (i *Issuer) serveRevoke(w http.ResponseWriter, r *http.Request) {
	c, failed := i.readForm(r)
	if failed != nil {
		failed.write(w)
		return
	}
	i.mu.Lock()
	if stored, found := i.refreshes.get(digest.Of(r.PostForm.Get("token"))); found && stored.grant.client == c.ID {
		stored.grant.revoked = true
	}
	i.mu.Unlock()
	w.WriteHeader(http.StatusOK) // also for unknown tokens (RFC 7009, section 2.2)
}

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
		return "", fmt.Errorf("devissuer: cannot issue a token: user is empty, or one of the scopes %q is invalid",
			scopes)
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
		i.refreshes.put(digest.Of(issued.Refresh), &refresh{grant: g}, time.Now().Add(refreshTokenLifetime))
		i.mu.Unlock()
	}
	return issued, nil
}

// expiring is a map with a size limit whose entries expire. At the limit, put removes the
// oldest entry. The caller must hold a lock. Keys that are secrets are stored as digests, so
// that the time of a lookup does not depend on the secret.
type expiring[T any] struct {
	max     int
	entries map[string]entry[T]
	order   []string // keys, oldest first; those that were removed remain until they are the oldest
}

type entry[T any] struct {
	value T
	until time.Time // zero: no expiry
}

func newExpiring[T any](limit int) *expiring[T] {
	return &expiring[T]{max: limit, entries: make(map[string]entry[T])}
}

// put adds an entry with a new key.
func (x *expiring[T]) put(key string, value T, until time.Time) {
	for len(x.order) >= x.max {
		delete(x.entries, x.order[0])
		x.order = x.order[1:]
	}
	x.entries[key] = entry[T]{value, until}
	x.order = append(x.order, key)
}

func (x *expiring[T]) get(key string) (value T, found bool) {
	stored, found := x.entries[key]
	if found && !stored.until.IsZero() && !time.Now().Before(stored.until) {
		delete(x.entries, key)
		return value, false
	}
	return stored.value, found
}

func (x *expiring[T]) remove(key string) { delete(x.entries, key) }

// secret returns a random text with at least 128 bits.
func secret() string { return rand.Text() }
