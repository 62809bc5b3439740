package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// address checks that the host of a URL can be reached, through the proxy of the environment if there is one, and, for
// https, that its certificate is valid. It reports whether a connection is possible.
func (e *Examination) address(ctx context.Context, raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		e.report("address", Problem, "write the URL as https://host/path", "cannot parse the URL")
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if proxy, err := e.proxyOf(&http.Request{URL: u}); err != nil {
		e.report("address", Problem, "correct the environment variables HTTPS_PROXY and HTTP_PROXY", "%s", httpurl.Redact(err))
		return false
	} else if proxy != nil {
		return e.proxied(ctx, u, proxy)
	}
	start := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		e.report("address", Problem, adviceAddress(err), "%s", err)
		return false
	}
	defer conn.Close()
	e.report("address", OK, "", "%s accepts connections after %v", conn.RemoteAddr(), terminal.Duration(time.Since(start)))
	if u.Scheme == "https" {
		return e.certificate(ctx, conn, u.Hostname())
	}
	e.unencrypted(u)
	return true
}

// unencrypted warns of http.
func (e *Examination) unencrypted(u *url.URL) {
	if !httpurl.IsLoopback(u.Hostname()) {
		e.report("address", Warning, "serve https, for example through a reverse proxy", "http sends everything, tokens included, without encryption")
	}
}

// proxyOf returns the proxy for a request, or nil.
func (e *Examination) proxyOf(req *http.Request) (*url.URL, error) {
	if e.proxy != nil {
		return e.proxy(req)
	}
	return http.ProxyFromEnvironment(req)
}

// proxied is address for a URL that is requested through a proxy.
func (e *Examination) proxied(ctx context.Context, u, proxy *url.URL) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, u.String(), nil)
	if err != nil {
		e.report("address", Problem, "write the URL as https://host/path", "%s", httpurl.Redact(err))
		return false
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}
	start := time.Now()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		e.report("address", Problem, "check the proxy, which the environment names, and whether it can reach the server", "no connection to %s through the proxy %s: %s", u.Host, proxy.Host, httpurl.Redact(err))
		return false
	}
	resp.Body.Close()
	e.report("address", OK, "", "%s answers through the proxy %s after %v", u.Host, proxy.Host, terminal.Duration(time.Since(start)))
	if resp.TLS == nil {
		e.unencrypted(u)
		return true
	}
	e.tlsState(*resp.TLS, time.Since(start))
	return true
}

func adviceAddress(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "check the host name"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start the server, or check the port"
	}
	return "check the network, a firewall, and whether a proxy is required"
}

// certificate performs a TLS handshake and reports its result.
func (e *Examination) certificate(ctx context.Context, conn net.Conn, host string) bool {
	secure := tls.Client(conn, &tls.Config{ServerName: host})
	start := time.Now()
	if err := secure.HandshakeContext(ctx); err != nil {
		fix := "check that the server supports TLS at this port"
		if invalid := new(tls.CertificateVerificationError); errors.As(err, &invalid) {
			fix = "install a certificate for this host, with all intermediate certificates, from an issuer that the clients trust"
		}
		e.report("tls", Problem, fix, "%s", err)
		return false
	}
	e.tlsState(secure.ConnectionState(), time.Since(start))
	return true
}

// tlsState reports the version of TLS and the validity of the certificate.
func (e *Examination) tlsState(state tls.ConnectionState, took time.Duration) {
	expires := state.PeerCertificates[0].NotAfter
	e.report("tls", OK, "", "%s after %v; the certificate is valid until %s", tls.VersionName(state.Version), terminal.Duration(took), expires.Format(time.DateOnly))
	if e.time().AddDate(0, 0, 14).After(expires) {
		e.report("tls", Warning, "renew the certificate", "the certificate expires on %s", expires.Format(time.DateOnly))
	}
	if state.Version < tls.VersionTLS12 {
		e.report("tls", Warning, "enable TLS 1.3", "%s is outdated", tls.VersionName(state.Version))
	}
}

func (e *Examination) time() time.Time {
	if e.now != nil {
		return e.now()
	}
	return time.Now()
}
