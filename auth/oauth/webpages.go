package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/store"
)

// webStoreTimeout bounds the store operations of a page.
const webStoreTimeout = 5 * time.Second

// ServeHTTP serves the page that redirects to the authorization page, and the redirect URI.
func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if err := w.Check(); err != nil {
		writePage(rw, http.StatusInternalServerError, "Not available", "Logins are not configured correctly.")
		return
	}
	path, below := strings.CutPrefix(r.URL.Path, w.base.Path)
	id, isStart := strings.CutPrefix(path, webStartPath)
	if !below || r.Method != http.MethodGet || !isStart && path != redirectPath {
		writePage(rw, http.StatusNotFound, "Page not found", "This address only completes logins.")
		return
	}
	user, ok := w.Visitor(rw, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), webStoreTimeout)
	defer cancel()
	var err error
	if isStart {
		err = w.serveStart(ctx, rw, r, user, id)
	} else {
		err = w.serveRedirect(ctx, rw, r, user)
	}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict):
		writePage(rw, http.StatusBadRequest, "Login not recognized", "This login was not started by you in this browser, or it has already ended. Start again in the program that needs it.")
	default:
		writePage(rw, http.StatusServiceUnavailable, "Not available", "The login cannot be continued at the moment. Try again.")
	}
}

// serveStart binds a login to the browser, which it redirects to the authorization page. The
// cookies of browsers that opened the page before become invalid.
func (w *Web) serveStart(ctx context.Context, rw http.ResponseWriter, r *http.Request, user, id string) error {
	login, version, err := w.load(ctx, user, id)
	if err != nil {
		return err
	}
	if login.Redirect != "" {
		return store.ErrNotFound
	}
	cookie := rand.Text()
	login.Browser = digest.Of(cookie)
	if err := w.save(ctx, user, id, login, store.PutOptions{IfVersion: version}); err != nil {
		return err
	}
	setPageHeaders(rw.Header())
	http.SetCookie(rw, w.cookie(id, cookie, int(time.Until(login.Expires)/time.Second)+1))
	http.Redirect(rw, r, login.Page, http.StatusSeeOther)
	return nil
}

// serveRedirect hands the redirect over to the replica that waits for it, once.
func (w *Web) serveRedirect(ctx context.Context, rw http.ResponseWriter, r *http.Request, user string) error {
	response, err := parseAuthorizationResponse(r.URL.RawQuery)
	if err != nil || response.state == "" {
		return store.ErrNotFound
	}
	id := digest.Of(response.state)
	login, version, err := w.load(ctx, user, id)
	if err != nil {
		return err
	}
	if login.Redirect != "" || !hasCookie(r, w.cookie(id, "", 0).Name, login.Browser) {
		return store.ErrNotFound
	}
	login.Page, login.Browser, login.Redirect = "", "", "?"+r.URL.RawQuery
	if err := w.save(ctx, user, id, login, store.PutOptions{IfVersion: version}); err != nil {
		return err
	}
	http.SetCookie(rw, w.cookie(id, "", -1))
	if response.error != "" {
		writePage(rw, http.StatusOK, "Login failed", "You can close this window. The program shows the reason.")
	} else {
		writePage(rw, http.StatusOK, "Login complete", "You can close this window and return to the program.")
	}
	return nil
}

// cookie marks the browser that has opened the first page of a login. Each login has its own, so
// that a user can have two.
func (w *Web) cookie(id, value string, lifetime int) *http.Cookie {
	return newCookie(w.base, "login_"+id[:22], value, lifetime)
}

// newCookie returns a cookie for the pages below base. Other hosts cannot set a cookie with the prefix __Host-,
// which requires https. The lifetime is in seconds.
func newCookie(base *url.URL, name, value string, lifetime int) *http.Cookie {
	c := &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: lifetime,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, // Strict would omit it in the cross-site redirect
	}
	if base.Scheme == "https" {
		c.Name, c.Secure = "__Host-"+c.Name, true
	}
	return c
}

// setPageHeaders sets the headers of all pages: they run no scripts, cannot be framed and are not
// stored, and their URLs are not passed on.
func setPageHeaders(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// writePage writes a page with a title and a text, which must be constants.
func writePage(w http.ResponseWriter, status int, title, text string) {
	setPageHeaders(w.Header())
	w.WriteHeader(status)
	_, _ = io.WriteString(w, htmlPage(title, text))
}

// htmlPage returns a page with a title and a text, which must be constants.
func htmlPage(title, text string) string { return htmlDocument(title, "<p>"+text+"</p>") }

// htmlDocument returns a page with a title and a body, which must be HTML.
func htmlDocument(title, body string) string {
	return `<!doctype html><html lang="en"><meta charset="utf-8"><title>` + title + `</title>
<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem;color-scheme:light dark}</style>
<h1>` + title + `</h1>` + body + `</html>`
}
