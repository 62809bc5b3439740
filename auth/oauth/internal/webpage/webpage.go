// Package webpage contains the shared parts of login pages: their headers, their form, and the cookies that tell
// browsers apart.
package webpage

import (
	"crypto/subtle"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"

	"github.com/parley-mcp/parley/internal/digest"
)

// SetHeaders sets the headers of all pages: they run no scripts, cannot be framed and are not stored, and their URLs
// are not passed on.
func SetHeaders(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// HTML returns a format with values. Each %s in it is a value, which is escaped for text and for attributes in quotes.
// (Pages do not use html/template, because the linker would then keep every exported method in the program.)
func HTML(format string, values ...string) string {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = html.EscapeString(v)
	}
	return fmt.Sprintf(format, escaped...)
}

// Write writes a page with a title and a text.
func Write(w http.ResponseWriter, status int, title, text string) {
	WriteBody(w, status, title, HTML("<p>%s</p>", text))
}

// WriteBody writes a page with a title and a body, which must be HTML.
func WriteBody(w http.ResponseWriter, status int, title, body string) {
	SetHeaders(w.Header())
	w.WriteHeader(status)
	_, _ = io.WriteString(w, HTML(`<!doctype html><html lang="en"><meta charset="utf-8"><title>%s</title>
<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem}</style>
<h1>%s</h1>`, title, title)+body+"</html>")
}

// NewCookie returns a cookie for the pages below base. Other hosts cannot set a cookie with the prefix __Host-,
// which requires https. The lifetime is in seconds.
func NewCookie(base *url.URL, name, value string, lifetime int) *http.Cookie {
	c := &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: lifetime,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, // Strict would omit it in the cross-site redirect
	}
	if base.Scheme == "https" {
		c.Name, c.Secure = "__Host-"+c.Name, true
	}
	return c
}

// CookieOf returns the cookie of r with the given digest, or "". Another site may have set a second cookie of the same
// name.
func CookieOf(r *http.Request, name, want string) string {
	for _, c := range r.CookiesNamed(name) {
		if want != "" && subtle.ConstantTimeCompare([]byte(digest.Of(c.Value)), []byte(want)) == 1 {
			return c.Value
		}
	}
	return ""
}
