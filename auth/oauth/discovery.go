package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/parley-mcp/parley/internal/httpurl"
)

const (
	wellKnownResource = "/.well-known/oauth-protected-resource"
	wellKnownServer   = "/.well-known/oauth-authorization-server"
	wellKnownOpenID   = "/.well-known/openid-configuration"
)

// discovery is the metadata of an MCP server and of its authorization server.
type discovery struct {
	resource *resourceMetadata // nil: none, as in 2025-03-26
	server   *serverMetadata
}

// resourceID returns the resource of token requests, exactly as in the metadata; empty
// without metadata.
func (d *discovery) resourceID() string {
	if d.resource == nil {
		return ""
	}
	return d.resource.Resource
}

// record returns the stored part of d.
func (d *discovery) record() *record {
	return &record{d.server.Issuer, d.resourceID(), d.server.fallback}
}

// discover finds the authorization server of an MCP server (2026-07-28,
// basic/authorization/authorization-server-discovery). metadataURL is the
// resource_metadata of a challenge, or empty. prefer chooses one of several authorization
// servers.
func (p *peers) discover(ctx context.Context, metadataURL, revision string,
	prefer func(issuers []string) string) (*discovery, error) {
	resource, err := p.resource(ctx, metadataURL, revision)
	if err != nil {
		return nil, err
	}
	if resource == nil {
		server, err := p.ownServer(ctx, revision)
		return &discovery{server: server}, err
	}
	server, err := p.authorizationServer(ctx, prefer(resource.AuthorizationServers))
	return &discovery{resource, server}, err
}

// resource fetches the metadata of the MCP server: from metadataURL or, if that is empty,
// from the well-known URLs for its path and for its root. It returns nil if there is none.
func (p *peers) resource(ctx context.Context, metadataURL, revision string) (*resourceMetadata, error) {
	if metadataURL != "" {
		u, err := p.check(metadataURL)
		if err != nil {
			return nil, fmt.Errorf("resource_metadata of the challenge: %w", err)
		}
		r, err := p.get(ctx, u, revision)
		if err != nil {
			return nil, err
		}
		if r.status != http.StatusOK {
			return nil, fmt.Errorf("%w: %s responded with %s", ErrDiscovery, httpurl.WithoutQuery(u), r.statusText())
		}
		return parseResource(r.body, u, p.server)
	}
	paths := []string{wellKnownResource + strings.TrimRight(p.server.EscapedPath(), "/")}
	if paths[0] != wellKnownResource {
		paths = append(paths, wellKnownResource)
	}
	for i, path := range paths {
		u := withPath(p.server, path)
		if i == 0 {
			u.RawQuery = p.server.RawQuery
		}
		r, err := p.get(ctx, u, revision)
		if err != nil {
			return nil, err
		}
		if r.status == http.StatusOK && isJSON(r) {
			return parseResource(r.body, u, p.server)
		}
		if err := absent(u, r); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// authorizationServer fetches the metadata of an issuer from the well-known URLs of RFC
// 8414 and OpenID Connect, in this order.
func (p *peers) authorizationServer(ctx context.Context, issuer string) (*serverMetadata, error) {
	u, err := p.check(issuer)
	if err != nil {
		return nil, fmt.Errorf("authorization server %.200q: %w", issuer, err)
	}
	if u.RawQuery != "" || u.ForceQuery {
		return nil, fmt.Errorf("authorization server %.200q: %w: it must not have a query", issuer, httpurl.ErrInsecure)
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	candidates := []string{wellKnownServer + path, wellKnownOpenID + path}
	if path != "" {
		candidates = append(candidates, path+wellKnownOpenID)
	}
	var mismatch error
	reason := ""
	for _, candidate := range candidates {
		m, redirect, err := p.serverAt(ctx, withPath(u, candidate), issuer)
		switch {
		case errors.Is(err, errIssuerMismatch):
			mismatch = err
		case m != nil || err != nil:
			return m, err
		case redirect != "":
			reason = "; a redirect to " + redirect + " is not followed"
		}
	}
	if mismatch != nil {
		return nil, mismatch
	}
	return nil, fmt.Errorf("%w: authorization server %.200q has no metadata at its well-known URLs%s", ErrDiscovery,
		issuer, reason)
}

// ownServer returns the metadata of an MCP server that is its own authorization server,
// by the rules of 2025-03-26 for servers without resource metadata. If there is no
// document, the server uses the default endpoints.
func (p *peers) ownServer(ctx context.Context, revision string) (*serverMetadata, error) {
	origin := (&url.URL{Scheme: p.server.Scheme, Host: p.server.Host}).String()
	if _, err := p.check(origin); err != nil {
		return nil, err
	}
	m, _, err := p.serverAt(ctx, withPath(p.server, wellKnownServer), origin)
	if err != nil {
		return nil, err
	}
	if m == nil {
		m = &serverMetadata{
			Issuer:                origin,
			AuthorizationEndpoint: origin + "/authorize",
			TokenEndpoint:         origin + "/token",
			RegistrationEndpoint:  origin + "/register",
			guessed:               true,
		}
	}
	m.fallback = true
	return m, nil
}

// noIssuer returns the error for an MCP server that requires credentials and names no authorization server.
func (p *peers) noIssuer() error {
	return fmt.Errorf("%w: %s names none, so requests need an API key or another token of the server", ErrDiscovery,
		httpurl.WithoutQuery(p.server))
}

// ofGuess returns the error of an authorization. If the authorization server was only a guess, and its
// answer shows that it is not one, ofGuess returns the error of noIssuer.
func (p *peers) ofGuess(d *discovery, err error) error {
	if e := new(ServerError); d.server.guessed && errors.As(err, &e) && e.Code == "" && e.status/100 == 4 {
		return p.noIssuer()
	}
	return err
}

// serverAt fetches metadata from u. If u has no metadata, m is nil, and redirect is the target if u redirects.
func (p *peers) serverAt(ctx context.Context, u *url.URL,
	issuer string) (m *serverMetadata, redirect string, err error) {
	r, err := p.get(ctx, u, "")
	if err != nil {
		return nil, "", err
	}
	if r.status != http.StatusOK || !isJSON(r) {
		return nil, r.redirect, absent(u, r)
	}
	if m, err = parseServer(r.body, issuer); err != nil {
		return nil, "", err
	}
	return m, "", m.checkEndpoints(p)
}

// absent returns nil if a response means that there is no document. A server error does
// not mean that, and must not make us try another URL.
func absent(u *url.URL, r *response) error {
	if r.status >= 500 || r.status == http.StatusTooManyRequests {
		return fmt.Errorf("%w: %s responded with %s; try again later", ErrDiscovery,
			httpurl.WithoutQuery(u), r.statusText())
	}
	return nil
}

// isJSON reports whether the body looks like a JSON object. Some servers respond with an HTML page
// to every unknown path.
func isJSON(r *response) bool {
	return strings.HasPrefix(strings.TrimLeft(string(r.body[:min(len(r.body), 64)]), " \t\r\n"), "{")
}

// withPath returns the URL of a path at the origin of u.
func withPath(u *url.URL, escapedPath string) *url.URL {
	path, err := url.PathUnescape(escapedPath)
	if err != nil { // cannot happen: it comes from a parsed URL
		path = escapedPath
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path, RawPath: escapedPath}
}

// resourceMetadata is the metadata of a protected resource, limited to the fields
// that we use (RFC 9728, section 2).
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported"`
	DPoPRequired         bool     `json:"dpop_bound_access_tokens_required"`
}

// serverMetadata is the metadata of an authorization server, limited to the fields
// that we use (RFC 8414, section 2; OpenID Connect Discovery 1.0, section 3).
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

// decode decodes a JSON document. Keys are case-sensitive, and a duplicate key is an
// error, because two parsers could read it differently.
func decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return errors.New("cannot decode the JSON document") // err contains parts of the document
	}
	return nil
}

// parseResource parses the metadata of a resource. from is the URL that it was fetched
// from, server the URL of the MCP server.
func parseResource(body []byte, from, server *url.URL) (*resourceMetadata, error) {
	m := &resourceMetadata{}
	if err := decode(body, m); err != nil {
		return nil, fmt.Errorf("%w: resource metadata: %w", ErrDiscovery, err)
	}
	if !isResourceOf(m.Resource, from, server) {
		return nil, fmt.Errorf("%w: %.200q instead of %s", errResourceMismatch, m.Resource,
			httpurl.WithoutQuery(server))
	}
	if n := len(m.AuthorizationServers); n == 0 || n > maxAuthorizationServers {
		return nil, fmt.Errorf("%w: resource metadata must name 1 to %d authorization servers, got %d", ErrDiscovery,
			maxAuthorizationServers, n)
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
// server's path. In the second case, from must be the metadata URL of that resource, so
// that the owner of one path cannot claim another path of the host. A trailing slash is
// ignored.
func isResourceOf(resource string, from, server *url.URL) bool {
	u, err := httpurl.Parse(resource)
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
		return nil, fmt.Errorf("%w: the metadata of %.200q names %.200q", errIssuerMismatch, issuer, m.Issuer)
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

// validScopes reports whether all scopes have the syntax of RFC 6749, section 3.3, and
// there are not too many.
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

// discover finds the authorization server of the MCP server.
func (s *session) discover(ctx context.Context, n *need) (*discovery, error) {
	if g, ok := s.owner.Grant.(*TokenExchange); ok {
		return g.discovery(s), nil
	}
	if s.owner.Issuer != "" {
		return s.ofIssuer(ctx)
	}
	return s.peers.discover(ctx, n.metadataURL, n.revision, s.preferredIssuer(ctx))
}

// discoveryAge is how long the metadata of Client.Issuer is used for new logins.
const discoveryAge = 10 * time.Minute

// ofIssuer returns the metadata of Client.Issuer.
func (s *session) ofIssuer(ctx context.Context) (*discovery, error) {
	if s.discovery == nil || time.Since(s.discovered) > discoveryAge {
		m, err := s.peers.authorizationServer(ctx, s.owner.Issuer)
		if err != nil {
			return nil, err
		}
		s.discovery, s.discovered = &discovery{resource: &resourceMetadata{Resource: s.server}, server: m}, time.Now()
	}
	return s.discovery, nil
}

// preferredIssuer returns a function that chooses one of several authorization servers:
// one with a configured registration, else the issuer of the stored token, else one
// with a stored registration, else the first.
func (s *session) preferredIssuer(ctx context.Context) func([]string) string {
	return func(issuers []string) string {
		for _, issuer := range issuers {
			if s.owner.configured(issuer, "") != nil {
				return issuer
			}
		}
		if slices.Contains(issuers, s.issuer) {
			return s.issuer
		}
		for _, issuer := range issuers {
			if c, err := load[client](ctx, s.owner.store(), clientKey(issuer)); err == nil && c != nil {
				return issuer
			}
		}
		return issuers[0]
	}
}

// supportsGrant reports whether the server supports a grant type. A server that lists
// none may support any.
func (m *serverMetadata) supportsGrant(grant string) bool {
	return len(m.GrantTypes) == 0 || slices.Contains(m.GrantTypes, grant)
}
