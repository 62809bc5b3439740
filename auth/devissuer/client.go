package devissuer

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// Authentication methods of clients at the token endpoint.
const (
	authNone  = "none"
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
)

// Client is a registered client.
type Client struct {
	ID string

	// Secret authenticates a confidential client, by HTTP Basic or in the form. Only
	// confidential clients can use client credentials. A public client has no secret.
	Secret string

	// Name is shown on the consent page.
	Name string

	// RedirectURIs are the allowed redirect URIs. They are compared byte for byte, except
	// that the port of http://127.0.0.1 and http://[::1] is ignored (RFC 8252, section 7.3).
	RedirectURIs []string
}

func (c *Client) check() error {
	if c.ID == "" {
		return errors.New("client ID is missing")
	}
	for _, uri := range c.RedirectURIs {
		if err := checkRedirect(uri); err != nil {
			return fmt.Errorf("client %q: %w", c.ID, err)
		}
	}
	return nil
}

// checkRedirect requires an https URL, or an http URL on the loopback interface. Private-use
// schemes are not supported.
func checkRedirect(uri string) error {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return fmt.Errorf("redirect_uri %q must be a URL", uri)
	case u.Fragment != "" || strings.Contains(uri, "#"):
		return fmt.Errorf("redirect_uri %q must not have a fragment", uri)
	case u.User != nil:
		return fmt.Errorf("redirect_uri %q must not have user information", uri)
	case u.Scheme == "https" && u.Hostname() != "":
		return nil
	case u.Scheme == "http" && httpurl.IsLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("redirect_uri %q must be https, or http on the loopback interface", uri)
}

// allows reports whether uri is a redirect URI of the client.
func (c *Client) allows(uri string) bool {
	for _, registered := range c.RedirectURIs {
		if uri == registered || withoutPort(uri) != "" && withoutPort(uri) == withoutPort(registered) {
			return true
		}
	}
	return false
}

// withoutPort returns uri without its port if it is http on a loopback address, and ""
// otherwise. The name localhost is not an address.
func withoutPort(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" || !net.ParseIP(u.Hostname()).IsLoopback() || checkRedirect(uri) != nil {
		return ""
	}
	host := u.Hostname()
	u.Host = ""
	return host + " " + u.String()
}

// client returns the client with an ID.
func (i *Issuer) client(id string) (*Client, *failure) {
	if id == "" {
		return nil, fail("invalid_client", "client_id is missing")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if c, found := i.static[id]; found {
		return c, nil
	}
	if c, found := i.clients.get(id); found {
		return c, nil
	}
	return nil, fail("invalid_client",
		"unknown client_id: register again, because the issuer loses registrations when it "+
			"stops")
}

// authenticate returns the client of a form, after verifying its secret (RFC 6749, section
// 2.3.1).
func (i *Issuer) authenticate(r *http.Request) (*Client, *failure) {
	id, secret, basic := r.BasicAuth()
	if basic {
		var err error
		if id, err = url.QueryUnescape(id); err != nil {
			return nil, fail("invalid_client", "the user name of the Authorization header must be form-encoded")
		}
		if secret, err = url.QueryUnescape(secret); err != nil {
			return nil, fail("invalid_client", "the password of the Authorization header must be form-encoded")
		}
		if r.PostForm.Has("client_secret") || r.PostForm.Has("client_id") && r.PostForm.Get("client_id") != id {
			return nil, fail("invalid_request", "the client must use one authentication method only")
		}
	} else {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	c, failed := i.client(id)
	if failed != nil {
		return nil, failed
	}
	if subtle.ConstantTimeCompare([]byte(secret), []byte(c.Secret)) != 1 {
		return nil, fail("invalid_client", "the client secret is wrong or missing, or the client is public")
	}
	return c, nil
}

// maxRedirects is the maximum number of redirect URIs of a client.
const maxRedirects = 20

// registration is the metadata of a client, as far as it is used (RFC 7591, section 2).
type registration struct {
	ID           string   `json:"client_id,omitempty"`
	Secret       string   `json:"client_secret,omitempty"`
	IssuedAt     int64    `json:"client_id_issued_at,omitempty"`
	SecretUntil  *int64   `json:"client_secret_expires_at,omitempty"`
	Name         string   `json:"client_name,omitempty"`
	RedirectURIs []string `json:"redirect_uris,omitempty"`
	GrantTypes   []string `json:"grant_types,omitempty"`
	AuthMethod   string   `json:"token_endpoint_auth_method,omitempty"`
}

// serveRegister registers a client (RFC 7591).
func (i *Issuer) serveRegister(w http.ResponseWriter, r *http.Request) {
	var metadata registration
	if err := jsonv2.UnmarshalRead(r.Body, &metadata); err != nil {
		fail("invalid_client_metadata", "the body must be a JSON object with client metadata").write(w)
		return
	}
	c, failed := metadata.client()
	if failed != nil {
		failed.write(w)
		return
	}
	c.ID = secret()
	metadata.Secret, metadata.SecretUntil = "", nil
	if metadata.AuthMethod != authNone {
		c.Secret = secret()
		metadata.Secret, metadata.SecretUntil = c.Secret, new(int64) // zero: it does not expire
	}
	metadata.ID, metadata.IssuedAt = c.ID, time.Now().Unix()

	i.mu.Lock()
	i.clients.put(c.ID, c, time.Time{})
	i.mu.Unlock()
	i.logger.Info("client registered", "client", c.ID, "name", c.Name)
	writeJSON(w, http.StatusCreated, metadata)
}

// client checks the metadata, sets defaults, and returns the client.
func (m *registration) client() (*Client, *failure) {
	if m.AuthMethod == "" {
		m.AuthMethod = authBasic // RFC 7591, section 2
	}
	if !slices.Contains([]string{authNone, authBasic, authPost}, m.AuthMethod) {
		return nil, fail("invalid_client_metadata",
			"token_endpoint_auth_method must be none, client_secret_basic or client_secret_post")
	}
	if len(m.GrantTypes) == 0 {
		m.GrantTypes = []string{grantCode}
	}
	if len(m.RedirectURIs) > maxRedirects || slices.Contains(m.GrantTypes, grantCode) && len(m.RedirectURIs) == 0 {
		return nil, fail("invalid_redirect_uri", fmt.Sprintf("redirect_uris must have 1 to %d elements, got %d",
			maxRedirects, len(m.RedirectURIs)))
	}
	for _, uri := range m.RedirectURIs {
		if err := checkRedirect(uri); err != nil {
			return nil, fail("invalid_redirect_uri", err.Error())
		}
	}
	return &Client{Name: m.Name, RedirectURIs: m.RedirectURIs}, nil
}
