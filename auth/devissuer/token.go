package devissuer

import (
	"crypto/subtle"
	"errors"
	"mime"
	"net/http"
	"slices"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/digest"
)

const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
	grantClient  = "client_credentials"
)

// serveToken gives tokens for a code, for a refresh token, or to a client in its own name.
func (i *Issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	c, failed := i.form(r)
	if failed != nil {
		failed.write(w)
		return
	}
	key, failed := i.key(r)
	if failed != nil {
		failed.write(w)
		return
	}
	var (
		given tokens
		kind  = r.PostForm.Get("grant_type")
	)
	switch kind {
	case grantCode:
		given, failed = i.redeem(r, c, key)
	case grantRefresh:
		given, failed = i.renew(r, c, key)
	case grantClient:
		given, failed = i.own(r, c, key)
	default:
		kind = "unknown" // in the log: what came in its place can be anything
		failed = fail("unsupported_grant_type", "grant_type must be "+grantCode+", "+grantRefresh+" or "+grantClient)
	}
	if failed != nil {
		i.logger.Info("refused a token request", "client", c.ID, "grant", kind, "error", failed.Code, "reason", failed.Description)
		failed.write(w)
		return
	}
	i.logger.Info("gave tokens", "client", c.ID, "grant", kind, "scope", given.Scope)
	w.Header().Set("Pragma", "no-cache") // RFC 6749, section 5.1
	writeJSON(w, http.StatusOK, given)
}

// key returns the thumbprint of the key that a client proves to have, nothing if it proves none.
func (i *Issuer) key(r *http.Request) (string, *failure) {
	if len(r.Header.Values("DPoP")) == 0 {
		return "", nil
	}
	key, err := i.proofs.VerifyTokenRequest(r, i.url+r.URL.Path)
	var not *auth.InvalidTokenError
	switch {
	case errors.As(err, &not):
		return "", fail("invalid_dpop_proof", "the proof of possession: "+not.Reason)
	case err != nil:
		return "", fail("temporarily_unavailable", "the proof of possession: "+err.Error())
	}
	return key, nil
}

// form reads a form that a client sends for itself, and has the client prove itself.
func (i *Issuer) form(r *http.Request) (*Client, *failure) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return nil, fail("invalid_request", "the body must be application/x-www-form-urlencoded")
	}
	if err := r.ParseForm(); err != nil {
		return nil, fail("invalid_request", "the body is not a form")
	}
	for name, values := range r.PostForm {
		if len(values) > 1 && name != "resource" {
			return nil, fail("invalid_request", name+" is there more than once")
		}
	}
	return i.authenticate(r)
}

// redeem gives the tokens for a code. A code that is brought twice ends what it gave (RFC 6749,
// section 4.1.2): the first who came may have been a thief.
func (i *Issuer) redeem(r *http.Request, c *Client, key string) (tokens, *failure) {
	i.mu.Lock()
	kept, found := i.codes.get(digest.Of(r.PostForm.Get("code")))
	again := found && kept.used
	if found {
		kept.used = true
		kept.grant.revoked = kept.grant.revoked || again
	}
	i.mu.Unlock()
	switch {
	case !found:
		return tokens{}, fail("invalid_grant", "the code is not known or has expired")
	case again:
		return tokens{}, fail("invalid_grant", "the code was used before: all its tokens are revoked")
	case kept.client.ID != c.ID:
		return tokens{}, fail("invalid_grant", "the code was given to another client")
	case kept.redirect != r.PostForm.Get("redirect_uri"):
		return tokens{}, fail("invalid_grant", "redirect_uri is not the one of the authorization request")
	case !verifies(r.PostForm.Get("code_verifier"), kept.challenge):
		return tokens{}, fail("invalid_grant", "code_verifier does not fit code_challenge")
	case kept.key != "" && kept.key != key:
		return tokens{}, fail("invalid_grant", "the proof of possession is not of the key that dpop_jkt named")
	}
	if failed := sameResource(r, kept.grant); failed != nil {
		return tokens{}, failed
	}
	i.bind(kept.grant, key)
	return i.give(kept.grant, kept.grant.scopes, true)
}

// verifies is the check of RFC 7636, section 4.6.
func verifies(verifier, challenge string) bool {
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(digest.Of(verifier)), []byte(challenge)) == 1
}

func sameResource(r *http.Request, g *grant) *failure {
	if asked := r.PostForm["resource"]; len(asked) > 1 || len(asked) == 1 && asked[0] != g.resource {
		return fail("invalid_target", "resource is not the one that was granted")
	}
	return nil
}

// renew gives new tokens for a refresh token, and a new refresh token instead of it.
func (i *Issuer) renew(r *http.Request, c *Client, proven string) (tokens, *failure) {
	i.mu.Lock()
	kept, found := i.refreshes.get(digest.Of(r.PostForm.Get("refresh_token")))
	i.mu.Unlock()
	// A mistake of the client's own does not cost it the token.
	switch {
	case !found || kept.grant.client != c.ID:
		return tokens{}, fail("invalid_grant", "the refresh token is not known, has expired, or is another client's")
	case c.Secret == "" && i.boundTo(kept.grant) != proven: // a secret binds it, too (RFC 9449, section 5)
		return tokens{}, fail("invalid_grant", "the refresh token is bound to another key")
	}
	if failed := sameResource(r, kept.grant); failed != nil {
		return tokens{}, failed
	}
	scopes := kept.grant.scopes
	if r.PostForm.Has("scope") { // less than was granted, for this access token
		var failed *failure
		if scopes, failed = i.scopes(r.PostForm.Get("scope")); failed != nil {
			return tokens{}, failed
		}
		if slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(kept.grant.scopes, scope) }) {
			return tokens{}, fail("invalid_scope", "a refresh cannot ask for more than was granted")
		}
	}
	i.mu.Lock()
	again := kept.used
	kept.used = true
	kept.grant.revoked = kept.grant.revoked || again
	revoked := kept.grant.revoked
	i.mu.Unlock()
	switch {
	case again:
		return tokens{}, fail("invalid_grant", "the refresh token was used before: all tokens of its grant are revoked")
	case revoked:
		return tokens{}, fail("invalid_grant", "the grant is revoked")
	}
	i.bind(kept.grant, proven)
	return i.give(kept.grant, scopes, true)
}

// own gives a confidential client a token in its own name.
func (i *Issuer) own(r *http.Request, c *Client, key string) (tokens, *failure) {
	if c.Secret == "" {
		return tokens{}, fail("unauthorized_client", "a client without a secret acts for users only")
	}
	resource, failed := i.resource(r.PostForm["resource"])
	if failed != nil {
		return tokens{}, failed
	}
	scopes, failed := i.scopes(r.PostForm.Get("scope"))
	if failed != nil {
		return tokens{}, failed
	}
	return i.give(&grant{client: c.ID, user: c.ID, resource: resource, scopes: scopes, key: key}, scopes, false)
}

func (i *Issuer) give(g *grant, scopes []string, renewable bool) (tokens, *failure) {
	given, err := i.tokens(g, scopes, renewable)
	if err != nil {
		i.logger.Error("a token could not be signed", "error", err)
		return tokens{}, fail("server_error", "the token could not be signed")
	}
	return given, nil
}

// serveRevoke ends a grant (RFC 7009). Access tokens are good until they expire, which is soon.
func (i *Issuer) serveRevoke(w http.ResponseWriter, r *http.Request) {
	c, failed := i.form(r)
	if failed != nil {
		failed.write(w)
		return
	}
	i.mu.Lock()
	if kept, found := i.refreshes.get(digest.Of(r.PostForm.Get("token"))); found && kept.grant.client == c.ID {
		kept.grant.revoked = true
	}
	i.mu.Unlock()
	w.WriteHeader(http.StatusOK) // also for what was never known: section 2.2
}
