package devissuer

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
)

const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
	grantClient  = "client_credentials"
)

// Client is a registered client.
type Client struct {
	ID string

	// Secret authenticates a confidential client, by HTTP Basic or in the form. Only
	// confidential clients can use client credentials. A public client has no secret.
	Secret string

	// RedirectURIs are the allowed redirect URIs. They are compared byte for byte, except
	// that the port of http://127.0.0.1 and http://[::1] is ignored (RFC 8252, section 7.3).
	RedirectURIs []string

	name string // name of a client that registered itself
}

func (c *Client) check() error {
	if c.ID == "" {
		return errors.New("the ID of a client is missing")
	}
	for _, uri := range c.RedirectURIs {
		u, err := url.Parse(uri)
		if err != nil || !httpurl.IsSecure(u) || u.Host == "" || u.User != nil || strings.Contains(uri, "#") {
			return fmt.Errorf("redirect_uri %q must be https, or http on the loopback interface, without user "+
				"information and fragment", uri)
		}
	}
	return nil
}

// allows reports whether uri is a redirect URI of the client.
func (c *Client) allows(uri string) bool {
	return slices.ContainsFunc(c.RedirectURIs, func(registered string) bool {
		return uri == registered || withoutPort(uri) == withoutPort(registered)
	})
}

// withoutPort returns uri without its port if it is http on a loopback address. The name localhost is not an address.
func withoutPort(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" || !net.ParseIP(u.Hostname()).IsLoopback() {
		return uri
	}
	u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	return u.String()
}

// client returns the client with an ID, or nil.
func (i *Issuer) client(id string) *Client {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.clients.entries[id]
}

// serveRegister registers a public client, whatever kind of client it asks for (RFC 7591).
func (i *Issuer) serveRegister(w http.ResponseWriter, r *http.Request) {
	var metadata struct {
		ID           string   `json:"client_id"`
		Name         string   `json:"client_name,omitempty"`
		RedirectURIs []string `json:"redirect_uris"`
		AuthMethod   string   `json:"token_endpoint_auth_method"`
	}
	if err := json.UnmarshalRead(r.Body, &metadata); err != nil {
		fail("invalid_client_metadata", "the body must be a JSON object with client metadata").write(w)
		return
	}
	metadata.ID, metadata.AuthMethod = rand.Text(), "none"
	c := &Client{ID: metadata.ID, RedirectURIs: metadata.RedirectURIs, name: metadata.Name}
	if err := c.check(); err != nil || len(c.RedirectURIs) == 0 {
		fail("invalid_redirect_uri", cmp.Or(err, errors.New("redirect_uris is empty")).Error()).write(w)
		return
	}
	i.mu.Lock()
	i.clients.put(c.ID, c)
	i.mu.Unlock()
	i.logger.Info("client registered", "client", c.ID, "name", c.name)
	writeJSON(w, http.StatusCreated, metadata)
}

// serveToken is the token endpoint (RFC 6749, section 3.2).
func (i *Issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	issued, failed := i.exchange(r)
	if failed != nil {
		i.logger.Info("token request failed", "error", failed.Code, "reason", failed.Description)
		failed.write(w)
		return
	}
	writeJSON(w, http.StatusOK, issued)
}

// tokens is a response of the token endpoint (RFC 6749, section 5.1).
type tokens struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int64  `json:"expires_in"`
	Refresh string `json:"refresh_token,omitempty"`
	Scope   string `json:"scope,omitempty"`
}

// exchange returns the tokens for a request.
func (i *Issuer) exchange(r *http.Request) (*tokens, *failure) {
	if err := r.ParseForm(); err != nil {
		return nil, fail("invalid_request", "cannot parse the form")
	}
	c, failed := i.authenticate(r)
	if failed != nil {
		return nil, failed
	}
	form := r.PostForm
	var g *grant
	grantType, refresh := form.Get("grant_type"), ""
	switch grantType {
	case grantCode:
		if g, failed = i.redeem(c, form); failed == nil {
			refresh = i.newRefresh(g)
		}
	case grantRefresh:
		i.mu.Lock()
		g = i.refreshes.entries[form.Get("refresh_token")]
		i.mu.Unlock()
		if g == nil || g.client != c.ID {
			failed = fail("invalid_grant", "the refresh token is unknown or belongs to another client")
		}
	case grantClient:
		g = &grant{client: c.ID, user: c.ID}
		if failed = i.setTarget(g, form); c.Secret == "" {
			failed = fail("unauthorized_client", "a public client cannot use client_credentials")
		}
	default:
		failed = fail("unsupported_grant_type", "grant_type must be "+grantCode+", "+grantRefresh+" or "+grantClient)
	}
	if failed == nil && form.Has("resource") && form.Get("resource") != g.resource {
		failed = fail("invalid_target", "resource differs from the resource of the grant")
	}
	if failed != nil {
		return nil, failed
	}
	access, err := i.access(g)
	if err != nil {
		return nil, fail("server_error", "cannot sign the token")
	}
	scope := strings.Join(g.scopes, " ")
	i.logger.Info("tokens issued", "client", c.ID, "grant", grantType, "scope", scope)
	return &tokens{Access: access, Type: "Bearer", Expires: int64(i.config.AccessTokenLifetime / time.Second),
		Refresh: refresh, Scope: scope}, nil
}

// authenticate returns the client of a form, after verifying its secret (RFC 6749, section 2.3.1).
func (i *Issuer) authenticate(r *http.Request) (*Client, *failure) {
	id, secret := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if name, password, basic := r.BasicAuth(); basic {
		var errName, errPassword error
		id, errName = url.QueryUnescape(name)
		secret, errPassword = url.QueryUnescape(password)
		if errName != nil || errPassword != nil {
			return nil, fail("invalid_client", "the client ID and secret of HTTP Basic must be form-encoded")
		}
	}
	c := i.client(id)
	if c == nil || subtle.ConstantTimeCompare([]byte(secret), []byte(c.Secret)) != 1 {
		return nil, fail("invalid_client",
			"unknown client, or wrong secret; if the issuer was started again, register again")
	}
	return c, nil
}

// redeem returns the grant of an authorization code, once.
func (i *Issuer) redeem(c *Client, form url.Values) (*grant, *failure) {
	i.mu.Lock()
	g := i.codes.entries[form.Get("code")]
	delete(i.codes.entries, form.Get("code"))
	i.mu.Unlock()
	switch {
	case g == nil || time.Now().After(g.until):
		return nil, fail("invalid_grant", "the code is unknown, was used before, or has expired")
	case g.client != c.ID:
		return nil, fail("invalid_grant", "the code was issued to another client")
	case g.redirectURI != form.Get("redirect_uri"):
		return nil, fail("invalid_grant", "redirect_uri differs from the authorization request")
	case digest.Of(form.Get("code_verifier")) != g.challenge: // RFC 7636, section 4.6
		return nil, fail("invalid_grant", "code_verifier does not match code_challenge")
	}
	return g, nil
}

// newRefresh returns a refresh token. It stays valid when it is used.
func (i *Issuer) newRefresh(g *grant) string {
	refresh := rand.Text()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refreshes.put(refresh, g)
	return refresh
}

// Token returns an access token of user for resource, the URL of a server. Its client is
// "devissuer". Token needs no consent.
func (i *Issuer) Token(user, resource string, scopes ...string) (string, error) {
	if err := errors.Join(checkResource(resource), checkUser(user)); err != nil {
		return "", fmt.Errorf("devissuer: cannot issue a token of %q for %q: %w", user, resource, err)
	}
	return i.access(&grant{client: "devissuer", user: user, resource: resource, scopes: scopes})
}

// claims are the claims of an access token (RFC 9068, section 2.2).
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Client   string `json:"client_id"`
	Scope    string `json:"scope,omitempty"`
	ID       string `json:"jti"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// access returns a signed access token.
func (i *Issuer) access(g *grant) (string, error) {
	now := time.Now()
	return i.sign(claims{
		Issuer: i.url, Subject: g.user, Audience: g.resource, Client: g.client, Scope: strings.Join(g.scopes, " "),
		ID: rand.Text(), IssuedAt: now.Unix(), Expires: now.Add(i.config.AccessTokenLifetime).Unix(),
	})
}

// failure is an error response (RFC 6749, sections 4.1.2.1 and 5.2; RFC 7591, section 3.2.2;
// RFC 8707, section 2).
type failure struct {
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
}

func fail(code, description string) *failure { return &failure{code, description} }

// write responds to a request of a client.
func (f *failure) write(w http.ResponseWriter) {
	status := http.StatusBadRequest
	if f.Code == "invalid_client" {
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Basic realm="devissuer"`)
	}
	writeJSON(w, status, f)
}
