package devissuer

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// grant is what a user has allowed a client to do.
type grant struct {
	client, user, resource string
	scopes                 []string

	// From the authorization request, until its code is redeemed.
	redirectURI, challenge string
	until                  time.Time
}

// serveAuthorize is the authorization endpoint (RFC 6749, section 4.1.1). Its page submits the user's decision to the
// same URL, which is then read again.
func (i *Issuer) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	redirectURI := query.Get("redirect_uri")
	c := i.client(query.Get("client_id"))
	// Errors must not redirect to an address that the client has not registered.
	if c == nil || !c.allows(redirectURI) {
		http.Error(w, "This authorization server is for development. It does not know the client, and loses "+
			"registrations when it stops, or the client has not registered the redirect_uri "+redirectURI+".",
			http.StatusBadRequest)
		return
	}
	g, failed := i.requested(c, query)
	switch {
	case failed != nil:
	case r.Method == http.MethodGet:
		i.showPage(w, c, g)
		return
	case r.PostFormValue("decision") != "allow":
		failed = fail("access_denied", "the user denied access")
	default:
		g.user = r.PostFormValue("user")
		if err := i.checkUser(g.user); err != nil {
			http.Error(w, "This name cannot be used: "+err.Error(), http.StatusBadRequest)
			return
		}
	}
	answer := url.Values{"iss": {i.url}} // RFC 9207
	if query.Has("state") {
		answer.Set("state", query.Get("state"))
	}
	if failed != nil {
		i.logger.Info("authorization request failed", "client", c.ID, "error", failed.Code)
		answer.Set("error", failed.Code)
		answer.Set("error_description", failed.Description)
	} else {
		i.logger.Info("user allowed the client", "client", c.ID, "user", g.user, "scopes", g.scopes, "resource",
			g.resource)
		answer.Set("code", i.newCode(g))
	}
	separator := "?"
	if strings.Contains(redirectURI, "?") {
		separator = "&"
	}
	http.Redirect(w, r, redirectURI+separator+answer.Encode(), http.StatusSeeOther)
}

// requested returns the grant that an authorization request asks for, or the error for the client.
func (i *Issuer) requested(c *Client, query url.Values) (*grant, *failure) {
	challenge := query.Get("code_challenge")
	switch sum, err := base64.RawURLEncoding.DecodeString(challenge); {
	case query.Get("response_type") != "code":
		return nil, fail("unsupported_response_type", "response_type must be code")
	case query.Get("code_challenge_method") != "S256":
		return nil, fail("invalid_request", "PKCE is required: code_challenge_method must be S256")
	case err != nil || len(sum) != 32:
		return nil, fail("invalid_request", "code_challenge must be a SHA-256 digest in base64url")
	}
	g := &grant{client: c.ID, redirectURI: query.Get("redirect_uri"), challenge: challenge,
		until: time.Now().Add(codeLifetime)}
	return g, i.setTarget(g, query)
}

// setTarget sets the resource (RFC 8707) and the scopes of a grant from the parameters of a request.
func (i *Issuer) setTarget(g *grant, parameters url.Values) *failure {
	if len(parameters["resource"]) != 1 {
		return fail("invalid_target", "resource must name the one server that the token is for")
	}
	g.resource = parameters.Get("resource")
	if err := checkResource(g.resource); err != nil {
		return fail("invalid_target", err.Error())
	}
	g.scopes = slices.Compact(slices.Sorted(slices.Values(strings.Fields(parameters.Get("scope")))))
	for _, scope := range g.scopes {
		if i.config.Scopes != nil && !slices.Contains(i.config.Scopes, scope) {
			return fail("invalid_scope", "unknown scope "+scope)
		}
	}
	return nil
}

func checkResource(resource string) error {
	u, err := url.Parse(resource)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Contains(resource, "#") {
		return errors.New("resource must be an absolute http or https URL without a fragment")
	}
	return nil
}

// checkUser returns an error if nobody can log in with a name.
func (i *Issuer) checkUser(name string) error {
	if i.config.Users != nil && !slices.Contains(i.config.Users, name) {
		return errors.New("this user does not exist")
	}
	return checkUser(name)
}

func (i *Issuer) newCode(g *grant) string {
	code := rand.Text()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.codes.put(code, g)
	return code
}

// showPage shows the page on which the user decides. It runs no scripts and cannot be framed.
func (i *Issuer) showPage(w http.ResponseWriter, c *Client, g *grant) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	// Without form-action: browsers would also apply it to the redirect after the form.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	if _, err := io.WriteString(w, pageOf(c, g, i.config.Users)); err != nil {
		i.logger.Debug("cannot send a page", "error", err)
	}
}

// pageOf returns the page for a client that requests a grant. It does not use html/template, with which the linker
// would keep every exported method in the program.
func pageOf(c *Client, g *grant, users []string) string {
	var b strings.Builder
	add := func(format string, values ...any) {
		for n := range values {
			values[n] = html.EscapeString(values[n].(string))
		}
		fmt.Fprintf(&b, format, values...)
	}
	name := cmp.Or(c.name, c.ID)
	add(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Allow %s?</title>
<style>
body { max-width: 32rem; margin: 10vh auto; padding: 0 1rem; font: 1.1rem/1.5 system-ui, sans-serif }
code { overflow-wrap: anywhere }
input, select, button { font: inherit; margin: .5rem .5rem 0 0; padding: .3rem 1rem }
</style>
<p>This authorization server is for development. It has no passwords and protects nothing.</p>
<h1>Allow <q>%s</q>?</h1>
<p>This client, whose name is not verified, wants to use <code>%s</code>`, name, name, g.resource)
	if len(g.scopes) > 0 {
		add(` with the scopes <code>%s</code>`, strings.Join(g.scopes, " "))
	}
	add(`. It receives the answer at <code>%s</code>.</p>
<form method="post">
<label>Log in as `, g.redirectURI)
	if len(users) == 0 {
		add(`<input name="user" value="%s" required autocomplete="off">`, defaultUser)
	} else {
		add(`<select name="user">`)
		for _, user := range users {
			add(`<option>%s</option>`, user)
		}
		add(`</select>`)
	}
	add(`</label>
<p><button id="allow" name="decision" value="allow">Allow</button>
<button id="deny" name="decision" value="deny">Deny</button></p>
</form>
</html>
`)
	return b.String()
}
