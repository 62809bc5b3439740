package devissuer

import (
	"context"
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

// isDocumentURL reports whether a client id is the address of a client id metadata document:
// https with a path, no fragment and no user information.
func isDocumentURL(id string) bool {
	u, err := url.Parse(id)
	return err == nil && u.Scheme == "https" && u.Host != "" && strings.Trim(u.Path, "/") != "" &&
		u.User == nil && !strings.Contains(id, "#")
}

// fetchClient reads the document that a client id names. The document must name the same id: whoever
// can publish at the URL is the client.
func (i *Issuer) fetchClient(ctx context.Context, id string) (*Client, *failure) {
	if i.config.Documents == nil {
		return nil, fail("invalid_client", "this issuer fetches no client id metadata documents: register instead")
	}
	c, err := i.readDocument(ctx, id)
	if err != nil {
		i.logger.Warn("a client id metadata document is unusable", "client", id, "error", err)
		return nil, fail("invalid_client", "the client id metadata document is unusable: "+err.Error())
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
	fetching := *i.config.Documents
	fetching.CheckRedirect = redirect.None
	answer, err := fetching.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return nil, fmt.Errorf("it is %q and not JSON", kind)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxDocument {
		return nil, fmt.Errorf("it is longer than %d bytes", maxDocument)
	}
	var said registration
	if err := jsonv2.Unmarshal(body, &said); err != nil {
		return nil, err
	}
	if said.ID != id {
		return nil, fmt.Errorf("its client_id is %q", said.ID)
	}
	if said.Secret != "" {
		return nil, fmt.Errorf("it has a client_secret, which everybody can read")
	}
	if said.AuthMethod == "" {
		said.AuthMethod = authNone
	}
	if said.AuthMethod != authNone {
		return nil, fmt.Errorf("token_endpoint_auth_method %q is not supported for it", said.AuthMethod)
	}
	c, failed := said.client()
	if failed != nil {
		return nil, failed
	}
	c.ID, c.document = id, true
	return c, nil
}
