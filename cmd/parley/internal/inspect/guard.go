package inspect

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// guard admits the requests of the page only. The token is in the fragment of the page's URL, which browsers do not send:
// the page sends it in the Authorization header. Unlike a cookie, no other port of this machine receives it.
type guard struct {
	hosts []string // the values of the Host header, as in "127.0.0.1:7799"
	token [sha256.Size]byte
	next  http.Handler
	open  http.Handler // the files of the page, which are the same for everyone

	start   string // the path that leads to address, for the first browser that opens it
	address string
	browser string // the cookie of that browser
	opened  func() // called once
	started atomic.Bool
}

// startCookie is the name of the cookie of the browser that has opened the page. Its path is that of the address, so
// that it reaches other ports of this machine as little as the token does.
const startCookie = "inspector"

// startPath is the beginning of the path that leads to the page.
const startPath = "/start/"

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !slices.Contains(g.hosts, r.Host): // DNS rebinding
		http.Error(w, "the Host header must name the inspector", http.StatusForbidden)
	case !sameOrigin(r) && !opensPage(r):
		http.Error(w, "requests of other origins are not allowed", http.StatusForbidden)
	case strings.HasPrefix(r.URL.Path, startPath):
		g.serveStart(w, r)
	case !strings.HasPrefix(r.URL.Path, "/api/"):
		g.open.ServeHTTP(w, r)
	case !g.hasToken(r):
		http.Error(w, "open the address that parley inspect has printed", http.StatusUnauthorized)
	default:
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		g.next.ServeHTTP(w, r)
	}
}

// serveStart leads the first browser that opens the right path to the page.
func (g *guard) serveStart(w http.ResponseWriter, r *http.Request) {
	isRight := subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(g.start)) == 1 && r.Method == http.MethodGet && r.Header.Get("Sec-Purpose") == ""
	switch {
	case isRight && g.started.CompareAndSwap(false, true):
		http.SetCookie(w, &http.Cookie{Name: startCookie, Value: g.browser, Path: g.start, HttpOnly: true, SameSite: http.SameSiteLaxMode})
		g.opened()
	case isRight && g.hasCookie(r):
	default:
		http.Error(w, "this address works in the first browser that opens it; if that was not yours, end parley inspect and start it again", http.StatusForbidden)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", g.address)
	w.WriteHeader(http.StatusSeeOther)
}

func (g *guard) hasCookie(r *http.Request) bool {
	for _, c := range r.CookiesNamed(startCookie) {
		if subtle.ConstantTimeCompare([]byte(c.Value), []byte(g.browser)) == 1 {
			return true
		}
	}
	return false
}

// opensPage reports whether a browser opens the page in a tab, which the file that parley opens does: its origin is
// another one. The page is the same for everyone, and has no effect without the token.
func opensPage(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, "/api/") && r.Header.Get("Origin") == "" && r.Method == http.MethodGet &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// sameOrigin reports whether a request is from the page, or of a user who enters the address.
func sameOrigin(r *http.Request) bool {
	for _, origin := range r.Header["Origin"] {
		if origin != "http://"+r.Host {
			return false
		}
	}
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return false
		}
	}
	return true
}

func (g *guard) hasToken(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got := sha256.Sum256([]byte(token))
	return ok && subtle.ConstantTimeCompare(got[:], g.token[:]) == 1
}
