package oauth

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// resourceMetadata is the metadata of a protected resource, as far as it is used (RFC
// 9728, section 2).
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported"`
	DPoPRequired         bool     `json:"dpop_bound_access_tokens_required"`
}

// serverMetadata is the metadata of an authorization server, as far as it is used (RFC
// 8414, section 2; OpenID Connect Discovery 1.0, section 3).
type serverMetadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	ScopesSupported       []string `json:"scopes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	TokenAuthMethods      []string `json:"token_endpoint_auth_methods_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	IssParameter          bool     `json:"authorization_response_iss_parameter_supported"`
	ClientIDDocuments     bool     `json:"client_id_metadata_document_supported"`

	fallback bool // found by the rules of 2025-03-26
	guessed  bool // without a document: the default endpoints of 2025-03-26
}

// Limits of lists in metadata.
const (
	maxAuthorizationServers = 16
	maxScopes               = 128
)

// decode decodes a JSON document. Names are case-sensitive, and a duplicate name is an
// error, because two parsers could read it differently.
func decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return errors.New("cannot decode the JSON document") // err contains parts of the document
	}
	return nil
}

// parseResource parses the metadata of a resource. From is the URL that it was fetched
// from, server that of the MCP server.
func parseResource(body []byte, from, server *url.URL) (*resourceMetadata, error) {
	m := &resourceMetadata{}
	if err := decode(body, m); err != nil {
		return nil, fmt.Errorf("%w: resource metadata: %w", ErrDiscovery, err)
	}
	if !isResourceOf(m.Resource, from, server) {
		return nil, fmt.Errorf("%w: %.200q instead of %s", ErrResourceMismatch, m.Resource, withoutQuery(server))
	}
	if n := len(m.AuthorizationServers); n == 0 || n > maxAuthorizationServers {
		return nil, fmt.Errorf("%w: resource metadata must name 1 to %d authorization servers, got %d", ErrDiscovery, maxAuthorizationServers, n)
	}
	if slices.Contains(m.AuthorizationServers, "") { // empty or null
		return nil, fmt.Errorf("%w: resource metadata names an authorization server that is empty", ErrDiscovery)
	}
	if !validScopes(m.ScopesSupported) {
		return nil, fmt.Errorf("%w: resource metadata lists an invalid scope", ErrDiscovery)
	}
	return m, nil
}

// isResourceOf reports whether resource, whose metadata was fetched from the URL from,
// is the MCP server (RFC 9728, section 3.3), or a resource whose path is a prefix of the
// server's path. In the second case from must be the metadata URL of that resource, so
// that the owner of one path cannot claim another path of the host. A trailing slash is
// ignored.
func isResourceOf(resource string, from, server *url.URL) bool {
	u, err := checkURL(resource)
	if err != nil || !httpurl.SameOrigin(u, server) || u.RawQuery != "" && u.RawQuery != server.RawQuery {
		return false
	}
	path, serverPath := strings.TrimRight(u.EscapedPath(), "/"), strings.TrimRight(server.EscapedPath(), "/")
	if path == serverPath {
		return true
	}
	if !strings.HasPrefix(serverPath, path+"/") || u.RawQuery != "" {
		return false
	}
	return httpurl.SameOrigin(from, u) && strings.TrimRight(from.EscapedPath(), "/") == wellKnownResource+path
}

// parseServer parses the metadata of the authorization server issuer.
func parseServer(body []byte, issuer string) (*serverMetadata, error) {
	m := &serverMetadata{}
	if err := decode(body, m); err != nil {
		return nil, fmt.Errorf("%w: metadata of the authorization server: %w", ErrDiscovery, err)
	}
	if m.Issuer != issuer { // byte for byte (RFC 8414, section 3.3)
		return nil, fmt.Errorf("%w: the metadata of %.200q names %.200q", ErrIssuerMismatch, issuer, m.Issuer)
	}
	return m, nil
}

// checkEndpoints checks all endpoints, before one of them is used.
func (m *serverMetadata) checkEndpoints(p *peers) error {
	if m.TokenEndpoint == "" {
		return fmt.Errorf("%w: the metadata of the authorization server has no token_endpoint", ErrDiscovery)
	}
	for _, e := range []struct{ name, url string }{
		{"authorization", m.AuthorizationEndpoint}, {"token", m.TokenEndpoint},
		{"registration", m.RegistrationEndpoint}, {"revocation", m.RevocationEndpoint},
	} {
		if e.url == "" {
			continue
		}
		if _, err := p.check(e.url); err != nil {
			return fmt.Errorf("%s endpoint: %w", e.name, err)
		}
	}
	return nil
}

// supportsPKCE reports whether the server supports the PKCE method S256. A server found
// by the rules of 2025-03-26 need not list it.
func (m *serverMetadata) supportsPKCE() bool {
	return slices.Contains(m.ChallengeMethods, "S256") || m.fallback && len(m.ChallengeMethods) == 0
}

// validScopes reports whether all scopes have the syntax of RFC 6749, section 3.3, and are
// not too many.
func validScopes(scopes []string) bool {
	if len(scopes) > maxScopes {
		return false
	}
	for _, s := range scopes {
		if s == "" || len(s) > 256 {
			return false
		}
		for i := range len(s) {
			if c := s[i]; c < 0x21 || c > 0x7E || c == '"' || c == '\\' {
				return false
			}
		}
	}
	return true
}
