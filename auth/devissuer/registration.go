package devissuer

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

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
		return nil, fail("invalid_client_metadata", "token_endpoint_auth_method must be none, client_secret_basic or client_secret_post")
	}
	if len(m.GrantTypes) == 0 {
		m.GrantTypes = []string{grantCode}
	}
	if len(m.RedirectURIs) > maxRedirects || slices.Contains(m.GrantTypes, grantCode) && len(m.RedirectURIs) == 0 {
		return nil, fail("invalid_redirect_uri", fmt.Sprintf("redirect_uris must have 1 to %d elements, got %d", maxRedirects, len(m.RedirectURIs)))
	}
	for _, uri := range m.RedirectURIs {
		if err := checkRedirect(uri); err != nil {
			return nil, fail("invalid_redirect_uri", err.Error())
		}
	}
	return &Client{Name: m.Name, RedirectURIs: m.RedirectURIs}, nil
}
