package httpwire

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// Guard keeps web pages from talking to a server that did not ask for them: the
// attack is a page whose host name is made to resolve to the server's address
// (2026-07-28, basic/transports/streamable-http, Security). It looks at every
// request, of every revision and method. The zero Guard is strict.
type Guard struct {
	// Origins are allowed beside the server's own, as browsers write them
	// ("https://app.example.com").
	Origins []string
	// Hosts are the values of the Host header to answer to, with or without a port.
	// Empty: any on an address that the network can reach, and the names of the
	// loopback interface on that one. The pages of a host that is listed here may use
	// the server; where any host will do, those of a host with a name may not, since
	// everybody can give the server's address a name.
	Hosts []string
}

// refusal is a status and the reason to give with it.
type rejection struct {
	status int
	reason string
}

// check returns why a request must not be answered, or nil.
func (g *Guard) check(r *http.Request) *rejection {
	loopback := onLoopback(r)
	if !g.hostAllowed(r.Host, loopback) {
		return &rejection{http.StatusForbidden, "this server does not answer to the Host " + quote(r.Host)}
	}
	switch origins := r.Header["Origin"]; {
	case len(origins) > 1:
		return &rejection{http.StatusForbidden, "more than one Origin header"}
	case len(origins) == 1 && !g.originAllowed(origins[0], r.Host, loopback):
		return &rejection{http.StatusForbidden, "this server does not serve pages of the Origin " + quote(origins[0])}
	case len(origins) == 0 && crossSite(r.Header["Sec-Fetch-Site"]):
		return &rejection{http.StatusForbidden, "this server does not serve pages of other sites"}
	}
	if r.Method == http.MethodPost && !isJSON(r.Header["Content-Type"]) {
		return &rejection{http.StatusUnsupportedMediaType, "send Content-Type: application/json"}
	}
	return nil
}

// hostAllowed reports whether to answer to a Host header.
func (g *Guard) hostAllowed(host string, loopback bool) bool {
	if len(g.Hosts) > 0 {
		return g.hostListed(host)
	}
	return !loopback || httpurl.IsLoopback(hostname(host))
}

func (g *Guard) hostListed(host string) bool {
	name := hostname(host)
	return slices.ContainsFunc(g.Hosts, func(h string) bool {
		return strings.EqualFold(h, host) || strings.EqualFold(h, name) || strings.EqualFold(h, "["+name+"]")
	})
}

// originAllowed reports whether to serve the pages of an origin. Host has been allowed.
func (g *Guard) originAllowed(origin, host string, loopback bool) bool {
	if slices.Contains(g.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.EqualFold(origin, u.Scheme+"://"+u.Host) {
		return false // "null" too: sandboxed pages are anybody's
	}
	if strings.EqualFold(u.Host, host) {
		return loopback || g.hostListed(host) || isAddress(hostname(host))
	}
	return loopback && httpurl.IsLoopback(hostname(u.Host)) // this machine's own pages
}

// crossSite reports whether a browser says that a page of another site, or of
// another host of this one, has made it send the request. Some requests that pages
// can cause carry no Origin.
func crossSite(site []string) bool {
	return slices.ContainsFunc(site, func(v string) bool { return v != "same-origin" && v != "none" })
}

// onLoopback reports whether the request came in over the loopback interface.
// Without knowing, it assumes so.
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

// hostname takes the port off, and the brackets of an IPv6 address.
func hostname(hostport string) string {
	if strings.IndexByte(hostport, ':') < 0 { // which SplitHostPort would make an error of
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

// isAddress reports whether a host is an IP address, which nobody else can make
// their own.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func isJSON(contentType []string) bool {
	if len(contentType) != 1 {
		return false
	}
	if contentType[0] == "application/json" {
		return true
	}
	kind, params, err := mime.ParseMediaType(contentType[0])
	charset, hasCharset := params["charset"]
	return err == nil && kind == "application/json" && (!hasCharset || strings.EqualFold(charset, "utf-8"))
}

// accepts reports whether the request's Accept header allows a media type, by
// full name or by range. Without the header, everything is allowed.
func accepts(h http.Header, mediaType string) bool {
	values := h["Accept"]
	if len(values) == 0 || values[0] == acceptBoth[0] { // as the protocol wants it, and most write it
		return true
	}
	major, _, _ := strings.Cut(mediaType, "/")
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			kind, params, _ := strings.Cut(part, ";")
			kind = strings.TrimSpace(kind)
			if (strings.EqualFold(kind, mediaType) || kind == "*/*" || strings.EqualFold(kind, major+"/*")) && !isZeroQuality(params) {
				return true
			}
		}
	}
	return false
}

// isZeroQuality reports whether the parameters of a media range say "not this"
// (RFC 9110, 12.4.2).
func isZeroQuality(params string) bool {
	if params == "" {
		return false
	}
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			return err == nil && q == 0
		}
	}
	return false
}

// quote makes a peer's text fit for a sentence of ours.
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
