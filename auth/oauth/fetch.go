package oauth

import (
	"context"
	"errors"
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

// Bounds on one exchange with a server that takes part in authorization.
const (
	exchangeTimeout   = 20 * time.Second
	maxExchangeBody   = 256 << 10
	maxExchangeHeader = 64 << 10
	maxURL            = 4096 // bytes
)

// web is how one MCP server's authorization is reached: guarded where peers have
// named the address, plain where the program has.
type web struct {
	server  *url.URL // of the MCP server
	local   bool     // it is on this machine, so that http may be used there
	plain   *http.Client
	guarded *http.Client
}

func (c *Client) newWeb(server *url.URL) *web {
	local := httpurl.IsLoopback(server.Hostname())
	guard := reach{loopback: local, networks: c.Networks}
	return &web{
		server:  server,
		local:   local,
		plain:   c.newHTTP(nil),
		guarded: c.newHTTP(guard.control),
	}
}

// control looks at an address before it is connected to.
type control func(ctx context.Context, network, address string, conn syscall.RawConn) error

// newHTTP makes a client that keeps no connections: exchanges are rare. A proxy, if
// there is one, is where connections lead, and what checks where they lead further.
func (c *Client) newHTTP(guard control) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, ControlContext: guard}
	if c.Proxy != nil {
		dialer.ControlContext = nil
	}
	if c.egress != nil {
		dialer.ControlContext = c.egress(dialer.ControlContext)
	}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxExchangeHeader,
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
		CheckRedirect: redirect.None, // a redirect could lead to an unchecked address
	}
}

// check parses a URL and holds it against the rules for all that authorization uses.
func (w *web) check(raw string) (*url.URL, error) {
	u, err := checkURL(raw)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "http" && !(w.local && httpurl.IsLoopback(u.Hostname())) {
		return nil, fmt.Errorf("%w: %s is not https", ErrInsecureURL, shown(u))
	}
	return u, nil
}

func checkURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrInsecureURL, maxURL)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: it cannot be parsed", ErrInsecureURL)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%w: its scheme is %.20q and not https", ErrInsecureURL, u.Scheme)
	case u.Hostname() == "" || u.Opaque != "":
		return nil, fmt.Errorf("%w: it names no host", ErrInsecureURL)
	case u.User != nil:
		return nil, fmt.Errorf("%w: it holds a user name", ErrInsecureURL)
	case strings.Contains(raw, "#"):
		return nil, fmt.Errorf("%w: it has a fragment", ErrInsecureURL)
	}
	return u, nil
}

// shown is a URL as errors show it.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// reply is a response whose body has been read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// get fetches a document. Revision, if there is one, is told to the server
// (2025-03-26, basic/authorization, Server Metadata Discovery Headers).
func (w *web) get(ctx context.Context, u *url.URL, revision string) (*reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrInsecureURL, shown(u))
	}
	if revision != "" && httpurl.SameOrigin(u, w.server) {
		req.Header.Set("MCP-Protocol-Version", revision)
	}
	return w.do(req)
}

// do sends a request to a URL that has been checked. The server's own origin is where
// the program itself wanted to go; everything else is guarded.
func (w *web) do(req *http.Request) (*reply, error) {
	if httpurl.SameOrigin(req.URL, w.server) {
		return exchange(w.plain, req)
	}
	return exchange(w.guarded, req)
}

func exchange(c *http.Client, req *http.Request) (*reply, error) {
	ctx, cancel := context.WithTimeout(req.Context(), exchangeTimeout)
	defer cancel()
	req = req.WithContext(ctx)
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, failure(req, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxExchangeBody+1))
	if err != nil {
		return nil, failure(req, err)
	}
	if len(body) > maxExchangeBody {
		return nil, fmt.Errorf("%w: %s answers with more than %d bytes", ErrInvalidResponse, shown(req.URL), maxExchangeBody)
	}
	return &reply{resp.StatusCode, resp.Header, body}, nil
}

// failure takes the URL's query out of an error of net/http: it can hold secrets.
func failure(req *http.Request, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%s %s: %w", req.Method, shown(req.URL), err)
}
