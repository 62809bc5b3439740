package oauth

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/redirect"
)

// Limits of one exchange with an MCP server or an authorization server.
const (
	exchangeTimeout   = 20 * time.Second
	maxResponseBody   = 256 << 10 // bytes
	maxResponseHeader = 64 << 10  // bytes
	maxURL            = 4096      // bytes
)

// peers sends requests to an MCP server and to its authorization servers.
type peers struct {
	server  *url.URL     // of the MCP server
	local   bool         // the MCP server is on the loopback interface, where http is allowed
	direct  *http.Client // for addresses that the program has configured
	guarded *http.Client // for addresses that a server has named
	trace   func(Step)   // nil: none
}

func (c *Client) newPeers(server *url.URL) *peers {
	local := httpurl.IsLoopback(server.Hostname())
	policy := dialPolicy{loopback: local, networks: c.Networks}
	return &peers{
		server:  server,
		local:   local,
		direct:  c.newHTTP(nil),
		guarded: c.newHTTP(policy.control),
		trace:   c.Trace,
	}
}

// dialControl checks an address before it is dialled.
type dialControl func(ctx context.Context, network, address string, conn syscall.RawConn) error

// newHTTP returns an HTTP client that keeps no idle connections, because exchanges are
// rare. With a proxy, check is not used: the proxy decides which addresses it dials.
func (c *Client) newHTTP(check dialControl) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, ControlContext: check}
	if c.Proxy != nil {
		dialer.ControlContext = nil
	}
	if c.onDial != nil {
		dialer.ControlContext = c.onDial(dialer.ControlContext)
	}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxResponseHeader,
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
	}
	if c.TLS != nil {
		transport.TLSClientConfig = c.TLS.Clone()
	}
	if c.Proxy != nil {
		transport.Proxy = http.ProxyURL(c.Proxy)
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: redirect.None, // a redirect could lead to an unchecked URL
	}
}

// check parses a URL and checks that it is https, or http on the loopback interface if
// the MCP server is there, too.
func (p *peers) check(raw string) (*url.URL, error) {
	u, err := checkURL(raw)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "http" && !(p.local && httpurl.IsLoopback(u.Hostname())) {
		return nil, fmt.Errorf("%w: %s must be https", ErrInsecureURL, withoutQuery(u))
	}
	return u, nil
}

// checkURL parses an http or https URL. It must have a host, and neither user
// information nor a fragment.
func checkURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, fmt.Errorf("%w: it is too long: %d bytes, the limit is %d", ErrInsecureURL, len(raw), maxURL)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: cannot parse it", ErrInsecureURL) // err repeats the URL
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%w: the scheme must be https, got %.20q", ErrInsecureURL, u.Scheme)
	case u.Hostname() == "" || u.Opaque != "":
		return nil, fmt.Errorf("%w: it must have a host", ErrInsecureURL)
	case u.User != nil:
		return nil, fmt.Errorf("%w: it must not have user information", ErrInsecureURL)
	case strings.Contains(raw, "#"):
		return nil, fmt.Errorf("%w: it must not have a fragment", ErrInsecureURL)
	}
	return u, nil
}

// withoutQuery returns scheme, host and path of a URL, for errors and logs.
func withoutQuery(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// response is an HTTP response with its body.
type response struct {
	status int
	header http.Header
	body   []byte
}

// get fetches a document, as the step of a name. It sends revision to the MCP server, if it is not empty
// (2025-03-26, basic/authorization, Server Metadata Discovery Headers).
func (p *peers) get(ctx context.Context, step string, u *url.URL, revision string) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrInsecureURL, withoutQuery(u))
	}
	if revision != "" && httpurl.SameOrigin(u, p.server) {
		req.Header.Set("MCP-Protocol-Version", revision)
	}
	return p.do(step, req)
}

// do sends a request to a URL that has passed check, as the step of a name. The program has configured the
// origin of the MCP server; addresses of other origins are checked when they are
// dialled.
func (p *peers) do(step string, req *http.Request) (*response, error) {
	if httpurl.SameOrigin(req.URL, p.server) {
		return p.send(p.direct, step, req)
	}
	return p.send(p.guarded, step, req)
}

// send sends a request with one of the clients of p, and traces it.
func (p *peers) send(c *http.Client, step string, req *http.Request) (*response, error) {
	if p.trace == nil {
		return send(c, req)
	}
	start := time.Now()
	r, err := send(c, req)
	p.traceExchange(step, req, r, err, start)
	return r, err
}

func send(c *http.Client, req *http.Request) (*response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), exchangeTimeout)
	defer cancel()
	req = req.WithContext(ctx)
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, redact(req, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBody+1))
	if err != nil {
		return nil, redact(req, err)
	}
	if len(body) > maxResponseBody {
		return nil, fmt.Errorf("%w: the response of %s is longer than %d bytes", ErrInvalidResponse, withoutQuery(req.URL), maxResponseBody)
	}
	return &response{resp.StatusCode, resp.Header, body}, nil
}

// redact removes the query of the URL, which can contain secrets, from an error of
// net/http.
func redact(req *http.Request, err error) error {
	return fmt.Errorf("%s %s: %w", req.Method, withoutQuery(req.URL), httpurl.Redact(err))
}
