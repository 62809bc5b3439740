package oauth

import (
	"fmt"
	"net/http"

	"golang.org/x/oauth2"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// FromTokenSource authorizes requests to one MCP server with the tokens of a source,
// such as a cloud's, for a Dialer's Auth. Requests to other servers get none. Source
// renews what it gives out; a refusal by the server stands.
func FromTokenSource(server string, source oauth2.TokenSource) *SourceAuthorizer {
	return &SourceAuthorizer{server: server, source: oauth2.ReuseTokenSource(nil, source)}
}

// SourceAuthorizer is what FromTokenSource returns. It is safe for concurrent use.
type SourceAuthorizer struct {
	server string
	source oauth2.TokenSource
}

// Authorize implements client.Authorizer.
func (t *SourceAuthorizer) Authorize(req *http.Request, server string) error {
	if !sameServer(server, t.server) {
		return nil
	}
	if u := req.URL; u.Scheme != "https" && !httpurl.IsLoopback(u.Hostname()) {
		return fmt.Errorf("%w: %s is not https", ErrInsecureURL, shown(u))
	}
	token, err := t.source.Token()
	if err != nil {
		return fmt.Errorf("the source of tokens: %w", err)
	}
	token.SetAuthHeader(req)
	return nil
}

// Reauthorize implements client.Authorizer.
func (t *SourceAuthorizer) Reauthorize(*http.Request, string, *http.Response) (again bool, err error) {
	return false, nil
}
