package httpserver

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// Guard checks the Host and Origin headers of each request. It protects against DNS rebinding, where a web page makes
// its host name resolve to the address of the server (2026-07-28, basic/transports/streamable-http, Security). It also
// requires JSON bodies. The zero Guard is strict. A Guard must not change while the server runs.
type Guard struct {
	// Origins are the allowed origins besides the server's own, in the form that browsers
	// send ("https://app.example.com").
	Origins []string
	// Hosts are the allowed values of the Host header, with or without a port. If Hosts is empty, requests over the
	// loopback interface must name that interface, and other requests may have any Host. Web pages of a listed host may
	// use the server. If Hosts is empty, pages of a host name may not, since any DNS name can resolve to the server's
	// address.
	Hosts []string
}

// Check returns an error if the request must not be served because of its Host, Origin or Content-Type header, and the
// status of the response.
func (g *Guard) Check(r *http.Request) (status int, err error) {
	loopback, origins := onLoopback(r), r.Header["Origin"]
	switch {
	case !g.hostAllowed(r.Host, loopback):
		return http.StatusForbidden, errors.New("the Host header must name this server, not " + quote(r.Host) +
			": allow this name with --allow-host of parley, or AllowedHosts of a Go server")
	case len(origins) > 1:
		return http.StatusForbidden, errors.New("the Origin header must occur once")
	case len(origins) == 1 && !g.originAllowed(origins[0], r.Host, loopback):
		return http.StatusForbidden, forbiddenOrigin(origins[0])
	case len(origins) == 0 && crossSite(r.Header["Sec-Fetch-Site"]):
		return http.StatusForbidden, errors.New("cross-site request without an Origin header")
	case r.Method == http.MethodPost && !isJSON(r.Header["Content-Type"]):
		return http.StatusUnsupportedMediaType, errors.New("the Content-Type header must be application/json")
	}
	return 0, nil
}

func forbiddenOrigin(origin string) error {
	return errors.New("the Origin " + quote(origin) + " is not allowed: if you trust its pages, allow it with " +
		"--allow-origin of parley, or AllowedOrigins of a Go server")
}

// hostAllowed reports whether requests may have this Host header.
func (g *Guard) hostAllowed(host string, loopback bool) bool {
	if len(g.Hosts) > 0 {
		return g.hostListed(host)
	}
	return !loopback || httpurl.IsLoopback(hostname(host))
}

// hostListed reports whether Hosts contains host, with or without its port.
func (g *Guard) hostListed(host string) bool {
	name := hostname(host)
	return slices.ContainsFunc(g.Hosts, func(h string) bool {
		return strings.EqualFold(h, host) || strings.EqualFold(h, name) || strings.EqualFold(h, "["+name+"]")
	})
}

// originAllowed reports whether requests of this origin may be served. The caller has checked host.
func (g *Guard) originAllowed(origin, host string, loopback bool) bool {
	if slices.Contains(g.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		!strings.EqualFold(origin, u.Scheme+"://"+u.Host) {
		return false // includes "null", the origin of all sandboxed pages
	}
	if strings.EqualFold(u.Host, host) {
		return loopback || g.hostListed(host) || isAddress(hostname(host))
	}
	return loopback && httpurl.IsLoopback(hostname(u.Host)) // pages of this machine
}

// crossSite reports whether the values of Sec-Fetch-Site say that a page of another origin
// caused the request. Browsers send some such requests without an Origin header.
func crossSite(site []string) bool {
	return slices.ContainsFunc(site, func(v string) bool { return v != "same-origin" && v != "none" })
}

// onLoopback reports whether the request came in over the loopback interface. It reports
// true if the local address is unknown.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return true
	}
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UDPAddr: // HTTP/3
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return false // no page can reach a Unix socket
	}
	return true
}

// hostname returns hostport without its port and without the brackets of an IPv6 address.
func hostname(hostport string) string {
	if strings.IndexByte(hostport, ':') < 0 { // SplitHostPort returns an error without a port
		return hostport
	}
	if h, port, err := net.SplitHostPort(hostport); err == nil && strings.Trim(port, "0123456789") == "" {
		return h
	}
	if h, ok := strings.CutPrefix(hostport, "["); ok {
		if h, ok = strings.CutSuffix(h, "]"); ok {
			return h
		}
	}
	return hostport
}

// isAddress reports whether a host is an IP address, to which DNS rebinding does not apply.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// quote quotes text of a peer for an error message. It shortens long text and replaces
// control characters and quotation marks.
func quote(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return `"` + strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7F || r == '"' {
			return '?'
		}
		return r
	}, s) + `"`
}

// The CORS protocol of the Fetch standard lets web pages of the origins in Guard.Origins send requests and read
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

// addCORSHeaders lets the page that has sent r read the response, if there are Origins. The caller has checked r. If r
// is a preflight request, addCORSHeaders answers it and reports true.
func (g *Guard) addCORSHeaders(w http.ResponseWriter, r *http.Request) (answered bool) {
	h := w.Header()
	h.Add("Vary", "Origin") // caches must store responses per origin
	origin := httpcodec.First(r.Header, "Origin")
	if origin == "" || !slices.Contains(g.Origins, origin) {
		return false
	}
	// Allow this origin only, never "*", and never credentials such as cookies.
	h["Access-Control-Allow-Origin"] = []string{origin}
	if !isPreflight(r) {
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

// isPreflight reports whether a browser asks with r if a page may send a request.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header["Origin"] != nil &&
		r.Header["Access-Control-Request-Method"] != nil
}

// allowedHeaders returns the allowed headers among those that a page wants to send.
func allowedHeaders(wanted []string) string {
	var allowed []string
	for _, list := range wanted {
		for name := range strings.SplitSeq(list, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			if slices.Contains(corsHeaders, name) || strings.HasPrefix(name, strings.ToLower(httpcodec.ParamPrefix)) &&
				isToken(name) {
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
