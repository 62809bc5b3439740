package devissuer

import (
	"crypto/subtle"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
)

//go:embed page
var pages embed.FS

var templates = template.Must(template.ParseFS(pages, "page/*.html"))

// consentCookie returns the cookie that ties the page id to the browser that it was shown in. Each page
// has its own, so that a user may have two open. (The prefix __Host- asks for https, which loopback does
// not have.)
func consentCookie(id, value string, lifetime int) *http.Cookie {
	return &http.Cookie{
		Name: "devissuer_" + id, Value: value, Path: "/authorize", MaxAge: lifetime,
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// consent is a page that waits for its answer.
type consent struct {
	request
	browser string // digest of the cookie
}

// asking is what the consent page shows.
type asking struct {
	Issuer, ID                string
	Client, ClientID          string
	Document                  bool
	Resource                  string
	Redirect, RedirectHost    string
	RedirectsToThisMachine    bool
	Users, Scopes             []string
	UserQuestion, ScopesAsked bool
}

// ask shows the consent page.
func (i *Issuer) ask(w http.ResponseWriter, asked request) {
	id, cookie := secret(), secret()
	i.mu.Lock()
	i.consents.put(id, &consent{asked, digest.Of(cookie)}, time.Now().Add(consentLifetime))
	i.mu.Unlock()
	http.SetCookie(w, consentCookie(id, cookie, int(consentLifetime/time.Second)))
	target, err := url.Parse(asked.redirect)
	if err != nil {
		i.refuse(w, "The redirect_uri is not an URL.")
		return
	}
	name := asked.client.Name
	if name == "" {
		name = asked.client.ID
	}
	i.page(w, http.StatusOK, "consent.html", asking{
		Issuer: i.url, ID: id, Client: name, ClientID: asked.client.ID, Document: asked.client.document,
		Resource: asked.resource, Redirect: asked.redirect, RedirectHost: target.Host,
		RedirectsToThisMachine: httpurl.IsLoopback(target.Hostname()),
		Users:                  i.config.Users, UserQuestion: len(i.config.Users) > 1,
		Scopes: asked.scopes, ScopesAsked: len(asked.scopes) > 0,
	})
}

// serveConsent takes the answer of the browser that was shown the page, once.
func (i *Issuer) serveConsent(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		i.refuse(w, "The form is damaged.")
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
		i.refuse(w, "This page has been answered already, is too old, or was opened in another browser. Go back to the program that sent you here and begin again.")
		return
	}
	http.SetCookie(w, consentCookie(id, "", -1))
	user := r.PostForm.Get("user")
	if r.PostForm.Get("answer") != "allow" {
		i.logger.Info("the user denied a client", "client", pending.client.ID)
		i.sendBack(w, r, pending.request, fail("access_denied", "the user said no").parameters())
		return
	}
	if !slices.Contains(i.config.Users, user) {
		i.refuse(w, "There is no such user.")
		return
	}
	// The user may grant less than was asked for, never more.
	pending.scopes = slices.DeleteFunc(slices.Clone(pending.scopes), func(scope string) bool {
		return !slices.Contains(r.PostForm["scope"], scope)
	})
	i.logger.Info("the user allowed a client", "client", pending.client.ID, "user", user, "scopes", pending.scopes, "resource", pending.resource)
	i.sendBack(w, r, pending.request, url.Values{"code": {i.giveCode(pending.request, user)}})
}

// message is a page with one thing to say.
type message struct{ Title, Text string }

func (i *Issuer) refuse(w http.ResponseWriter, text string) {
	i.page(w, http.StatusBadRequest, "message.html", message{Title: "This cannot go on", Text: text})
}

func (i *Issuer) serveHome(w http.ResponseWriter, r *http.Request) {
	i.page(w, http.StatusOK, "message.html", message{
		Title: "An authorization server for development",
		Text:  "Programs find what they need at " + i.url + metadataPath + ".",
	})
}

// page answers with a page that nothing can frame and that runs no script.
func (i *Issuer) page(w http.ResponseWriter, status int, name string, data any) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	// No form-action: browsers hold it against the redirect that follows the form, too.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	w.WriteHeader(status)
	if err := templates.ExecuteTemplate(w, name, data); err != nil {
		i.logger.Debug("a page was not sent", "page", name, "error", err)
	}
}

func serveStyle(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, pages, "page/style.css")
}
