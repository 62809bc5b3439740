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

// request is what a client asks the user for (RFC 6749, section 4.1.1).
type request struct {
	client    *Client
	redirect  string
	state     string
	challenge string // PKCE, S256
	resource  string
	scopes    []string
	key       string // that the tokens are to be bound to, if the client says so (RFC 9449, section 10)
}

// serveAuthorize shows the consent page. Nothing is granted and nothing is stored for the client until
// the user has answered it.
func (i *Issuer) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		i.refuse(w, "The address of this page is damaged.")
		return
	}
	for name, values := range query {
		if len(values) > 1 && name != "resource" {
			i.refuse(w, "The parameter "+name+" is there more than once.")
			return
		}
	}
	// Until the client and its redirect URI are known, nobody is sent anywhere.
	c, failed := i.client(r, query.Get("client_id"))
	if failed != nil {
		i.refuse(w, failed.Description)
		return
	}
	redirect := query.Get("redirect_uri")
	if !c.allows(redirect) {
		i.refuse(w, "The client has not registered this redirect_uri: "+redirect)
		return
	}
	asked := request{client: c, redirect: redirect, state: query.Get("state"), key: query.Get("dpop_jkt")}
	if failed := i.read(&asked, query); failed != nil {
		i.logger.Info("refused an authorization request", "client", c.ID, "error", failed.Code)
		i.sendBack(w, r, asked, failed.parameters())
		return
	}
	i.ask(w, asked)
}

// read checks the parameters whose failure the client is told of.
func (i *Issuer) read(asked *request, query url.Values) *failure {
	if query.Get("response_type") != "code" {
		return fail("unsupported_response_type", "response_type must be code")
	}
	if mode := query.Get("response_mode"); mode != "" && mode != "query" {
		return fail("invalid_request", "response_mode must be query")
	}
	asked.challenge = query.Get("code_challenge")
	if query.Get("code_challenge_method") != "S256" {
		return fail("invalid_request", "PKCE is required: code_challenge_method must be S256")
	}
	if sum, err := base64.RawURLEncoding.DecodeString(asked.challenge); err != nil || len(sum) != 32 {
		return fail("invalid_request", "code_challenge is not the base64url of a SHA-256 sum")
	}
	var failed *failure
	if asked.resource, failed = i.resource(query["resource"]); failed != nil {
		return failed
	}
	asked.scopes, failed = i.scopes(query.Get("scope"))
	return failed
}

// resource returns what tokens are for (RFC 8707).
func (i *Issuer) resource(asked []string) (string, *failure) {
	switch {
	case len(asked) > 1:
		return "", fail("invalid_target", "a token is for one resource")
	case len(asked) == 0 && len(i.config.Resources) == 1:
		return i.config.Resources[0], nil
	case len(asked) == 0:
		return "", fail("invalid_target", "resource is missing: name the server that the token is for")
	}
	if err := checkResource(asked[0]); err != nil {
		return "", fail("invalid_target", err.Error())
	}
	if len(i.config.Resources) > 0 && !slices.Contains(i.config.Resources, asked[0]) {
		return "", fail("invalid_target", "this issuer gives no tokens for that resource")
	}
	return asked[0], nil
}

func checkResource(resource string) error {
	u, err := url.Parse(resource)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Contains(resource, "#") {
		return errors.New("a resource is an absolute http or https URL without a fragment")
	}
	return nil
}

// scopes splits a scope parameter. What is asked for twice is granted once.
func (i *Issuer) scopes(parameter string) ([]string, *failure) {
	var scopes []string
	for _, scope := range strings.Fields(parameter) {
		switch {
		case !isScope(scope):
			return nil, fail("invalid_scope", "scope has characters that scopes do not have")
		case len(i.config.Scopes) > 0 && !slices.Contains(i.config.Scopes, scope):
			return nil, fail("invalid_scope", "there is no scope "+scope)
		case !slices.Contains(scopes, scope):
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// isScope reports whether text is a scope-token of RFC 6749, section 3.3.
func isScope(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return text != ""
}

// sendBack redirects the browser to the client with parameters, state and iss (RFC 9207).
func (i *Issuer) sendBack(w http.ResponseWriter, r *http.Request, asked request, parameters url.Values) {
	if asked.state != "" {
		parameters.Set("state", asked.state)
	}
	parameters.Set("iss", i.url)
	target, err := url.Parse(asked.redirect)
	if err != nil {
		i.refuse(w, "The redirect_uri is not an URL.")
		return
	}
	query := target.Query()
	for name, values := range parameters {
		query[name] = values
	}
	target.RawQuery = query.Encode()
	http.Redirect(w, r, target.String(), http.StatusSeeOther)
}

// code is what a user granted, until the client fetches the tokens for it.
type code struct {
	request
	grant *grant
	used  bool
}

// giveCode returns a new authorization code for what user granted.
func (i *Issuer) giveCode(asked request, user string) string {
	value := secret()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.codes.put(digest.Of(value), &code{request: asked, grant: &grant{
		client: asked.client.ID, user: user, resource: asked.resource, scopes: asked.scopes,
	}}, time.Now().Add(codeLifetime))
	return value
}
