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

	start   string // the path that leads to address once
	address string
	started atomic.Bool
}

// startPath is the beginning of the path that leads to the page.
const startPath = "/start/"

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !slices.Contains(g.hosts, r.Host): // DNS rebinding
		http.Error(w, "the Host header must name the inspector", http.StatusForbidden)
	case !sameOrigin(r):
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

// serveStart leads the first request with the right path to the page.
func (g *guard) serveStart(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(g.start)) != 1 || r.Method != http.MethodGet || !g.started.CompareAndSwap(false, true) {
		http.Error(w, "this address works once; open the address that parley inspect has printed", http.StatusForbidden)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", g.address)
	w.WriteHeader(http.StatusSeeOther)
}

// sameOrigin reports whether a request is from the page, or opens the page.
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
