package oauth

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth/internal/secrets"
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// Client gets, stores and renews the access tokens for MCP servers, for one user or one machine. It implements
// client.Authorizer. Set Interaction if there is a user, or Grant if there is none; without both, the Client only uses
// stored tokens. A Client is safe for concurrent use. Its fields must not be changed after the first use.
type Client struct {
	// Name and URI describe this program to users; Name defaults to "Parley".
	Name, URI string

	// Interaction opens authorization pages and receives the redirects. Nil: an
	// authorization that needs a user fails with ErrInteraction.
	Interaction Interaction
	// Grant gets tokens without a user: a [*ClientCredentials], [*Enterprise] or
	// [*Workload]. Nil: the authorization code grant, with Interaction.
	Grant Grant

	// Registrations are existing registrations of this program at authorization servers.
	// The Client prefers them to other ways to register.
	Registrations []Registration
	// MetadataURL is the https URL, with a path, of this program's client metadata
	// document. Authorization servers that support such documents use it as the client
	// identifier. The document must contain MetadataURL and the redirect URIs of
	// Interaction. Without a registration or document that an authorization server accepts, the
	// Client registers dynamically, which is deprecated: see the package documentation.
	MetadataURL string
	// PromptRegistration returns a registration at an authorization server that supports
	// no automatic registration, for instance from a form. Nil: the authorization fails
	// with ErrRegistration.
	PromptRegistration func(ctx context.Context, issuer string) (*Registration, error)

	// NoResource omits the parameter resource (RFC 8707), which the specification requires, from requests to the
	// authorization server. Set it for an authorization server that rejects the parameter, such as Microsoft Entra ID;
	// its error wraps ErrResource. The scopes must then name the server. An Enterprise still names the resource when it
	// exchanges a token at the identity provider.
	NoResource bool
	// AssumePKCE lets users log in at an authorization server whose metadata does not list the PKCE method S256,
	// although the specification requires that; see ErrNoPKCE. All logins use S256. Set it only if you know that the
	// server supports PKCE: if it ignores PKCE, authorization codes are not protected.
	//
	// NoResource and AssumePKCE are stored with a login. They apply to later logins and tokens at the same
	// authorization server, even of a Client that does not set them, until Logout.
	AssumePKCE bool

	// Issuer, if set, is the authorization server for every server, and may have a private address. Empty means the one
	// that the metadata of a server names.
	Issuer string

	// NeedsLogin returns the error for a request that needs a login, in a Client without Grant and Interaction whose
	// program calls BeginLogin. The Client then sends no request without a token. If the server was not asked yet, only
	// Server is set in request. If NeedsLogin is nil, requests are sent without a token, and the error is an
	// *InteractionError.
	NeedsLogin func(ctx context.Context, request AuthorizationRequest) error

	// Approve is called before each authorization. It returns the scopes to request, possibly fewer than in request, or
	// an error to decline. Nil: all scopes are requested.
	Approve func(ctx context.Context, request AuthorizationRequest) (scopes []string, err error)

	// Store stores tokens and registrations; nil: a store in memory.
	Store TokenStore

	// Networks lists private networks in which authorization servers may be, such as a company's network. Loopback
	// addresses are allowed if the MCP server uses one.
	Networks []netip.Prefix
	// Proxy returns the proxy for a request, or nil, like the field of http.Transport; see http.ProxyFromEnvironment.
	// The proxy must check the addresses to which names resolve. If Proxy is nil, no proxy is used, and the environment
	// is ignored.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS is the TLS configuration of all connections of this Client; nil: the default.
	TLS *tls.Config

	// Wrap, if set, returns the http.RoundTripper for the requests of logins. It must send them with next, which
	// decides which addresses they may reach. Requests contain secrets; package trace records them without.
	Wrap func(next http.RoundTripper) http.RoundTripper
	// Logger receives warnings; nil: slog.Default(). Logs contain no secrets.
	Logger *slog.Logger

	onDial func(dialControl) dialControl // for tests: observes addresses

	known    secrets.Memory
	mu       sync.Mutex
	memory   tokenstore.Memory
	sessions map[string]*session
}

// AuthorizationRequest describes an authorization before it starts.
type AuthorizationRequest struct {
	Server   string   // URL of the MCP server
	Issuer   string   // identifier of the authorization server
	Scopes   []string // scopes to request; empty: the default of the authorization server
	Previous []string // scopes of the previous request; nil if there was none
}

// maxServers is the maximum number of servers of one Client.
const maxServers = 4096

// Authorize implements client.Authorizer: it adds the access token for server to req, if
// there is one. It renews a token that is about to expire.
func (c *Client) Authorize(req *http.Request, server string) error {
	s, err := c.session(server)
	if err != nil {
		return err
	}
	return s.authorize(req)
}

// Reauthorize implements client.Authorizer: it gets a new token if the challenge in resp
// asks for one, and reports whether to send the request again.
func (c *Client) Reauthorize(req *http.Request, server string, resp *http.Response) (again bool, err error) {
	s, err := c.session(server)
	if err != nil {
		return false, err
	}
	return s.reauthorize(req, resp)
}

// Observe reads the DPoP nonce from the headers of a response of server.
func (c *Client) Observe(server string, header http.Header) {
	nonce := header[headerDPoPNonce]
	if len(nonce) == 0 {
		return
	}
	if s, err := c.session(server); err == nil {
		s.observe(nonce[0])
	}
}

// Identity returns a digest of the access token in use for server, or "" if there is none. A client.Client uses it to
// cache the results of different users separately. Identity sends no request.
func (c *Client) Identity(server string) string {
	s, err := c.session(server)
	if err != nil {
		return ""
	}
	t, _ := s.current()
	if t == nil {
		return ""
	}
	return digest.Of(t.Access)
}

func (c *Client) session(server string) (*session, error) {
	canonical, err := canonicalServer(server)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[canonical]; s != nil {
		return s, nil
	}
	if len(c.sessions) >= maxServers {
		return nil, fmt.Errorf("%w: too many servers for one Client, the limit is %d", errTooManyAttempts, maxServers)
	}
	s, err := c.newSession(canonical)
	if err != nil {
		return nil, err
	}
	if c.sessions == nil {
		c.sessions = make(map[string]*session)
	}
	c.sessions[canonical] = s
	return s, nil
}

// canonicalServer returns the form of an MCP server's URL that identifies sessions
// and store entries: scheme and host in lower case, no user, no fragment.
func canonicalServer(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%w: the URL of the MCP server must have a host", httpurl.ErrInsecure)
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	return u.String(), nil
}

// settings contains the settings of a login that deviate from the specification. They are stored with the
// login.
type settings struct {
	NoResource bool `json:"no_resource,omitzero"`
	AssumePKCE bool `json:"assume_pkce,omitzero"`
}

// settingsAfter returns the settings of a login or token that replaces the stored one, which may be nil.
func (c *Client) settingsAfter(stored *token) settings {
	s := settings{c.NoResource, c.AssumePKCE}
	if stored != nil {
		s.NoResource = s.NoResource || stored.Settings.NoResource
		s.AssumePKCE = s.AssumePKCE || stored.Settings.AssumePKCE
	}
	return s
}

func (c *Client) store() TokenStore {
	if c.Store != nil {
		return c.Store
	}
	return &c.memory
}

func (c *Client) name() string {
	if c.Name != "" {
		return c.Name
	}
	return "Parley"
}

func (c *Client) logger() *slog.Logger {
	if c.Logger != nil {
		return c.Logger
	}
	return slog.Default()
}

// challengeOf returns the challenge to respond to: the one with the scheme of the
// rejected request, or else the first one with a supported scheme. supported is false if
// all challenges have other schemes.
func challengeOf(header http.Header, scheme string) (c challenge.Challenge, supported bool) {
	all := challenge.Parse(header.Values("WWW-Authenticate"))
	for _, scheme := range []string{scheme, typeBearer, typeDPoP} {
		for _, c := range all {
			if scheme != "" && c.Is(scheme) {
				return c, true
			}
		}
	}
	return challenge.Challenge{}, len(all) == 0
}

// Login authorizes for a server before a request needs a token, or again if there is a token. It first sends the server
// a request to learn which scopes it requires. It requests these, the given scopes, and the scopes of the previous
// authorization. It does not wait for other logins; the token of the last one to finish is stored.
func (c *Client) Login(ctx context.Context, server string, scopes ...string) error {
	s, err := c.session(server)
	if err != nil {
		return err
	}
	n := need{force: true}
	if err := s.probe(ctx, &n); err != nil {
		return err
	}
	n.challenged = challenge.Union(n.challenged, scopes)
	return s.obtain(ctx, n)
}

// ping is a request without effect in every revision.
const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// probe sends a request without token and reads the challenge, which has precedence over
// other information (2026-07-28, basic/authorization/authorization-server-discovery).
func (s *session) probe(ctx context.Context, n *need) error {
	if _, err := s.peers.check(s.server); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server, strings.NewReader(ping))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	r, err := s.peers.do(req)
	if err != nil {
		return err
	}
	if r.redirect != "" {
		return fmt.Errorf("%w: %s responded with %s; if you trust it, log in at that URL", ErrDiscovery,
			httpurl.WithoutQuery(s.peers.server), r.statusText())
	}
	n.accepted = r.status != http.StatusUnauthorized && r.status != http.StatusForbidden
	if c, supported := challengeOf(r.header, ""); supported && r.status == http.StatusUnauthorized {
		n.metadataURL, n.challenged, n.dpop = c.Params["resource_metadata"], splitScopes(c.Params["scope"]),
			c.Is(typeDPoP)
	}
	return nil
}

// Logout deletes the token for a server, in memory and in the store, and revokes it if the authorization server
// supports that. It keeps the registration.
func (c *Client) Logout(ctx context.Context, server string) error {
	s, err := c.session(server)
	if err != nil {
		return err
	}
	return s.logout(ctx)
}

// Status describes a stored login. It contains no secrets.
type Status struct {
	Issuer string // the authorization server that issued the token
	// Subject is the user that the token names; empty if it names none. The token is not
	// verified, so Subject is for display only.
	Subject string
	// Scopes are the granted scopes.
	Scopes []string
	// Expires is when the token expires; zero if it is not known.
	Expires time.Time
	// Renewable reports whether there is a refresh token.
	Renewable bool
	// Bound reports whether the token is bound to a key (DPoP).
	Bound bool
	// NoResource and AssumePKCE are the settings of the login; see Client.
	NoResource, AssumePKCE bool
}

// Status returns the stored login at a server, or nil if there is none. It sends
// no requests.
func (c *Client) Status(ctx context.Context, server string) (*Status, error) {
	canonical, err := canonicalServer(server)
	if err != nil {
		return nil, err
	}
	r, err := load[record](ctx, c.store(), serverKey(canonical))
	if err != nil || r == nil {
		return nil, err
	}
	t, err := load[token](ctx, c.store(), r.tokenKey(canonical))
	if err != nil || !t.usable() {
		return nil, err
	}
	return &Status{
		Issuer: r.Issuer, Subject: subjectOf(t.Access), Scopes: slices.Clone(t.Scopes), Expires: t.Expires,
		Renewable: t.Refresh != "", Bound: t.Type == typeDPoP,
		NoResource: t.Settings.NoResource, AssumePKCE: t.Settings.AssumePKCE,
	}, nil
}

// Servers returns the URLs of the servers with stored logins, sorted. It fails with errors.ErrUnsupported if the store
// does not implement Keys(context.Context) ([]string, error). The stores in package tokenstore do.
func (c *Client) Servers(ctx context.Context) ([]string, error) {
	lister, ok := c.store().(interface {
		Keys(ctx context.Context) ([]string, error)
	})
	if !ok {
		return nil, fmt.Errorf("cannot list the token store: %w", errors.ErrUnsupported)
	}
	keys, err := lister.Keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list the token store: %w", err)
	}
	var servers []string
	for _, key := range keys {
		if server, ok := strings.CutPrefix(key, serverKey("")); ok {
			servers = append(servers, server)
		}
	}
	slices.Sort(servers)
	return servers, nil
}

// subjectOf returns the subject of a JSON Web Token, or "" for other tokens.
func subjectOf(access string) string {
	parts := strings.Split(access, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if decode(payload, &claims) != nil {
		return ""
	}
	return claims.Subject
}

// Interaction opens the authorization page of an authorization server for the user, and receives the redirect with the
// authorization code. Package browser implements it for programs on the user's machine. Programs with web pages do not
// need it: see [Client.BeginLogin].
type Interaction interface {
	// Begin starts a flow. previous is the redirect URI that this program registered before, or empty. A flow that
	// uses it again needs no new registration.
	Begin(ctx context.Context, previous string) (Flow, error)
}

// Flow is one authorization code flow of a user.
type Flow interface {
	// RedirectURI returns the redirect URI: an https URL, or an http URL on the loopback
	// interface.
	RedirectURI() string
	// Authorize opens the authorization page at url, and returns the URL that the browser
	// was redirected to, or its query. The user may see url. Authorize is called once.
	Authorize(ctx context.Context, url string) (redirect string, err error)
	// Close releases the resources of the flow, and waits for its goroutines.
	Close() error
}
