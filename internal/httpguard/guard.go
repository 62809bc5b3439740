// Package httpguard checks the Host and Origin headers of requests, for every HTTP server of this module.
package httpguard

import (
	"errors"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// Guard checks the Host and Origin headers of each request. It protects against DNS rebinding, where a web page makes
// its host name resolve to the address of the server (2026-07-28, basic/transports/streamable-http, Security). It also
// requires JSON bodies. The zero Guard is strict. A Guard must not change while the server runs.
type Guard struct {
	// Origins lists the allowed origins besides the server's own, in the form that
	// browsers send ("https://app.example.com").
	Origins []string
	// Hosts lists the allowed values of the Host header, with or without a port. If Hosts is empty, requests over the
	// loopback interface must name that interface, and other requests may name any Host. Web pages of a listed host may
	// use the server. If Hosts is empty, web pages of a host name may not, because any DNS name can resolve to the
	// server's address.
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
		return http.StatusForbidden, ForbiddenOrigin(origins[0])
	case len(origins) == 0 && crossSite(r.Header["Sec-Fetch-Site"]):
		return http.StatusForbidden, errors.New("cross-site request without an Origin header")
	case r.Method == http.MethodPost && !isJSON(r.Header["Content-Type"]):
		return http.StatusUnsupportedMediaType, errors.New("the Content-Type header must be application/json")
	}
	return 0, nil
}

// ForbiddenOrigin returns the error for a page from an origin that may not use the server.
func ForbiddenOrigin(origin string) error {
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

// isJSON reports whether the values of a Content-Type header are one JSON media type in UTF-8.
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
