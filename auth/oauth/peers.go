package oauth

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/auth/internal/secrets"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/redirect"
)

// Limits of one exchange with an MCP server or an authorization server.
const (
	exchangeTimeout   = 20 * time.Second
	maxResponseBody   = 256 << 10 // bytes
	maxResponseHeader = 64 << 10  // bytes
)

// peers sends requests to an MCP server and to its authorization servers.
type peers struct {
	server  *url.URL     // URL of the MCP server
	local   bool         // the MCP server is on the loopback interface, where http is allowed
	direct  *http.Client // for addresses that the program has configured
	guarded *http.Client // for addresses that a server has named
	known   *secrets.Memory
}

func (c *Client) newPeers(server *url.URL) *peers {
	local := httpurl.IsLoopback(server.Hostname())
	policy := &dialPolicy{loopback: local, networks: c.Networks}
	return &peers{
		server:  server,
		local:   local,
		direct:  c.newHTTP(nil),
		guarded: c.newHTTP(policy),
		known:   &c.known,
	}
}

// dialControl checks an address before it is dialled.
type dialControl func(ctx context.Context, network, address string, conn syscall.RawConn) error

// newHTTP returns an HTTP client for addresses that policy allows; nil: for all addresses.
func (c *Client) newHTTP(policy *dialPolicy) *http.Client {
	var check dialControl
	if policy != nil {
		check = policy.control
	}
	var transport http.RoundTripper = c.newTransport(check)
	if c.Proxy != nil {
		proxied := c.newTransport(nil) // it dials the proxy, which may have any address
		proxied.Proxy = func(req *http.Request) (*url.URL, error) {
			return req.Context().Value(proxyKey{}).(*url.URL), nil
		}
		transport = &proxyTransport{c.Proxy, policy, transport, proxied}
	}
	if c.Wrap != nil {
		transport = c.Wrap(transport)
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: redirect.None, // a redirect could lead to an unchecked URL
	}
}

// newTransport returns a transport that keeps no idle connections, because exchanges are rare.
func (c *Client) newTransport(check dialControl) *http.Transport {
	if c.onDial != nil {
		check = c.onDial(check)
	}
	transport := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout, ControlContext: check}).DialContext,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxResponseHeader,
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
	}
	if c.TLS != nil {
		transport.TLSClientConfig = c.TLS.Clone()
	}
	return transport
}

// proxyTransport sends requests to their proxies. A request without a proxy is sent only to addresses that the
// policy allows. With a proxy, the proxy resolves the names.
type proxyTransport struct {
	proxy           func(*http.Request) (*url.URL, error)
	policy          *dialPolicy // nil: all addresses
	direct, proxied http.RoundTripper
}

type proxyKey struct{} // of the proxy in the context of a request

// RoundTrip implements http.RoundTripper.
func (t *proxyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	proxy, err := t.proxy(req)
	if err == nil && proxy != nil && t.policy != nil {
		err = t.policy.checkHost(req.URL.Hostname())
	}
	switch {
	case err != nil:
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	case proxy == nil:
		return t.direct.RoundTrip(req)
	}
	resp, err := t.proxied.RoundTrip(req.WithContext(context.WithValue(req.Context(), proxyKey{}, proxy)))
	if err != nil {
		return nil, fmt.Errorf("through the proxy %s: %w", proxy.Host, err)
	}
	return resp, nil
}

// check parses a URL and checks that it is https, or http on the loopback interface if
// the MCP server is there, too.
func (p *peers) check(raw string) (*url.URL, error) {
	u, err := httpurl.Parse(raw)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "http" && !(p.local && httpurl.IsLoopback(u.Hostname())) {
		return nil, fmt.Errorf("%w: %s must be https", httpurl.ErrInsecure, httpurl.WithoutQuery(u))
	}
	return u, nil
}

// response is an HTTP response with its body.
type response struct {
	status   int
	header   http.Header
	body     []byte
	redirect string      // the target of a redirect, which is not followed
	secrets  secrets.Set // secrets of this request and of earlier ones
}

// statusText describes the status of a response to a request for a document.
func (r *response) statusText() string {
	if r.redirect != "" {
		return fmt.Sprintf("HTTP status %d, a redirect to %s, which is not followed", r.status, r.redirect)
	}
	return fmt.Sprintf("HTTP status %d", r.status)
}

// get fetches a document. It sends revision, if it is not empty, to the MCP server (2025-03-26,
// basic/authorization, Server Metadata Discovery Headers).
func (p *peers) get(ctx context.Context, u *url.URL, revision string) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", httpurl.ErrInsecure, httpurl.WithoutQuery(u))
	}
	if revision != "" && httpurl.SameOrigin(u, p.server) {
		req.Header.Set("MCP-Protocol-Version", revision)
	}
	return p.do(req)
}

// do sends a request to a URL that has passed check. The program has configured the
// origin of the MCP server; addresses of other origins are checked when they are
// dialled.
func (p *peers) do(req *http.Request) (*response, error) {
	if httpurl.SameOrigin(req.URL, p.server) {
		return p.exchange(p.direct, req)
	}
	return p.exchange(p.guarded, req)
}

// exchange sends a request and reads the response, through c.
func (p *peers) exchange(c *http.Client, req *http.Request) (*response, error) {
	hide := p.known.With(secrets.Of(req))
	ctx, cancel := context.WithTimeout(req.Context(), exchangeTimeout)
	defer cancel()
	req = req.WithContext(ctx)
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, redact(req, hide, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBody+1))
	if err != nil {
		return nil, redact(req, hide, err)
	}
	if len(body) > maxResponseBody {
		return nil, fmt.Errorf("%w: the response of %s is longer than %d bytes", errInvalidResponse,
			httpurl.WithoutQuery(req.URL), maxResponseBody)
	}
	return &response{resp.StatusCode, resp.Header, body, redirect.Target(resp), hide}, nil
}

// redact removes secrets from an error of net/http: the query of the URL, and any secret that an invalid
// response repeats.
func redact(req *http.Request, hide secrets.Set, err error) error {
	return fmt.Errorf("%s %s: %w", req.Method, httpurl.WithoutQuery(req.URL), hide.CleanError(httpurl.Redact(err)))
}

// specialPurpose lists networks with a special purpose (RFC 6890 and its successors)
// and the addresses of cloud metadata services, if package netip has no method for
// them. It is never modified.
var specialPurpose = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "168.63.129.16/32",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// globalUnicast contains all public IPv6 addresses (RFC 4291, section 2.4, and the
// registry that it names). All other networks have a special purpose or are unassigned,
// and some embed IPv4 addresses.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// nat64 is the prefix with which IPv6 networks reach IPv4 addresses (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(all ...string) (parsed []netip.Prefix) {
	for _, p := range all {
		parsed = append(parsed, netip.MustParsePrefix(p))
	}
	return parsed
}

// isPublic reports whether an address is a public address of the internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if a.Is6() && !globalUnicast.Contains(a) || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range specialPurpose {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// dialPolicy decides which addresses may be dialled for a URL that a server named.
// Public addresses are allowed.
type dialPolicy struct {
	loopback bool           // allow the loopback interface, too
	networks []netip.Prefix // allow these networks, too
}

func (p dialPolicy) allows(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if isPublic(a) || p.loopback && a.IsLoopback() {
		return true
	}
	for _, n := range p.networks {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

const dialTimeout = 10 * time.Second

// control implements net.Dialer.ControlContext. It checks the address of the connection
// itself, because a name can resolve to another address each time.
func (p dialPolicy) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s %.100q", errForbiddenAddress, network, address)
	}
	return p.check(a.Addr())
}

func (p dialPolicy) check(a netip.Addr) error {
	if !p.allows(a) {
		return fmt.Errorf("%w: %s; to allow it, add its network to Client.Networks", errForbiddenAddress, a)
	}
	return nil
}

// checkHost checks a host that a proxy connects to. The proxy resolves names.
func (p dialPolicy) checkHost(host string) error {
	host = strings.TrimSuffix(host, ".")
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	a, err := netip.ParseAddr(host)
	if err == nil {
		return p.check(a)
	}
	// an address in another notation
	if last := host[strings.LastIndexByte(host, '.')+1:]; last == "" || '0' <= last[0] && last[0] <= '9' {
		return fmt.Errorf("%w: %.100q", errForbiddenAddress, host)
	}
	return nil
}
