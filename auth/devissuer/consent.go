package devissuer

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
)

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
		Issuer: i.url, ID: id, Client: name, ClientID: a.client.ID, Document: a.client.document,
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
		i.showError(w, "This page was already submitted, has expired, or was opened in another browser. Start again in the program that opened it.")
		return
	}
	http.SetCookie(w, consentCookie(id, "", -1))
	user := r.PostForm.Get("user")
	if r.PostForm.Get("decision") != "allow" {
		i.logger.Info("user denied the client", "client", pending.client.ID)
		i.redirect(w, r, pending.authorizationRequest, fail("access_denied", "the user denied access").parameters())
		return
	}
	if !slices.Contains(i.config.Users, user) {
		i.showError(w, "This user does not exist.")
		return
	}
	// The user can deselect scopes.
	pending.scopes = slices.DeleteFunc(slices.Clone(pending.scopes), func(scope string) bool {
		return !slices.Contains(r.PostForm["scope"], scope)
	})
	i.logger.Info("user allowed the client", "client", pending.client.ID, "user", user, "scopes", pending.scopes, "resource", pending.resource)
	i.redirect(w, r, pending.authorizationRequest, url.Values{"code": {i.newCode(pending.authorizationRequest, user)}})
}
