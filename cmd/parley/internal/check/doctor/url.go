package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/trace"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// address checks that the host of a URL can be reached, through the proxy of the environment if there is one, and, for
// https, that its certificate is valid. It reports whether a connection is possible.
func (e *Examination) address(ctx context.Context, raw string) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, raw, nil)
	if err != nil || req.URL.Hostname() == "" {
		e.report("address", Problem, "write the URL as https://host/path", "cannot parse the URL")
		return false
	}
	proxy, err := e.proxyOf(req)
	if err != nil {
		e.report("address", Problem, "correct the environment variables HTTPS_PROXY and HTTP_PROXY", "%s",
			httpurl.Redact(err))
		return false
	}
	var conn net.Conn
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if conn = info.Conn; proxy == nil {
			cancel() // only a response shows that a proxy reaches the server
		}
	}}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}
	start := time.Now()
	resp, err := transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	took := terminal.Duration(time.Since(start))
	if err == nil {
		resp.Body.Close()
	}
	switch invalid := new(tls.CertificateVerificationError); {
	case conn != nil && proxy == nil:
		e.report("address", OK, "", "%s accepts connections after %v", conn.RemoteAddr(), took)
	case err == nil:
		e.report("address", OK, "", "%s answers through the proxy %s after %v", req.URL.Host, proxy.Host, took)
	case errors.As(err, &invalid):
		e.report("tls", Problem, "install a certificate for this host, with all intermediate certificates, from an "+
			"issuer that the clients trust", "%s", err)
		return false
	case errors.As(err, new(tls.RecordHeaderError)), errors.As(err, new(tls.AlertError)):
		e.report("tls", Problem, "check that the server supports TLS at this port", "%s", err)
		return false
	case proxy != nil:
		e.report("address", Problem,
			"check the proxy, which the environment names, and whether it can reach the server",
			"no connection to %s through the proxy %s: %s", req.URL.Host, proxy.Host, httpurl.Redact(err))
		return false
	default:
		e.report("address", Problem, adviceAddress(err), "%s", err)
		return false
	}
	if secure, ok := conn.(*tls.Conn); ok {
		e.tlsState(secure.ConnectionState())
	} else if !httpurl.IsLoopback(req.URL.Hostname()) {
		e.report("address", Warning, "serve https, for example through a reverse proxy",
			"http sends everything, tokens included, without encryption")
	}
	return true
}

// proxyOf returns the proxy for a request, or nil.
func (e *Examination) proxyOf(req *http.Request) (*url.URL, error) {
	if e.proxy != nil {
		return e.proxy(req)
	}
	return http.ProxyFromEnvironment(req)
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

// tlsState reports the version of TLS and the validity of the certificate.
func (e *Examination) tlsState(state tls.ConnectionState) {
	expires := state.PeerCertificates[0].NotAfter
	e.report("tls", OK, "", "%s; the certificate is valid until %s", tls.VersionName(state.Version),
		expires.Format(time.DateOnly))
	if e.time().AddDate(0, 0, 14).After(expires) {
		e.report("tls", Warning, "renew the certificate", "the certificate expires on %s",
			expires.Format(time.DateOnly))
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

// rule is a rule for HTTP endpoints.
type rule struct {
	check string // the check of the finding
	does  string // what a server does that obeys the rule, such as "rejects a header …"
	fails string // what the others do
	level Level  // of the finding if the server does not
	fix   string
	send  func() (*answer, error)
	obeys func(a *answer) bool
}

// endpoint examines an HTTP endpoint by the rules of the revisions that it supports.
func (e *Examination) endpoint(ctx context.Context, target *client.HTTPTarget, supported []mcp.Revision) {
	p := e.newProber(target)
	if slices.Contains(supported, mcp.V20260728) {
		e.apply(ctx, p.originRules(func(headers ...string) (*answer, error) {
			return p.post(ctx, stateless(1, string(mcp.V20260728), mcp.MethodDiscover), append([]string{headerRevision,
				string(mcp.V20260728), headerMethod, mcp.MethodDiscover}, headers...)...)
		}))
	}
	for _, r := range supported {
		if r >= mcp.V20250326 && r < mcp.V20260728 { // Streamable HTTP with sessions
			e.session(ctx, p, r)
			break
		}
	}
	if p.url != target.URL {
		e.report("address", Note, "use "+client.URL(p.url).String()+", because some clients do not follow redirects",
			"the server redirects requests")
	}
}

// apply checks rules and reports the findings.
func (e *Examination) apply(ctx context.Context, rules []rule) {
	for _, r := range rules {
		a, err := r.send()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			e.report(r.check, Problem, "answer every request within seconds",
				"cannot check whether the server %s: %s", r.does, e.text(err))
		case r.obeys(a):
			e.report(r.check, OK, "", "%s", r.does)
		default:
			e.report(r.check, r.level, r.fix, "%s: it answers with status %d%s", r.fails, a.status, a.errorText())
		}
	}
}

// errorText describes the error in an answer.
func (a *answer) errorText() string {
	switch {
	case a.message == nil:
		return " and no JSON-RPC response"
	case a.message.Err == nil:
		return " and a result"
	}
	return " and the error " + a.message.Err.Error()
}

// originRules are the rules about the headers Origin and Host, which protect against DNS rebinding (2025-11-25,
// basic/transports, Security Warning). Post sends a request that the server accepts, with more headers.
func (p *prober) originRules(post func(headers ...string) (*answer, error)) []rule {
	rejects := func(a *answer) bool { return a.status == http.StatusForbidden }
	level := Warning
	u, err := url.Parse(p.target.URL)
	local := err == nil && httpurl.IsLoopback(u.Hostname())
	if local {
		level = Problem // every web page in the user's browser can reach it
	}
	rules := []rule{{
		check: "origin", does: "rejects requests from web pages of other origins with status 403", level: level,
		fails: "does not reject requests from web pages of other origins with status 403",
		fix: "compare the header Origin with the origins that you allow; SDKs have a setting for it, such as " +
			"TransportSecuritySettings in Python",
		send:  func() (*answer, error) { return post("Origin", "http://doctor.invalid") },
		obeys: rejects,
	}}
	if local {
		rules = append(rules, rule{
			check: "origin", does: "rejects requests for another host", level: Warning,
			fails: "does not reject requests for another host",
			fix: "compare the header Host with the names of the server, so that a web page cannot reach it by DNS " +
				"rebinding",
			send:  func() (*answer, error) { return post("Host", "doctor.invalid") },
			obeys: func(a *answer) bool { return a.status >= 400 && a.status < 500 },
		})
	}
	return rules
}

// stateless returns a request of 2026-07-28 without parameters.
func stateless(id int, version, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{},`+
		`"io.modelcontextprotocol/clientInfo":{"name":"parley doctor","version":"1"}}}}`, id, method, version)
}

// errDiscovered ends a login after the discovery, before anything is registered or opened.
var errDiscovered = errors.New("the discovery has succeeded")

// discoverOnly is an interaction at which a login ends.
type discoverOnly struct{}

// Begin implements oauth.Interaction.
func (discoverOnly) Begin(context.Context, string) (oauth.Flow, error) { return nil, errDiscovered }

// authorization examines what the server requires of requests without a token, how clients find its authorization
// server, and the stored login. Failed is the error of the connection, if there is one.
func (e *Examination) authorization(ctx context.Context, target *client.HTTPTarget, failed error) {
	p := e.newProber(target)
	p.auth = nil
	p.target = &client.HTTPTarget{URL: target.URL} // without the user's headers
	a, err := p.post(ctx, pingMessage)
	if err != nil {
		e.report("login", Problem, "answer requests without a token with status 401",
			"a request without a token fails: %s", e.text(err))
		return
	}
	if a.status != http.StatusUnauthorized {
		if u, err := url.Parse(target.URL); err == nil && !httpurl.IsLoopback(u.Hostname()) && failed == nil &&
			a.status != http.StatusForbidden {
			e.report("login", Note, "",
				"answers requests without a token; every client that can reach the server can use it")
		}
		if !isUnauthorized(failed) {
			return
		}
	}
	found, err := e.discover(ctx, target.URL, "")
	if err == nil && found.Issuer == "" {
		e.report("login", Note, "",
			"requires credentials, and names no authorization server, so clients cannot log in; "+
				"they send a token that users give them")
	} else {
		e.challenge(a)
		e.discovery(found, err)
		e.login(ctx, target)
	}
	e.token(ctx, target, found)
}

func isUnauthorized(err error) bool {
	var status *call.StatusError
	return errors.Is(err, call.ErrUnauthorized) || errors.As(err, &status) && status.Status == http.StatusUnauthorized
}

// challenge examines the challenge of a response with status 401.
func (e *Examination) challenge(a *answer) {
	for _, c := range challenge.Parse(a.header.Values("Www-Authenticate")) {
		switch {
		case !c.Is("Bearer") && !c.Is("DPoP"):
		case c.Params["resource_metadata"] == "":
			e.report("login", Warning,
				"add resource_metadata to the challenge, for clients that do not look at well-known URLs",
				"the challenge does not name the metadata of the server")
			return
		default:
			e.report("login", OK, "", "requires a token; the challenge names the metadata at %s",
				c.Params["resource_metadata"])
			return
		}
	}
	e.report("login", Problem, "add the header WWW-Authenticate: Bearer resource_metadata=\"…\" to responses with "+
		"status 401",
		"the response with status %d has no challenge, so clients cannot find out how to log in", a.status)
}

// issuerMetadata is a part of the metadata of an authorization server.
type issuerMetadata struct {
	Issuer       string `json:"issuer"`
	Registration string `json:"registration_endpoint"`
	Documents    bool   `json:"client_id_metadata_document_supported"`
}

// discovered is what a login finds out about a server.
type discovered struct {
	issuerMetadata
	resource   string
	issuers    []string // that the server names
	challenged []string // the scopes of the challenge
}

// discover finds the authorization server as a login does. The metadata of the authorization server is zero without an
// error if there is none. If the server names several, the issuer prefer decides, which may be empty.
func (e *Examination) discover(ctx context.Context, server, prefer string) (found discovered, err error) {
	c := &oauth.Client{Interaction: discoverOnly{}, Registrations: []oauth.Registration{{Issuer: prefer}},
		Logger: slog.New(slog.DiscardHandler), Proxy: e.proxyOf,
		Wrap: (&trace.Recorder{Record: func(s trace.Step) {
			var resource struct {
				Resource string   `json:"resource"`
				Issuers  []string `json:"authorization_servers"`
			}
			switch { // the login reports invalid metadata
			case s.Name == "challenge":
				for _, c := range challenge.Parse(s.ResponseHeader.Values("WWW-Authenticate")) {
					found.challenged = append(found.challenged, strings.Fields(c.Params["scope"])...)
				}
			case s.Status != http.StatusOK:
			case s.Name == "resource metadata" && schema.Decode(s.ResponseBody, &resource) == nil:
				found.resource, found.issuers = resource.Resource, resource.Issuers
			case s.Name == "authorization server metadata":
				_ = schema.Decode(s.ResponseBody, &found.issuerMetadata)
			}
		}}).Wrap}
	if err = c.Login(ctx, server); errors.Is(err, errDiscovered) {
		err = nil
	}
	return found, err
}

// discovery reports the result of discover.
func (e *Examination) discovery(issuer discovered, err error) {
	if err != nil {
		fix := "see parley login --explain for each request"
		if errors.Is(err, oauth.ErrNoPKCE) {
			fix = "list S256 in code_challenge_methods_supported; if the server supports it already, log in with " +
				"--assume-pkce"
		}
		e.report("login", Problem, fix, "clients cannot log in: %s", e.text(err))
		return
	}
	e.report("login", OK, "", "the authorization server is %s", issuer.Issuer)
	switch {
	case issuer.Documents:
		e.report("login", OK, "", "the authorization server accepts client ID metadata documents")
	case issuer.Registration != "":
		e.report("login", OK, "", "clients can register with the authorization server")
	default:
		e.report("login", Warning,
			"support client ID metadata documents, or let users pass --client-id to parley login",
			"clients must be registered with the authorization server by hand")
	}
}

// login examines the stored login.
func (e *Examination) login(ctx context.Context, target *client.HTTPTarget) {
	if target.Header.Get("Authorization") != "" || e.Status == nil {
		return
	}
	status, err := e.Status(ctx)
	fix := "run " + quoting.OfUser().Command([]string{"login"}, target.URL)
	switch {
	case err != nil:
		e.report("login", Warning, "run parley whoami", "cannot read the stored logins: %s", e.text(err))
	case status == nil:
		e.report("login", Problem, fix, "you are not logged in")
	case status.Expires.IsZero():
		e.report("login", OK, "", "you are logged in%s", userOf(status))
	case e.time().After(status.Expires) && !status.Renewable:
		e.report("login", Problem, fix, "your login has expired")
	case !status.Renewable:
		e.report("login", Note, "", "you are logged in%s until %s; then a new login is necessary, because the "+
			"authorization server gave no refresh token",
			userOf(status), status.Expires.Local().Format(time.DateTime))
	default:
		e.report("login", OK, "", "you are logged in%s; the token is refreshed when it expires", userOf(status))
	}
}

func userOf(s *oauth.Status) string {
	if s.Subject == "" {
		return ""
	}
	return " as " + strings.TrimSpace(s.Subject)
}
