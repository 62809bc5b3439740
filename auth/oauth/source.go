package oauth

import (
	"fmt"
	"net/http"

	"golang.org/x/oauth2"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// FromTokenSource returns a client.Authorizer that authorizes requests to one MCP server
// with the tokens of source, such as those of a cloud provider. Requests to other servers
// get no token. Source renews its tokens itself, so a rejected request is not sent again.
func FromTokenSource(server string, source oauth2.TokenSource) *SourceAuthorizer {
	return &SourceAuthorizer{server: server, source: oauth2.ReuseTokenSource(nil, source)}
}

// SourceAuthorizer is the client.Authorizer that [FromTokenSource] returns. It is safe
// for concurrent use.
type SourceAuthorizer struct {
	server string
	source oauth2.TokenSource
}

// Authorize implements client.Authorizer.
func (a *SourceAuthorizer) Authorize(req *http.Request, server string) error {
	if !sameServer(server, a.server) {
		return nil
	}
	if u := req.URL; u.Scheme != "https" && !httpurl.IsLoopback(u.Hostname()) {
		return fmt.Errorf("%w: %s must be https", ErrInsecureURL, withoutQuery(u))
	}
	token, err := a.source.Token()
	if err != nil {
		return fmt.Errorf("cannot get a token from the token source: %w", err)
	}
	token.SetAuthHeader(req)
	return nil
}

// Reauthorize implements client.Authorizer. It does nothing.
func (a *SourceAuthorizer) Reauthorize(*http.Request, string, *http.Response) (again bool, err error) {
	return false, nil
}
