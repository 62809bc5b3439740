package httpguard

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

var (
	onLoopback4 = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	onLoopback6 = &net.TCPAddr{IP: net.IPv6loopback, Port: 8080}
	onNetwork   = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8080}
	onUnix      = &net.UnixAddr{Name: "/run/s", Net: "unix"}
)

// asked returns a request that came in on a local address, or on an unknown address if local is nil.
func asked(method string, local net.Addr, host string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "/", nil)
	r.Host = host
	if local != nil {
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// status returns the status that Check returns, or 200.
func status(g Guard, r *http.Request) int {
	status, err := g.Check(r)
	if err == nil {
		return http.StatusOK
	}
	return status
}

// Rule T3: a request over the loopback interface must name that interface in the Host
// header. Other names may come from a page after DNS rebinding.
func TestHostIsCheckedOnTheLoopbackInterface(t *testing.T) {
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "LOCALHOST:8080": 200,
		"127.0.0.1": 200, "127.0.0.1:8080": 200, "127.0.0.2:1": 200,
		"[::1]": 200, "[::1]:8080": 200, "[::ffff:127.0.0.1]:8080": 200,

		"":                          403,
		"evil.example":              403,
		"evil.example:8080":         403,
		"127.0.0.1.evil.example":    403,
		"localhost.evil.example":    403,
		"evil.example.localhost":    403,
		"localhost.":                403, // clients send no trailing dot
		"127.0.0.1.":                403,
		"127.1":                     403,
		"0.0.0.0:8080":              403,
		"2130706433":                403,
		"0177.0.0.1":                403,
		"0x7f.0.0.1":                403,
		"192.0.2.1:8080":            403,
		"[::]:8080":                 403,
		"[::1":                      403,
		"[::1]evil.example":         403,
		"127.0.0.1:80:80":           403,
		"localhost:80@evil.example": 403,
		"user@localhost":            403,
		"localhost/evil":            403,
		"localhost\x00":             403,
		"ｌocalhost":                 403,
	} {
		for _, local := range []net.Addr{onLoopback4, onLoopback6, nil} {
			var g Guard
			must.CheckEqual(t, status(g, asked(http.MethodGet, local, host)), want, host, local)
		}
	}
}

// Rule T3.
func TestHostIsCheckedOnOtherInterfacesIfConfigured(t *testing.T) {
	for _, local := range []net.Addr{onNetwork, onUnix, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1)}} {
		for _, host := range []string{"example.com", "192.0.2.1:8080", "whatever:1", ""} {
			var g Guard
			must.CheckEqual(t, status(g, asked(http.MethodGet, local, host)), http.StatusOK, host, local)
		}
	}
	for host, want := range map[string]int{
		"example.com": 200, "example.com:443": 200, "EXAMPLE.com": 200, "exact.example:8443": 200,
		"[2001:db8::1]:80": 200,
		"[2001:db8::2]":    200,
		"exact.example":    403, "exact.example:8444": 403, "www.example.com": 403, "example.com.": 403,
		"localhost": 403,
		"":          403, "evil.example": 403,
	} {
		g := Guard{Hosts: []string{"example.com", "exact.example:8443", "2001:db8::1", "[2001:db8::2]"}}
		for _, local := range []net.Addr{onNetwork, onLoopback4, onUnix, nil} {
			must.CheckEqual(t, status(g, asked(http.MethodGet, local, host)), want, host, local)
		}
	}
}

// Rules T1, T2.
func TestOriginIsChecked(t *testing.T) {
	const host = "127.0.0.1:8080"
	for origin, want := range map[string]int{
		"http://127.0.0.1:8080":   200, // the server's own origin
		"http://127.0.0.1":        200, // pages of this machine
		"http://localhost:3000":   200,
		"https://LOCALHOST":       200,
		"http://[::1]:8080":       200,
		"https://app.example":     200, // allowed
		"https://app.example:444": 403,
		"http://app.example":      403,
		"https://APP.example":     403, // browsers send lower case only

		"":                                      403,
		"null":                                  403,
		"file://":                               403,
		"chrome-extension://abcdef":             403,
		"http://evil.example":                   403,
		"http://127.0.0.1.evil.example":         403,
		"http://127.0.0.1:8080.evil.example":    403,
		"http://localhost.evil.example":         403,
		"http://evil.example#localhost":         403,
		"http://localhost#evil":                 403,
		"http://localhost?":                     403,
		"http://localhost?evil":                 403,
		"http://localhost/":                     403,
		"http://localhost/evil":                 403,
		"http://user@localhost":                 403,
		"http://localhost:80@evil.example":      403,
		"http://[::1]evil.example":              403,
		"http://[::1":                           403,
		"http://127.0.0.1%2eevil.example":       403,
		"http://localhost, http://evil.example": 403,
		" http://localhost":                     403,
		"http:/localhost":                       403,
		"http:localhost":                        403,
		"//localhost":                           403,
		"localhost":                             403,
		"ftp://localhost":                       403,
		"javascript://localhost":                403,
		"http://":                               403,
		"http://localhost\x7f":                  403,
	} {
		g := Guard{Origins: []string{"https://app.example"}}
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions,
			http.MethodHead, http.MethodPut} {
			r := asked(method, onLoopback4, host, "Content-Type", "application/json")
			r.Header["Origin"] = []string{origin}
			must.CheckEqual(t, status(g, r), want, method, origin)
		}
	}
}

// On a server that allows any Host, an equal Host and Origin prove nothing: DNS rebinding
// makes them equal.
// Rule T1.
func TestSameOriginCountsForKnownHostsOnly(t *testing.T) {
	for _, tc := range []struct {
		hosts        []string
		local        net.Addr
		host, origin string
		want         int
	}{
		{nil, onNetwork, "rebound.example:8080", "http://rebound.example:8080", 403},
		{nil, onNetwork, "192.0.2.1:8080", "http://192.0.2.1:8080", 200}, // an address cannot be rebound
		{nil, onNetwork, "[2001:db8::1]:8080", "http://[2001:db8::1]:8080", 200},
		{nil, onNetwork, "192.0.2.1:8080", "http://192.0.2.1:9090", 403},
		{nil, onNetwork, "192.0.2.1:8080", "http://localhost:8080", 403}, // pages of the client's machine
		{[]string{"example.com"}, onNetwork, "example.com", "https://example.com", 200},
		{[]string{"example.com"}, onNetwork, "example.com:8443", "https://example.com:8443", 200},
		{[]string{"example.com"}, onNetwork, "example.com", "https://evil.example", 403},
		// behind a proxy on this machine
		{[]string{"example.com"}, onLoopback4, "example.com", "https://example.com", 200},
		{nil, onUnix, "rebound.example", "http://rebound.example", 403},
	} {
		g := Guard{Hosts: tc.hosts}
		if got := status(g, asked(http.MethodPost, tc.local, tc.host, "Content-Type", "application/json", "Origin",
			tc.origin)); got != tc.want {
			t.Errorf("%q on %v, Host %s, Origin %s: %d, want %d", tc.hosts, tc.local, tc.host, tc.origin, got, tc.want)
		}
	}
}

// Rule T1.
func TestSeveralOriginHeadersAreRejected(t *testing.T) {
	var g Guard
	r := asked(http.MethodGet, onLoopback4, "localhost", "Origin", "http://localhost", "Origin", "http://localhost")
	must.CheckEqual(t, status(g, r), http.StatusForbidden)
}

// An image on a page or a link makes a browser send a GET without an Origin header.
// Rule T1.
func TestCrossSiteRequestsWithoutOriginAreRejected(t *testing.T) {
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "": 403, "same-origin": 200,
		"none": 200} {
		var g Guard
		r := asked(http.MethodGet, onLoopback4, "localhost")
		r.Header["Sec-Fetch-Site"] = []string{site}
		must.CheckEqual(t, status(g, r), want, site)
		r.Header["Origin"] = []string{"http://localhost"} // takes precedence
		must.CheckEqual(t, status(g, r), http.StatusOK, site)
	}
}

// A form on any page can send a body of a type other than JSON.
func TestPostRequiresJSON(t *testing.T) {
	for contentType, want := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, "application/json;charset=UTF-8": 200,
		"APPLICATION/JSON": 200, "application/json;": 200,
		"application/json; charset=latin1": 415, "application/jsonp": 415, "text/plain": 415, "": 415,
		"application/x-www-form-urlencoded": 415,
		"multipart/form-data":               415, "text/plain; application/json": 415,
		"application/json, text/plain": 415,
		"application/json; charset":    415,
		"application/vnd.api+json":     415,
	} {
		var g Guard
		r := asked(http.MethodPost, onLoopback4, "localhost")
		r.Header["Content-Type"] = []string{contentType}
		must.CheckEqual(t, status(g, r), want, contentType)
	}
	var g Guard
	must.CheckEqual(t, status(g, asked(http.MethodPost, onLoopback4, "localhost")), http.StatusUnsupportedMediaType,
		"no Content-Type")
	must.CheckEqual(t, status(g, asked(http.MethodPost, onLoopback4, "localhost", "Content-Type", "application/json",
		"Content-Type", "text/plain")), http.StatusUnsupportedMediaType, "two Content-Type headers")
	must.CheckEqual(t, status(g, asked(http.MethodGet, onLoopback4, "localhost")), http.StatusOK)
}

func TestQuoteReplacesControlCharacters(t *testing.T) {
	long := make([]byte, 1000)
	for i := range long {
		long[i] = 'a'
	}
	for text, want := range map[string]string{
		"plain":            `"plain"`,
		"a\"b\r\nc\x1b[1m": `"a?b??c?[1m"`,
	} {
		must.CheckEqual(t, quote(text), want, text)
	}
	got := quote(string(long))
	must.CheckThat(t, len(got) <= 120, "%d bytes", len(got))
}

// FuzzOriginHost checks that a request is served only if its Host is in the list of hosts or names the loopback
// interface, and its Origin is in the list of origins or has such a host. Both net/url and a second parser determine
// the hosts.
func FuzzOriginHost(f *testing.F) {
	for _, s := range []string{"http://localhost", "http://127.0.0.1:1", "http://[::1]", "null", "http://a@localhost",
		"http://localhost.evil", "https://app.example", "https://mcp.example:8443", "http://localhost:1@evil",
		"http://localhost#x"} {
		f.Add(s, "localhost", false)
		f.Add(s, "mcp.example:8443", true)
	}
	f.Fuzz(func(t *testing.T, origin, host string, configured bool) {
		var g Guard
		local := onLoopback4
		allowed := isLoopbackHostPort
		if configured {
			g, local = Guard{Origins: []string{"https://app.example"}, Hosts: []string{"mcp.example"}}, onNetwork
			allowed = func(s string) bool { return equalFold(withoutPort(s), "mcp.example") }
		}
		r := asked(http.MethodGet, local, host)
		r.Header["Origin"] = []string{origin}
		if _, err := g.Check(r); err != nil {
			return
		}
		must.That(t, allowed(host), "Host %q is served", host)
		if configured && origin == "https://app.example" {
			return
		}
		rest := origin
		for _, scheme := range []string{"http://", "https://"} {
			if len(rest) >= len(scheme) && equalFold(rest[:len(scheme)], scheme) {
				rest = rest[len(scheme):]
				break
			}
		}
		must.That(t, allowed(rest), "Origin %q with Host %q is served", origin, host)
		u, err := url.Parse(origin)
		must.That(t, err == nil && allowed(u.Host) && u.User == nil && u.Path == "" && u.RawQuery == "" &&
			u.Fragment == "", "Origin %q with Host %q is served: net/url parses it as %+v, %v", origin, host, u, err)
	})
}

func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i]|0x20 != b[i]|0x20 {
			return false
		}
	}
	return true
}

func isLoopbackHostPort(s string) bool {
	s = withoutPort(s)
	if equalFold(s, "localhost") {
		return true
	}
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		s = s[1 : len(s)-1]
	}
	ip := net.ParseIP(s)
	return ip != nil && ip.IsLoopback()
}

func withoutPort(s string) string {
	if i := lastColon(s); i >= 0 {
		return s[:i]
	}
	return s
}

// lastColon returns the index of the colon before a port, or -1.
func lastColon(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		switch s[i] {
		case ']':
			return -1
		case ':':
			for j := range i { // a second colon: part of an IPv6 address
				if s[j] == ':' && s[0] != '[' {
					return -1
				}
			}
			return i
		}
	}
	return -1
}
