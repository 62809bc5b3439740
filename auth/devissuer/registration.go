package devissuer

import (
	"net/http"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// maxRedirects is how many redirect URIs a client may have.
const maxRedirects = 20

// registration is what a client says of itself (RFC 7591, section 2). Members that make no difference
// here are ignored, as that section asks.
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

// serveRegister makes a client of whoever asks (RFC 7591).
func (i *Issuer) serveRegister(w http.ResponseWriter, r *http.Request) {
	var asked registration
	if err := jsonv2.UnmarshalRead(r.Body, &asked); err != nil {
		fail("invalid_client_metadata", "the body is not a JSON object of client metadata").write(w)
		return
	}
	c, failed := asked.client()
	if failed != nil {
		failed.write(w)
		return
	}
	c.ID = secret()
	asked.Secret, asked.SecretUntil = "", nil
	if asked.AuthMethod != authNone {
		c.Secret = secret()
		asked.Secret, asked.SecretUntil = c.Secret, new(int64) // zero: never
	}
	asked.ID, asked.IssuedAt = c.ID, time.Now().Unix()

	i.mu.Lock()
	i.clients.put(c.ID, c, time.Time{})
	i.mu.Unlock()
	i.logger.Info("registered a client", "client", c.ID, "name", c.Name)
	writeJSON(w, http.StatusCreated, asked)
}

// client checks what a client says of itself, and fills in what it leaves open.
func (a *registration) client() (*Client, *failure) {
	if a.AuthMethod == "" {
		a.AuthMethod = authBasic // RFC 7591, section 2
	}
	if !slices.Contains([]string{authNone, authBasic, authPost}, a.AuthMethod) {
		return nil, fail("invalid_client_metadata", "token_endpoint_auth_method must be none, client_secret_basic or client_secret_post")
	}
	if len(a.GrantTypes) == 0 {
		a.GrantTypes = []string{grantCode}
	}
	if len(a.RedirectURIs) > maxRedirects || slices.Contains(a.GrantTypes, grantCode) && len(a.RedirectURIs) == 0 {
		return nil, fail("invalid_redirect_uri", "a client has 1 to 20 redirect_uris")
	}
	for _, uri := range a.RedirectURIs {
		if err := checkRedirect(uri); err != nil {
			return nil, fail("invalid_redirect_uri", err.Error())
		}
	}
	return &Client{Name: a.Name, RedirectURIs: a.RedirectURIs}, nil
}
