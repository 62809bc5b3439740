package devissuer

import (
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/principal"
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
	c, failed := i.client(query.Get("client_id"))
	if failed != nil {
		i.showError(w, failed.Description)
		return
	}
	redirectURI := query.Get("redirect_uri")
	if !c.allows(redirectURI) {
		i.showError(w, "The client has not registered this redirect_uri: "+redirectURI)
		return
	}
	a := authorizationRequest{client: c, redirectURI: redirectURI, state: query.Get("state"),
		thumbprint: query.Get("dpop_jkt")}
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
	if a.resource, failed = resourceOf(query["resource"]); failed != nil {
		return failed
	}
	a.scopes, failed = i.scopes(query.Get("scope"))
	return failed
}

// resourceOf returns the resource of a request (RFC 8707).
func resourceOf(requested []string) (string, *failure) {
	switch {
	case len(requested) > 1:
		return "", fail("invalid_target", "resource must not be repeated")
	case len(requested) == 0:
		return "", fail("invalid_target", "resource is missing: it must name the server that the token is for")
	}
	if err := checkResource(requested[0]); err != nil {
		return "", fail("invalid_target", err.Error())
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

// consentCookie returns the cookie that binds a consent page to the browser. Each page has its
// own cookie, so that a user can open two. (The prefix __Host- would require https.)
func consentCookie(id, value string, lifetime int) *http.Cookie {
	return &http.Cookie{
		Name: "devissuer_" + id, Value: value, Path: "/authorize", MaxAge: lifetime,
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// consent is an open consent page.
type consent struct {
	authorizationRequest
	browser string // digest of the cookie
}

// showConsent shows the consent page.
func (i *Issuer) showConsent(w http.ResponseWriter, a authorizationRequest) {
	id, cookie := secret(), secret()
	i.mu.Lock()
	i.consents.put(id, &consent{a, digest.Of(cookie)}, time.Now().Add(consentLifetime))
	i.mu.Unlock()
	http.SetCookie(w, consentCookie(id, cookie, int(consentLifetime/time.Second)))
	target, err := url.Parse(a.redirectURI)
	if err != nil {
		i.showError(w, "The redirect_uri cannot be parsed.")
		return
	}
	name := a.client.Name
	if name == "" {
		name = a.client.ID
	}
	page := consentPage{
		Issuer: i.url, ID: id, Client: name, ClientID: a.client.ID,
		Resource: a.resource, Redirect: a.redirectURI, RedirectHost: target.Host,
		RedirectsToThisMachine: httpurl.IsLoopback(target.Hostname()),
		Users:                  i.config.Users, Scopes: a.scopes,
	}
	i.show(w, http.StatusOK, page.html())
}

// serveConsent processes the consent form, once, and only from the browser that the page was
// shown in.
func (i *Issuer) serveConsent(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		i.showError(w, "The form cannot be parsed.")
		return
	}
	id := r.PostForm.Get("id")
	var browser string
	if cookie, err := r.Cookie(consentCookie(id, "", 0).Name); err == nil {
		browser = digest.Of(cookie.Value)
	}
	i.mu.Lock()
	pending, found := i.consents.get(id)
	found = found && subtle.ConstantTimeCompare([]byte(pending.browser), []byte(browser)) == 1
	if found {
		i.consents.remove(id)
	}
	i.mu.Unlock()
	if !found {
		i.showError(w,
			"This page was already submitted, has expired, or was opened in another browser. Start again in the "+
				"program that opened it.")
		return
	}
	http.SetCookie(w, consentCookie(id, "", -1))
	user := r.PostForm.Get("user")
	if r.PostForm.Get("decision") != "allow" {
		i.logger.Info("user denied the client", "client", pending.client.ID)
		i.redirect(w, r, pending.authorizationRequest, fail("access_denied", "the user denied access").parameters())
		return
	}
	if len(i.config.Users) > 0 && !slices.Contains(i.config.Users, user) {
		i.showError(w, "This user does not exist.")
		return
	}
	if err := checkUser(user); err != nil {
		i.showError(w, "This name cannot be used: "+strings.TrimPrefix(err.Error(), "principal: ")+".")
		return
	}
	// The user can deselect scopes.
	pending.scopes = slices.DeleteFunc(slices.Clone(pending.scopes), func(scope string) bool {
		return !slices.Contains(r.PostForm["scope"], scope)
	})
	i.logger.Info("user allowed the client", "client", pending.client.ID, "user", user, "scopes", pending.scopes,
		"resource", pending.resource)
	i.redirect(w, r, pending.authorizationRequest, url.Values{"code": {i.newCode(pending.authorizationRequest, user)}})
}

// checkUser returns an error if no user can have a name.
func checkUser(name string) error {
	_, err := principal.New("devissuer", name, "")
	return err
}

// The pages do not use html/template: the linker would then keep every exported method in the program.

//go:embed style.css
var style string

const pageHead = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>%s</title>
<link rel="stylesheet" href="/style.css">
<p class="warning">This authorization server is for development. It has no passwords and protects nothing.</p>
<main>
`

// markup formats HTML. Each %s is a value, which is escaped for text and for attributes in quotes.
func markup(format string, values ...string) string {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = html.EscapeString(v)
	}
	return fmt.Sprintf(format, escaped...)
}

// consentPage is the data of the consent page.
type consentPage struct {
	Issuer, ID             string
	Client, ClientID       string
	Resource               string
	Redirect, RedirectHost string
	RedirectsToThisMachine bool
	Users, Scopes          []string // without Users, the page asks for a name
}

// html returns the page.
func (p *consentPage) html() string {
	var b strings.Builder
	add := func(format string, values ...string) { b.WriteString(markup(format, values...)) }
	add(pageHead, "Allow "+p.Client+"?")
	add("<h1>Allow <q>%s</q>?</h1>\n", p.Client)
	add("<form method=\"post\" action=\"/authorize\">\n<input type=\"hidden\" name=\"id\" value=\"%s\">\n", p.ID)
	add("<dl>\n<dt>Server</dt>\n<dd><code>%s</code></dd>\n", p.Resource)
	add("<dt>Client</dt>\n<dd><code>%s</code> (its name is not verified)</dd>\n", p.ClientID)
	add("<dt>Redirect to</dt>\n<dd><strong>%s</strong>", p.RedirectHost)
	if p.RedirectsToThisMachine {
		add(", a program on this machine. Any program on this machine can use this address.")
	}
	add("<br><code>%s</code></dd>\n</dl>\n", p.Redirect)
	switch len(p.Users) {
	case 0:
		add("<label for=\"user\">Log in as</label>\n<input type=\"text\" id=\"user\" name=\"user\" value=\"%s\" "+
			"required autocomplete=\"off\">\n", defaultUser)
	case 1:
		add("<input type=\"hidden\" name=\"user\" value=\"%s\"><p>Log in as <strong>%s</strong>.</p>\n", p.Users[0],
			p.Users[0])
	default:
		add("<label for=\"user\">Log in as</label>\n<select id=\"user\" name=\"user\">")
		for _, user := range p.Users {
			add("<option>%s</option>", user)
		}
		add("</select>\n")
	}
	if len(p.Scopes) > 0 {
		add("<fieldset>\n<legend>Scopes</legend>\n")
		for _, scope := range p.Scopes {
			add("<label><input type=\"checkbox\" name=\"scope\" value=\"%s\" checked> %s</label>\n", scope, scope)
		}
		add("</fieldset>\n")
	}
	add(`<p class="decision">
<button id="allow" name="decision" value="allow">Allow</button>
<button id="deny" name="decision" value="deny">Deny</button>
</p>
</form>
</main>
<footer>%s</footer>
</html>
`, p.Issuer)
	return b.String()
}

// showMessage shows a page with a message.
func (i *Issuer) showMessage(w http.ResponseWriter, status int, title, text string) {
	i.show(w, status, markup(pageHead+"<h1>%s</h1>\n<p>%s</p>\n</main>\n</html>\n", title, title, text))
}

// showError shows a page with an error.
func (i *Issuer) showError(w http.ResponseWriter, text string) {
	i.showMessage(w, http.StatusBadRequest, "Login failed", text)
}

func (i *Issuer) serveHome(w http.ResponseWriter, r *http.Request) {
	i.showMessage(w, http.StatusOK, "An authorization server for development",
		"Its metadata is at "+i.url+metadataPath+".")
}

// show responds with a page that cannot be framed and runs no scripts.
func (i *Issuer) show(w http.ResponseWriter, status int, page string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	// Without form-action: browsers would also apply it to the redirect after the form.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	w.WriteHeader(status)
	if _, err := w.Write([]byte(page)); err != nil {
		i.logger.Debug("cannot send a page", "error", err)
	}
}

func serveStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write([]byte(style))
}
