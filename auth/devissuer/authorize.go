package devissuer

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/digest"
)

// authorizationRequest is a valid authorization request (RFC 6749, section 4.1.1).
type authorizationRequest struct {
	client      *Client
	redirectURI string
	state       string
	challenge   string // PKCE, S256
	resource    string
	scopes      []string
	thumbprint  string // dpop_jkt: the key to bind the tokens to; may be empty (RFC 9449, section 10)
}

// serveAuthorize shows the consent page. It grants nothing: that happens when the user
// submits the page.
func (i *Issuer) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		i.showError(w, "The URL of this page cannot be parsed.")
		return
	}
	for name, values := range query {
		if len(values) > 1 && name != "resource" {
			i.showError(w, "The parameter "+name+" is repeated.")
			return
		}
	}
	// Before the client and its redirect URI are verified, errors must not redirect.
	c, failed := i.client(r, query.Get("client_id"))
	if failed != nil {
		i.showError(w, failed.Description)
		return
	}
	redirectURI := query.Get("redirect_uri")
	if !c.allows(redirectURI) {
		i.showError(w, "The client has not registered this redirect_uri: "+redirectURI)
		return
	}
	a := authorizationRequest{client: c, redirectURI: redirectURI, state: query.Get("state"), thumbprint: query.Get("dpop_jkt")}
	if failed := i.readParameters(&a, query); failed != nil {
		i.logger.Info("authorization request failed", "client", c.ID, "error", failed.Code)
		i.redirect(w, r, a, failed.parameters())
		return
	}
	i.showConsent(w, a)
}

// readParameters reads the parameters whose errors are reported to the client.
func (i *Issuer) readParameters(a *authorizationRequest, query url.Values) *failure {
	if query.Get("response_type") != "code" {
		return fail("unsupported_response_type", "response_type must be code")
	}
	if mode := query.Get("response_mode"); mode != "" && mode != "query" {
		return fail("invalid_request", "response_mode must be query")
	}
	a.challenge = query.Get("code_challenge")
	if query.Get("code_challenge_method") != "S256" {
		return fail("invalid_request", "PKCE is required: code_challenge_method must be S256")
	}
	if sum, err := base64.RawURLEncoding.DecodeString(a.challenge); err != nil || len(sum) != 32 {
		return fail("invalid_request", "code_challenge must be a SHA-256 digest in base64url")
	}
	var failed *failure
	if a.resource, failed = i.resource(query["resource"]); failed != nil {
		return failed
	}
	a.scopes, failed = i.scopes(query.Get("scope"))
	return failed
}

// resource returns the resource of a request (RFC 8707).
func (i *Issuer) resource(requested []string) (string, *failure) {
	switch {
	case len(requested) > 1:
		return "", fail("invalid_target", "resource must not be repeated")
	case len(requested) == 0 && len(i.config.Resources) == 1:
		return i.config.Resources[0], nil
	case len(requested) == 0:
		return "", fail("invalid_target", "resource is missing: it must name the server that the token is for")
	}
	if err := checkResource(requested[0]); err != nil {
		return "", fail("invalid_target", err.Error())
	}
	if len(i.config.Resources) > 0 && !slices.Contains(i.config.Resources, requested[0]) {
		return "", fail("invalid_target", "this authorization server issues no tokens for that resource")
	}
	return requested[0], nil
}

func checkResource(resource string) error {
	u, err := url.Parse(resource)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Contains(resource, "#") {
		return errors.New("resource must be an absolute http or https URL without a fragment")
	}
	return nil
}

// scopes splits a scope parameter, and removes duplicates.
func (i *Issuer) scopes(parameter string) ([]string, *failure) {
	var scopes []string
	for _, scope := range strings.Fields(parameter) {
		switch {
		case !isScope(scope):
			return nil, fail("invalid_scope", "scope contains invalid characters")
		case len(i.config.Scopes) > 0 && !slices.Contains(i.config.Scopes, scope):
			return nil, fail("invalid_scope", "unknown scope "+scope)
		case !slices.Contains(scopes, scope):
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// isScope reports whether text has the syntax of a scope (RFC 6749, section 3.3).
func isScope(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return text != ""
}

// redirect redirects the browser to the client with parameters, state and iss (RFC 9207).
func (i *Issuer) redirect(w http.ResponseWriter, r *http.Request, a authorizationRequest, parameters url.Values) {
	if a.state != "" {
		parameters.Set("state", a.state)
	}
	parameters.Set("iss", i.url)
	target, err := url.Parse(a.redirectURI)
	if err != nil {
		i.showError(w, "The redirect_uri cannot be parsed.")
		return
	}
	query := target.Query()
	for name, values := range parameters {
		query[name] = values
	}
	target.RawQuery = query.Encode()
	http.Redirect(w, r, target.String(), http.StatusSeeOther)
}

// code is an authorization code.
type code struct {
	authorizationRequest
	grant *grant
	used  bool
}

// newCode returns a new authorization code for a request that user has allowed.
func (i *Issuer) newCode(a authorizationRequest, user string) string {
	value := secret()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.codes.put(digest.Of(value), &code{authorizationRequest: a, grant: &grant{
		client: a.client.ID, user: user, resource: a.resource, scopes: a.scopes,
	}}, time.Now().Add(codeLifetime))
	return value
}
