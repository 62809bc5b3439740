package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// Registration is a registration of this program at an authorization server. A client identifier is valid at one
// authorization server only.
type Registration struct {
	// Issuer is the identifier of the authorization server, exactly as in its metadata.
	Issuer string
	// Server, if Issuer is not known, is the URL of an MCP server. The registration then belongs to the first
	// authorization server that the MCP server names. If it names another one later, the authorization fails.
	Server string

	ClientID     string
	ClientSecret string
	// Key signs assertions for the method private_key_jwt.
	Key *SigningKey
	// Method is the authentication method at the token endpoint: "client_secret_basic",
	// "client_secret_post", "private_key_jwt" or "none". Empty: the Client chooses one
	// that the authorization server supports.
	Method string
	// RedirectURI is the registered redirect URI, if there is one.
	RedirectURI string
}

// client is a registration in use. It is stored as JSON.
type client struct {
	ID          string    `json:"client_id"`
	Secret      string    `json:"client_secret,omitzero"`
	Method      string    `json:"token_endpoint_auth_method,omitzero"`
	RedirectURI string    `json:"redirect_uri,omitzero"`
	Expires     time.Time `json:"expires,omitzero"` // expiry of the secret
	Manual      bool      `json:"by_hand,omitzero"` // from Client.PromptRegistration

	key      *SigningKey
	stored   bool // comes from the store, not from the program's configuration
	byServer bool // configured for an MCP server, hence bound to its first issuer
}

// dynamic reports whether c comes from dynamic registration.
func (c *client) dynamic() bool { return c.stored && !c.Manual }

func (c *client) expired(now time.Time) bool { return !c.Expires.IsZero() && now.After(c.Expires) }

// configured returns the registration in c.Registrations for an issuer or, if there is
// none, for an MCP server, or nil if there is none.
func (c *Client) configured(issuer, server string) *client {
	for _, byIssuer := range []bool{true, false} {
		for _, r := range c.Registrations {
			if r.Issuer != "" && byIssuer && r.Issuer == issuer ||
				r.Issuer == "" && !byIssuer && sameServer(r.Server, server) {
				return r.client()
			}
		}
	}
	return nil
}

func (r *Registration) client() *client {
	return &client{ID: r.ClientID, Secret: r.ClientSecret, Method: r.Method, RedirectURI: r.RedirectURI, key: r.Key,
		byServer: r.Issuer == ""}
}

func sameServer(a, b string) bool {
	a, errA := canonicalServer(a)
	b, errB := canonicalServer(b)
	return errA == nil && errB == nil && a == b
}

// existingClient returns this program's client at an authorization server: a configured
// registration, the client metadata document, or a stored registration, in this order
// (2026-07-28, basic/authorization/client-registration). It returns nil if there is none.
func (s *session) existingClient(ctx context.Context, d *discovery) (*client, error) {
	issuer := d.server.Issuer
	if c := s.owner.configured(issuer, s.server); c != nil {
		switch {
		case !c.byServer || s.issuer == issuer:
		case s.issuer == "": // binds the registration to the issuer, even if this authorization fails
			if err := s.saveRecord(ctx, d); err != nil {
				return nil, err
			}
		default:
			return nil,
				fmt.Errorf("%w: from %.200q to %.200q, where the registration for %s is not used; check the server "+
					"and set Registration.Issuer", errIssuerChanged, s.issuer, issuer,
					httpurl.WithoutQuery(s.peers.server))
		}
		if err := c.checkMethod(); err != nil {
			return nil, err
		}
		return c, nil
	}
	if s.owner.MetadataURL != "" && d.server.ClientIDDocuments {
		u, err := httpurl.Parse(s.owner.MetadataURL)
		if err != nil || u.Scheme != "https" || u.Path == "" || u.Path == "/" {
			return nil, fmt.Errorf("%w: Client.MetadataURL must be https and have a path", ErrRegistration)
		}
		return &client{ID: s.owner.MetadataURL}, nil
	}
	c, err := load[client](ctx, s.owner.store(), clientKey(issuer))
	if err != nil || c == nil || c.ID == "" || c.expired(time.Now()) || c.checkMethod() != nil {
		return nil, err
	}
	c.stored = true
	return c, nil
}

// newClient registers this program, dynamically or with Client.PromptRegistration.
func (s *session) newClient(ctx context.Context, d *discovery, redirectURI string, scopes []string) (*client, error) {
	switch {
	case d.server.RegistrationEndpoint != "":
		c, err := s.register(ctx, d, redirectURI, scopes)
		if rejected := new(ServerError); len(scopes) > 0 && errors.As(err, &rejected) && rejected.rejectsMetadata() {
			c, err = s.register(ctx, d, redirectURI, nil)
		}
		if err != nil {
			return nil, err
		}
		if err := save(ctx, s.owner.store(), clientKey(d.server.Issuer), c); err != nil {
			s.owner.logger().Warn("cannot store a client registration", "issuer", d.server.Issuer, "error", err)
		}
		return c, nil
	case s.owner.PromptRegistration != nil:
		r, err := s.owner.PromptRegistration(ctx, d.server.Issuer)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRegistration, err)
		}
		if r != nil && r.ClientID != "" {
			c := &client{ID: r.ClientID, Secret: r.ClientSecret, Method: r.Method, RedirectURI: redirectURI,
				Manual: true, key: r.Key}
			if err := c.checkMethod(); err != nil {
				return nil, err
			}
			if r.Key == nil {
				c.stored = true
				_ = save(ctx, s.owner.store(), clientKey(d.server.Issuer), c)
			}
			return c, nil
		}
	}
	return nil,
		fmt.Errorf("%w: %.200q does not support dynamic registration; register a client there and add it to "+
			"Client.Registrations", ErrRegistration, d.server.Issuer)
}

// forgetClient deletes a stored registration that the authorization server does not
// recognize, so that the next login registers again.
func (s *session) forgetClient(ctx context.Context, d *discovery, c *client) {
	if !c.stored {
		return
	}
	ctx, done := withGrace(ctx, gracePeriod)
	defer done()
	key := clientKey(d.server.Issuer)
	if stored, err := load[client](ctx, s.owner.store(), key); err == nil && stored != nil && stored.ID == c.ID {
		_ = remove(ctx, s.owner.store(), key)
	}
}

// rejectsMetadata reports whether an error of a registration can concern its metadata (RFC 7591, section 3.2.2).
func (e *ServerError) rejectsMetadata() bool {
	return e.status == http.StatusOK || e.status == http.StatusBadRequest || e.status == http.StatusUnprocessableEntity
}

// register registers a client dynamically (RFC 7591). Some servers let a client request only the scopes with which it
// was registered, and others reject a registration with scopes. Revision 2026-07-28 deprecates dynamic registration in
// favour of client metadata documents.
func (s *session) register(ctx context.Context, d *discovery, redirectURI string, scopes []string) (*client, error) {
	method := requestedMethod(d.server.TokenAuthMethods)
	grants := []string{"authorization_code"}
	if d.server.supportsGrant("refresh_token") {
		grants = append(grants, "refresh_token")
	}
	body, err := json.Marshal(struct {
		Name            string   `json:"client_name"`
		URI             string   `json:"client_uri,omitzero"`
		RedirectURIs    []string `json:"redirect_uris"`
		GrantTypes      []string `json:"grant_types"`
		ResponseTypes   []string `json:"response_types"`
		Method          string   `json:"token_endpoint_auth_method"`
		ApplicationType string   `json:"application_type"`
		Scope           string   `json:"scope,omitzero"`
	}{
		s.owner.name(), s.owner.URI, []string{redirectURI}, grants, []string{"code"}, method,
		applicationType(redirectURI), strings.Join(scopes, " "),
	})
	if err != nil {
		return nil, err
	}
	endpoint, err := s.peers.check(d.server.RegistrationEndpoint)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	r, err := s.peers.do(req)
	if err != nil {
		return nil, err
	}
	if err := r.failure(endpointRegistration); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRegistration, err)
	}
	var registered struct {
		ID      string         `json:"client_id"`
		Secret  string         `json:"client_secret"`
		Expires jsontext.Value `json:"client_secret_expires_at"`
		Method  string         `json:"token_endpoint_auth_method"`
	}
	if err := decode(r.body, &registered); err != nil {
		return nil, fmt.Errorf("%w: registration endpoint: %w", errInvalidResponse, err)
	}
	if registered.ID == "" || len(registered.ID) > httpurl.MaxLength || len(registered.Secret) > httpurl.MaxLength {
		return nil, fmt.Errorf("%w: registration endpoint: client_id is missing or too long", errInvalidResponse)
	}
	c := &client{ID: registered.ID, Secret: registered.Secret, Method: registered.Method, RedirectURI: redirectURI,
		stored: true}
	// Zero means never. A date in the past is ignored, because some servers send a lifetime instead.
	if at, ok := readSeconds(registered.Expires); ok && at < maxDate && c.Secret != "" {
		if expires := time.Unix(int64(at), 0); expires.After(time.Now()) {
			c.Expires = expires
		}
	}
	if c.Secret == "" {
		c.Method = methodNone // even if the server names another method: there is nothing to authenticate with
	}
	return c, c.checkMethod()
}

// maxDate is the latest date, in seconds, that is believed: later ones, such as dates in milliseconds, cannot
// be stored.
const maxDate = 1 << 37

// requestedMethod returns the authentication method for dynamic registration. A program
// on the user's machine cannot keep a secret from the user, so it prefers "none".
func requestedMethod(supported []string) string {
	for _, m := range []string{methodNone, methodBasic, methodPost} {
		if slices.Contains(supported, m) {
			return m
		}
	}
	return methodNone
}

// applicationType returns "native" if redirectURI leads to the user's machine, and "web"
// otherwise (2026-07-28, basic/authorization/client-registration, Application Type).
func applicationType(redirectURI string) string {
	u, err := url.Parse(redirectURI)
	if err == nil && u.Scheme == "https" && !httpurl.IsLoopback(u.Hostname()) {
		return "web"
	}
	return "native"
}

// clientFor returns existing if it can be used with a redirect URI, or registers a client that will request scopes.
// existing may be nil. A client that is registered for fewer scopes is kept until the authorization server rejects
// them: sessions and tasks belong to a client.
func (s *session) clientFor(ctx context.Context, d *discovery, existing *client, redirectURI string,
	scopes []string) (*client, error) {
	if err := checkRedirectURI(redirectURI); err != nil {
		return nil, err
	}
	if existing == nil || existing.dynamic() && existing.RedirectURI != redirectURI {
		if d.resource != nil { // a later login may request these, and must not need another client
			scopes = challenge.Union(scopes, d.resource.ScopesSupported)
		}
		return s.newClient(ctx, d, redirectURI, scopes)
	}
	return existing, nil
}
