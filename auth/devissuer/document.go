package devissuer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/redirect"
)

const (
	maxDocument      = 10 << 10 // the draft recommends 5 KB
	documentTimeout  = 10 * time.Second
	documentLifetime = 5 * time.Minute
)

// isDocumentURL reports whether a client ID is the URL of a client ID metadata document: https
// with a path, without fragment and user information.
func isDocumentURL(id string) bool {
	u, err := url.Parse(id)
	return err == nil && u.Scheme == "https" && u.Host != "" && strings.Trim(u.Path, "/") != "" &&
		u.User == nil && !strings.Contains(id, "#")
}

// fetchClient returns the client of a client ID metadata document. The document must contain
// its own URL as the client ID.
func (i *Issuer) fetchClient(ctx context.Context, id string) (*Client, *failure) {
	if i.config.Documents == nil {
		return nil, fail("invalid_client", "client ID metadata documents are not supported: register the client")
	}
	c, err := i.readDocument(ctx, id)
	if err != nil {
		i.logger.Warn("cannot use a client ID metadata document", "client", id, "error", err)
		return nil, fail("invalid_client", "cannot use the client ID metadata document: "+err.Error())
	}
	i.mu.Lock()
	i.clients.put(id, c, time.Now().Add(documentLifetime))
	i.mu.Unlock()
	return c, nil
}

func (i *Issuer) readDocument(ctx context.Context, id string) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	client := *i.config.Documents
	client.CheckRedirect = redirect.None
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", response.StatusCode)
	}
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if media != "application/json" && !strings.HasSuffix(media, "+json") {
		return nil, fmt.Errorf("the document must be JSON, but its media type is %q", media)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxDocument {
		return nil, fmt.Errorf("the document is longer than %d bytes", maxDocument)
	}
	var metadata registration
	if err := jsonv2.Unmarshal(body, &metadata); err != nil {
		return nil, err
	}
	if metadata.ID != id {
		return nil, fmt.Errorf("client_id must be the URL of the document, got %q", metadata.ID)
	}
	if metadata.Secret != "" {
		return nil, errors.New("the document must not contain a client_secret, because it is public")
	}
	if metadata.AuthMethod == "" {
		metadata.AuthMethod = authNone
	}
	if metadata.AuthMethod != authNone {
		return nil, fmt.Errorf("token_endpoint_auth_method must be none, got %q", metadata.AuthMethod)
	}
	c, failed := metadata.client()
	if failed != nil {
		return nil, failed
	}
	c.ID, c.document = id, true
	return c, nil
}
