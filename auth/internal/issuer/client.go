// Package issuer contains the shared parts of the verifiers of access tokens: a client that fetches JSON documents from
// authorization servers, and the claims of tokens and introspection responses.
package issuer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth/internal/secrets"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/redirect"
)

const (
	maxDocument     = 512 << 10 // bytes
	documentTimeout = 10 * time.Second
	maxRedirects    = 3
)

// Client fetches JSON documents from authorization servers that the program has
// configured. It follows redirects within an origin only.
type Client struct{ http *http.Client }

// NewClient returns a Client with the transport of base, which may be nil.
func NewClient(base *http.Client) *Client {
	c := &http.Client{}
	if base != nil {
		*c = *base
	}
	c.CheckRedirect = redirect.SameOrigin(maxRedirects)
	return &Client{c}
}

// StatusError reports a response with a status other than 200.
type StatusError struct {
	Status   int
	Redirect string // the target of a redirect that was not followed
}

// Error implements the error interface.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server responded with HTTP status %d", e.Status)
	if e.Redirect != "" {
		text += ", a redirect to " + e.Redirect + ", which is not followed"
	}
	return text
}

// Do sends req and returns the body of the JSON response. It takes at most 10 seconds
// and reads at most 512 KiB. Its errors do not contain the URL of req.
func (c *Client) Do(req *http.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(req.Context(), documentTimeout)
	defer cancel()
	req = req.WithContext(ctx)
	req.Header.Set("Accept", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return nil, secrets.Of(req).CleanError(httpurl.Redact(err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, &StatusError{res.StatusCode, secrets.Of(req).Clean(redirect.Target(res), "***")}
	}
	contentType := res.Header.Get("Content-Type")
	if media, _, _ := mime.ParseMediaType(contentType); media != "application/json" &&
		!strings.HasSuffix(media, "+json") {
		return nil, fmt.Errorf("the response must be JSON, but its Content-Type is %.100q", contentType)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("the response is longer than %d bytes", maxDocument)
	}
	return bytes.Trim(data, " \t\r\n"), err // some servers begin with a line break
}

// Get fetches the document at from. See [Client.Do].
func (c *Client) Get(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, httpurl.Redact(err)
	}
	return c.Do(req)
}
