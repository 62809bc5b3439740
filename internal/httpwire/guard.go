package httpwire

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
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
	// loopback interface on that one.
	Hosts []string
}

// refusal is a status and the reason to give with it.
type refusal struct {
	status int
	reason string
}

// check returns why a request must not be answered, or nil.
func (g *Guard) check(r *http.Request) *refusal {
	loopback := onLoopback(r)
	if !g.hostAllowed(r.Host, loopback) {
		return &refusal{http.StatusForbidden, "this server does not answer to the Host " + quote(r.Host)}
	}
	switch origins := r.Header["Origin"]; {
	case len(origins) > 1:
		return &refusal{http.StatusForbidden, "more than one Origin header"}
	case len(origins) == 1 && !g.originAllowed(origins[0], r.Host, loopback):
		return &refusal{http.StatusForbidden, "this server does not serve pages of the Origin " + quote(origins[0])}
	}
	if r.Method == http.MethodPost && !isJSON(r.Header["Content-Type"]) {
		return &refusal{http.StatusUnsupportedMediaType, "send Content-Type: application/json"}
	}
	return nil
}

func (g *Guard) hostAllowed(host string, loopback bool) bool {
	if len(g.Hosts) > 0 {
		return slices.Contains(g.Hosts, host) || slices.Contains(g.Hosts, hostname(host))
	}
	return !loopback || isLoopbackName(hostname(host))
}

func (g *Guard) originAllowed(origin, host string, loopback bool) bool {
	if slices.Contains(g.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" {
		return false // "null" too: sandboxed pages are anybody's
	}
	if strings.EqualFold(u.Host, host) {
		return true
	}
	return loopback && isLoopbackName(hostname(u.Host)) // this machine's own pages
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
	case *net.UnixAddr:
		return false // no page can reach a Unix socket
	}
	return true
}

func hostname(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		return h
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

func isLoopbackName(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
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
	if len(values) == 0 {
		return true
	}
	major, _, _ := strings.Cut(mediaType, "/")
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			kind, _, _ := strings.Cut(part, ";")
			kind = strings.TrimSpace(kind)
			if strings.EqualFold(kind, mediaType) || kind == "*/*" || strings.EqualFold(kind, major+"/*") {
				return true
			}
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
