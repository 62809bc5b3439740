package httpserver

import (
	"net/http"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/httpcodec"
)

// The CORS protocol of the Fetch standard lets web pages of the origins in AllowedOrigins send requests and read
// responses. The server's own pages do not need it. Other pages of this machine must be in Origins to get it.

const (
	corsMethods = "POST, GET, DELETE"
	corsMaxAge  = "600" // how long a browser may cache a preflight response, in seconds
)

// corsHeaders are the request headers that pages may send, in lower case. Headers that
// repeat parameters are allowed too.
var corsHeaders = []string{
	"accept", "authorization", "dpop", "baggage", "content-type", "last-event-id", "traceparent", "tracestate",
	strings.ToLower(httpcodec.HeaderSession), strings.ToLower(httpcodec.HeaderVersion),
	strings.ToLower(httpcodec.HeaderMethod), strings.ToLower(httpcodec.HeaderName),
}

// exposed lists the response headers that pages may read.
var exposed = []string{strings.Join([]string{httpcodec.HeaderSession, httpcodec.HeaderVersion, "WWW-Authenticate",
	"DPoP-Nonce", "Retry-After"}, ", ")}

// addCORSHeaders lets the page that has sent r read the response, if there are origins. The caller has checked r. If r
// is a preflight request, with which a browser asks if a page may send a request, addCORSHeaders answers it and reports
// true.
func (s *Server) addCORSHeaders(w http.ResponseWriter, r *http.Request, preflight bool) (answered bool) {
	h := w.Header()
	h.Add("Vary", "Origin") // caches must store responses per origin
	origin := httpcodec.First(r.Header, "Origin")
	if origin == "" || !slices.Contains(s.Guard.Origins, origin) {
		return false
	}
	// Allow this origin only, never "*", and never credentials such as cookies.
	h["Access-Control-Allow-Origin"] = []string{origin}
	if !preflight {
		h["Access-Control-Expose-Headers"] = exposed
		return false
	}
	h.Add("Vary", "Access-Control-Request-Headers")
	h["Access-Control-Allow-Methods"] = []string{corsMethods}
	if allowed := s.allowedHeaders(r.Header["Access-Control-Request-Headers"]); allowed != "" {
		h["Access-Control-Allow-Headers"] = []string{allowed}
	}
	h["Access-Control-Max-Age"] = []string{corsMaxAge}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// allowedHeaders returns the allowed headers among those that a page wants to send.
func (s *Server) allowedHeaders(wanted []string) string {
	var allowed, read []string
	if s.Headers != nil {
		read = s.Headers()
	}
	for _, list := range wanted {
		for name := range strings.SplitSeq(list, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			if slices.Contains(corsHeaders, name) || slices.Contains(read, http.CanonicalHeaderKey(name)) ||
				strings.HasPrefix(name, strings.ToLower(httpcodec.ParamPrefix)) && isToken(name) {
				allowed = append(allowed, name)
			}
		}
	}
	return strings.Join(allowed, ", ")
}

// isToken reports whether s, in lower case, is a valid header name (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}) < 0
}
