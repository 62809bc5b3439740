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

// Client gets, keeps and renews the tokens with which MCP servers are called, for one
// user or one machine. It is what client.Dialer.Auth wants. The zero value takes no
// part in anything that needs a user; set Interaction, or Grant. A Client is safe for
// concurrent use, and its fields must not be changed once it is used.
type Client struct {
	// Name and URI are what users are shown of this program; default "Parley", nothing.
	Name, URI string

	// Interaction takes users to authorization servers. Nil: nobody is there, and what
	// needs a user fails with ErrInteraction.
	Interaction Interaction
	// Grant gets tokens without a user: a [ClientCredentials], [Enterprise] or
	// [Workload]. Nil: users are asked.
	Grant Grant

	// Registrations are the clients that authorization servers know already. They come
	// before the other ways to be known.
	Registrations []Registration
	// MetadataURL is where this program's metadata document is, an https URL with a
	// path; it is the client's identifier at authorization servers that support that.
	// The document must name the redirect URIs of Interaction, and itself.
	MetadataURL string
	// MetadataKey authenticates the client of MetadataURL, if its document has a key.
	MetadataKey *SigningKey
	// PromptRegistration is asked for a registration when there is no other, as by showing the user a
	// form. Nil: there is an error instead.
	PromptRegistration func(ctx context.Context, issuer string) (*Registration, error)

	// Approve is asked before every authorization: it may ask for fewer scopes than
	// are wanted, and refuse with an error. Nil: what servers want is asked for.
	Approve func(ctx context.Context, request AuthorizationRequest) (scopes []string, err error)

	// Store keeps tokens and registrations; nil: in memory.
	Store TokenStore

	// Networks that are not public and may be reached nevertheless, where an MCP server
	// names an authorization server inside of an organization. While the MCP server
	// itself is on this machine, this machine may be too.
	Networks []netip.Prefix
	// Proxy, if set, is where all connections of this Client lead; it then decides what
	// may be reached. The environment does not matter.
	Proxy *url.URL
	// TLS, if set, is used for all connections of this Client.
	TLS *tls.Config

	// Logger takes what is worth noting; nil: slog.Default(). No secret gets there.
	Logger *slog.Logger

	egress func(control) control // in tests: sees every address

	mu       sync.Mutex
	memory   MemoryStore
	sessions map[string]*session
}

// AuthorizationRequest is an authorization that is about to be asked for.
type AuthorizationRequest struct {
	Server   string   // the MCP server's URL
	Resource string   // what the token will be for; empty for a server of 2025-03-26
	Issuer   string   // who will be asked
	Scopes   []string // that will be asked for; empty: the authorization server's default
	Previous []string // that were asked for before, nil if nothing was
}

// maxServers bounds the servers of one Client.
const maxServers = 4096

// Authorize implements client.Authorizer: it adds the token for server to req, if
// there is one, after renewing it if its time is over.
func (c *Client) Authorize(req *http.Request, server string) error {
	s, err := c.session(server)
	if err != nil {
		return err
	}
	return s.authorize(req)
}

// Reauthorize implements client.Authorizer: it gets a token, or a better one, if that is
// what the response asks for.
func (c *Client) Reauthorize(req *http.Request, server string, resp *http.Response) (again bool, err error) {
	s, err := c.session(server)
	if err != nil {
		return false, err
	}
	return s.refused(req, resp)
}

// Observe takes what a response of server says for the requests to come.
func (c *Client) Observe(server string, header http.Header) {
	nonce := header[headerDPoPNonce]
	if len(nonce) == 0 {
		return
	}
	if s, err := c.session(server); err == nil {
		s.observe(nonce[0])
	}
}

// Identity names the credentials for server, for a client.Cache: a digest of the token
// that is in use, empty if there is none yet. It asks nobody.
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
		return nil, fmt.Errorf("%w: one Client is for at most %d servers", ErrTooManyAttempts, maxServers)
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

// canonicalServer is an MCP server's URL as sessions and stores are keyed by it: with
// scheme and host in lower case, and without what is not sent to it.
func canonicalServer(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%w: the server's URL names no host", ErrInsecureURL)
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

// challengeOf picks the challenge to answer: of the scheme that was tried, or else the
// first that can be. Ours is false when there are challenges and none can be.
func challengeOf(header http.Header, tried string) (c challenge.Challenge, ours bool) {
	all := challenge.Parse(header.Values("WWW-Authenticate"))
	for _, scheme := range []string{tried, typeBearer, typeDPoP} {
		for _, c := range all {
			if scheme != "" && c.Is(scheme) {
				return c, true
			}
		}
	}
	return challenge.Challenge{}, len(all) == 0
}
