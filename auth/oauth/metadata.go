package oauth

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// resourceMetadata is what is used of a protected resource's metadata (RFC 9728,
// section 2).
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported"`
	DPoPRequired         bool     `json:"dpop_bound_access_tokens_required"`
}

// serverMetadata is what is used of an authorization server's metadata (RFC 8414,
// section 2; OpenID Connect Discovery 1.0, section 3).
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

	// fallback: it was found, or made up, in the way of 2025-03-26.
	fallback bool
	guessed  bool // made up: there is no metadata at all
}

// Bounds on lists in metadata.
const (
	maxAuthorizationServers = 16
	maxScopes               = 128
)

// decode reads a document strictly: names are compared in their case, and a name that
// comes twice makes it invalid, because two parsers could read two things.
func decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("it is not the JSON it should be") // the decoder's own text repeats parts of it
	}
	return nil
}

// parseResource reads metadata of a resource that was fetched from a URL, for an MCP
// server.
func parseResource(body []byte, from, server *url.URL) (*resourceMetadata, error) {
	m := &resourceMetadata{}
	if err := decode(body, m); err != nil {
		return nil, fmt.Errorf("%w: resource metadata: %w", ErrDiscovery, err)
	}
	if !isResourceOf(m.Resource, from, server) {
		return nil, fmt.Errorf("%w: %.200q, and not %s", ErrResourceMismatch, m.Resource, shown(server))
	}
	if n := len(m.AuthorizationServers); n == 0 || n > maxAuthorizationServers {
		return nil, fmt.Errorf("%w: resource metadata names %d authorization servers, not 1 to %d", ErrDiscovery, n, maxAuthorizationServers)
	}
	if !validScopes(m.ScopesSupported) {
		return nil, fmt.Errorf("%w: resource metadata lists scopes that are none", ErrDiscovery)
	}
	return m, nil
}

// isResourceOf reports whether metadata from a URL may speak for an MCP server. It
// must be the server's own (RFC 9728, section 3.3), or that of a resource which the
// server's path is below, found where that resource has its metadata: nobody who has
// but a part of a host speaks for all of it. A slash at the end makes no difference.
func isResourceOf(resource string, from, server *url.URL) bool {
	u, err := checkURL(resource)
	if err != nil || !httpurl.SameOrigin(u, server) || u.RawQuery != "" && u.RawQuery != server.RawQuery {
		return false
	}
	theirs, ours := strings.TrimRight(u.EscapedPath(), "/"), strings.TrimRight(server.EscapedPath(), "/")
	if theirs == ours {
		return true
	}
	if !strings.HasPrefix(ours, theirs+"/") || u.RawQuery != "" {
		return false
	}
	return httpurl.SameOrigin(from, u) && strings.TrimRight(from.EscapedPath(), "/") == wellKnownResource+theirs
}

// parseServer reads metadata of an authorization server that must be issuer.
func parseServer(body []byte, issuer string) (*serverMetadata, error) {
	m := &serverMetadata{}
	if err := decode(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDiscovery, err)
	}
	if m.Issuer != issuer { // byte for byte (RFC 8414, section 3.3)
		return nil, fmt.Errorf("%w: metadata of %.200q is about %.200q", ErrIssuerMismatch, issuer, m.Issuer)
	}
	return m, nil
}

// checkEndpoints holds all that a server names against the rules before any is used.
func (m *serverMetadata) checkEndpoints(w *web) error {
	if m.TokenEndpoint == "" {
		return fmt.Errorf("%w: the authorization server names no token endpoint", ErrDiscovery)
	}
	for _, e := range []struct{ name, url string }{
		{"authorization", m.AuthorizationEndpoint}, {"token", m.TokenEndpoint},
		{"registration", m.RegistrationEndpoint}, {"revocation", m.RevocationEndpoint},
	} {
		if e.url == "" {
			continue
		}
		if _, err := w.check(e.url); err != nil {
			return fmt.Errorf("the %s endpoint: %w", e.name, err)
		}
	}
	return nil
}

// pkce reports whether the server is known to support S256. Before 2025-11-25 a
// server without metadata, or with metadata of its own origin, need not say so.
func (m *serverMetadata) pkce() bool {
	return slices.Contains(m.ChallengeMethods, "S256") || m.fallback && len(m.ChallengeMethods) == 0
}

// validScopes reports whether all are scope-tokens (RFC 6749, section 3.3).
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
