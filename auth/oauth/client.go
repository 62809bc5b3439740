package oauth

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/digest"
)

// Client gets, stores and renews the access tokens for MCP servers, for one user or one
// machine. It implements client.Authorizer. Set Interaction if there is a user, or
// Grant; without both, the Client uses stored tokens only. A Client is safe for
// concurrent use. Its fields must not be changed after the first use.
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
	// Interaction.
	MetadataURL string
	// MetadataKey authenticates the client of MetadataURL, if its document has a key.
	MetadataKey *SigningKey
	// PromptRegistration returns a registration at an authorization server that supports
	// no automatic registration, for instance from a form. Nil: the authorization fails
	// with ErrRegistration.
	PromptRegistration func(ctx context.Context, issuer string) (*Registration, error)

	// Approve is called before each authorization. It returns the scopes to request,
	// possibly fewer than those of request, or an error to decline. Nil: all scopes are
	// requested.
	Approve func(ctx context.Context, request AuthorizationRequest) (scopes []string, err error)

	// Store stores tokens and registrations; nil: a store in memory.
	Store TokenStore

	// Networks are private networks that authorization servers may be in, such as those
	// of an organization. Loopback addresses are allowed if the MCP server has one.
	Networks []netip.Prefix
	// Proxy returns the proxy for a request, or nil, as the field of http.Transport does; see
	// http.ProxyFromEnvironment. The proxy has to check the addresses that names resolve to. Nil: no proxy; the
	// environment is ignored.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS is the TLS configuration of all connections of this Client; nil: the default.
	TLS *tls.Config

	// Trace is called after each step of an authorization. Calls can be concurrent. It must not block. Nil: not called.
	Trace func(Step)
	// Logger receives warnings; nil: slog.Default(). Logs contain no secrets.
	Logger *slog.Logger

	onDial func(dialControl) dialControl // for tests: observes addresses

	// interactionError returns the error of a request that needs a user to log in, for a Client without Grant and
	// Interaction. No request is sent without a token then. Nil: requests are sent without a token, and the error is
	// an *InteractionError.
	interactionError func(ctx context.Context, request AuthorizationRequest) error

	mu       sync.Mutex
	memory   MemoryStore
	sessions map[string]*session
}

// AuthorizationRequest describes an authorization before it starts.
type AuthorizationRequest struct {
	Server   string   // the URL of the MCP server
	Resource string   // the resource that the token is for; empty for a server of 2025-03-26 without metadata
	Issuer   string   // the authorization server
	Scopes   []string // the scopes to request; empty: the default of the authorization server
	Previous []string // the scopes of the previous request, nil if there was none
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

// Identity returns a digest of the access token in use for server, empty if there is
// none. A client.Client caches the results of different users apart by it. Identity sends no
// request.
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
		return nil, fmt.Errorf("%w: too many servers for one Client, the limit is %d", ErrTooManyAttempts, maxServers)
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

// canonicalServer returns the form of an MCP server's URL that is the key of sessions
// and store entries: scheme and host in lower case, no user, no fragment.
func canonicalServer(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%w: the URL of the MCP server must have a host", ErrInsecureURL)
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	return u.String(), nil
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

// challengeOf returns the challenge to respond to: of the scheme of the rejected request,
// or else the first one of a supported scheme. Supported is false if the response has
// only challenges of other schemes.
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
