package httpwire

import (
	"net/http"
	"slices"
	"strings"
)

// Pages of other origins that the program allows by name need more than not being
// refused: browsers ask before they send (a preflight), and hand a page only what the
// server lets it see (Fetch, CORS protocol). Pages that are let in without a name, those
// of the server itself and of this machine, get nothing of it: the former need none, and
// to let the latter read is for the program to say.

const (
	corsMethods = "POST, GET, DELETE"
	corsMaxAge  = "600" // seconds that a browser need not ask again
)

// corsHeaders are the headers that pages may send, in lower case, beside those that
// mirror parameters.
var corsHeaders = []string{
	"accept", "authorization", "dpop", "baggage", "content-type", "last-event-id", "traceparent", "tracestate",
	strings.ToLower(headerSession), strings.ToLower(headerVersion), strings.ToLower(headerMethod), strings.ToLower(headerName),
}

// exposed are the headers of responses that pages may read.
var exposed = []string{strings.Join([]string{headerSession, headerVersion, "WWW-Authenticate", "DPoP-Nonce", "Retry-After"}, ", ")}

// share lets the page that has sent a request, which has been checked, see the response.
// It reports whether the request was a preflight, which is answered then.
func (g *Guard) addCORSHeaders(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(g.Origins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin") // caches hold one origin's response apart from another's
	origin := first(r.Header, "Origin")
	if origin == "" || !slices.Contains(g.Origins, origin) {
		return false
	}
	// Never "*", and never with cookies: the page that was named, with what it sends itself.
	h["Access-Control-Allow-Origin"] = []string{origin}
	if r.Method != http.MethodOptions || r.Header["Access-Control-Request-Method"] == nil {
		h["Access-Control-Expose-Headers"] = exposed
		return false
	}
	h.Add("Vary", "Access-Control-Request-Headers")
	h["Access-Control-Allow-Methods"] = []string{corsMethods}
	if allowed := allowedHeaders(r.Header["Access-Control-Request-Headers"]); allowed != "" {
		h["Access-Control-Allow-Headers"] = []string{allowed}
	}
	h["Access-Control-Max-Age"] = []string{corsMaxAge}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// allowedHeaders are those of the headers a page wants to send that it may.
func allowedHeaders(wanted []string) string {
	var allowed []string
	for _, list := range wanted {
		for name := range strings.SplitSeq(list, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			if slices.Contains(corsHeaders, name) || strings.HasPrefix(name, strings.ToLower(paramPrefix)) && isToken(name) {
				allowed = append(allowed, name)
			}
		}
	}
	return strings.Join(allowed, ", ")
}

// isToken reports whether s can be the name of a header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}) < 0
}
