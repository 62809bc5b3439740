package devissuer

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// The ways for a client to prove itself at the token endpoint.
const (
	authNone  = "none"
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
)

// Client is somebody who may ask for tokens.
type Client struct {
	ID string

	// Secret makes a client confidential: it proves itself by HTTP Basic or in the form, and may ask
	// for tokens in its own name (client credentials). Without one it is public.
	Secret string

	// Name is shown on the consent page.
	Name string

	// RedirectURIs are where a user may be sent back to, compared byte by byte; only the port of
	// http://127.0.0.1 and http://[::1] is the client's choice (RFC 8252, section 7.3).
	RedirectURIs []string

	document bool // the client is an URL that was fetched
}

func (c *Client) check() error {
	if c.ID == "" {
		return errors.New("a client has no ID")
	}
	for _, uri := range c.RedirectURIs {
		if err := checkRedirect(uri); err != nil {
			return fmt.Errorf("client %q: %w", c.ID, err)
		}
	}
	return nil
}

// checkRedirect admits https anywhere and http on this machine. Schemes of programs are not needed for
// development and javascript: and its like are never.
func checkRedirect(uri string) error {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return fmt.Errorf("redirect_uri %q is not an URL", uri)
	case u.Fragment != "" || strings.Contains(uri, "#"):
		return fmt.Errorf("redirect_uri %q has a fragment", uri)
	case u.User != nil:
		return fmt.Errorf("redirect_uri %q has user information", uri)
	case u.Scheme == "https" && u.Hostname() != "":
		return nil
	case u.Scheme == "http" && httpurl.IsLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("redirect_uri %q is neither https nor http on this machine", uri)
}

// allows reports whether uri is one of the client's.
func (c *Client) allows(uri string) bool {
	for _, registered := range c.RedirectURIs {
		if uri == registered || withoutPort(uri) != "" && withoutPort(uri) == withoutPort(registered) {
			return true
		}
	}
	return false
}

// withoutPort returns uri without its port if it is http on a loopback address, and nothing otherwise.
// localhost is a name and gets no such freedom.
func withoutPort(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" || !net.ParseIP(u.Hostname()).IsLoopback() || checkRedirect(uri) != nil {
		return ""
	}
	host := u.Hostname()
	u.Host = ""
	return host + " " + u.String()
}

// client finds a client by its id.
func (i *Issuer) client(r *http.Request, id string) (*Client, *failure) {
	if id == "" {
		return nil, fail("invalid_client", "client_id is missing")
	}
	i.mu.Lock()
	c, found := i.known[id]
	if !found {
		c, found = i.clients.get(id)
	}
	i.mu.Unlock()
	if !found && isDocumentURL(id) {
		return i.fetchClient(r.Context(), id)
	}
	if !found {
		return nil, fail("invalid_client", "this client_id is not known here: register again (the issuer forgets when it stops)")
	}
	return c, nil
}

// authenticate finds the client that sends a form to the token endpoint and has it prove itself
// (RFC 6749, section 2.3.1).
func (i *Issuer) authenticate(r *http.Request) (*Client, *failure) {
	id, proof, basic := r.BasicAuth()
	if basic {
		var err error
		if id, err = url.QueryUnescape(id); err != nil {
			return nil, fail("invalid_client", "the user name of the Authorization header is not form-encoded")
		}
		if proof, err = url.QueryUnescape(proof); err != nil {
			return nil, fail("invalid_client", "the password of the Authorization header is not form-encoded")
		}
		if r.PostForm.Has("client_secret") || r.PostForm.Has("client_id") && r.PostForm.Get("client_id") != id {
			return nil, fail("invalid_request", "the client proves itself in two ways at once")
		}
	} else {
		id, proof = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	c, failed := i.client(r, id)
	if failed != nil {
		return nil, failed
	}
	if subtle.ConstantTimeCompare([]byte(proof), []byte(c.Secret)) != 1 {
		return nil, fail("invalid_client", "the client secret is wrong, missing, or sent by a client that has none")
	}
	return c, nil
}
