package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

const (
	wellKnownResource = "/.well-known/oauth-protected-resource"
	wellKnownServer   = "/.well-known/oauth-authorization-server"
	wellKnownOpenID   = "/.well-known/openid-configuration"
)

// found is what discovery has found out about an MCP server.
type found struct {
	resource *resourceMetadata // nil: none, as in 2025-03-26
	server   *serverMetadata
}

// resourceID is what tokens are asked for, exactly as the metadata has it; empty where
// there is no metadata.
func (f *found) resourceID() string {
	if f.resource == nil {
		return ""
	}
	return f.resource.Resource
}

// known is what is remembered of it.
func (f *found) known() *known {
	return &known{f.server.Issuer, f.resourceID(), f.server.fallback}
}

// discover finds the authorization server of an MCP server (2026-07-28,
// basic/authorization/authorization-server-discovery). Hint is where a challenge says
// that the metadata is; prefer picks one of several authorization servers.
func (w *web) discover(ctx context.Context, hint, revision string, prefer func(issuers []string) string) (*found, error) {
	resource, err := w.resource(ctx, hint, revision)
	if err != nil {
		return nil, err
	}
	if resource == nil {
		server, err := w.ownServer(ctx, revision)
		return &found{server: server}, err
	}
	server, err := w.authorizationServer(ctx, prefer(resource.AuthorizationServers))
	return &found{resource, server}, err
}

// resource finds the metadata of the MCP server itself: where the challenge says, or
// else below its path and then at its root. It is nil where there is none.
func (w *web) resource(ctx context.Context, hint, revision string) (*resourceMetadata, error) {
	if hint != "" {
		u, err := w.check(hint)
		if err != nil {
			return nil, fmt.Errorf("resource_metadata of the challenge: %w", err)
		}
		r, err := w.get(ctx, u, revision)
		if err != nil {
			return nil, err
		}
		if r.status != http.StatusOK {
			return nil, fmt.Errorf("%w: %s answers with HTTP status %d", ErrDiscovery, shown(u), r.status)
		}
		return parseResource(r.body, u, w.server)
	}
	paths := []string{wellKnownResource + strings.TrimRight(w.server.EscapedPath(), "/")}
	if paths[0] != wellKnownResource {
		paths = append(paths, wellKnownResource)
	}
	for i, path := range paths {
		u := at(w.server, path)
		if i == 0 {
			u.RawQuery = w.server.RawQuery
		}
		r, err := w.get(ctx, u, revision)
		if err != nil {
			return nil, err
		}
		if r.status == http.StatusOK && isJSON(r) {
			return parseResource(r.body, u, w.server)
		}
		if err := absent(u, r); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// authorizationServer fetches the metadata of an issuer: by RFC 8414, and in the two
// places of OpenID Connect, in this order and nowhere else.
func (w *web) authorizationServer(ctx context.Context, issuer string) (*serverMetadata, error) {
	u, err := w.check(issuer)
	if err != nil {
		return nil, fmt.Errorf("authorization server %.200q: %w", issuer, err)
	}
	if u.RawQuery != "" || u.ForceQuery {
		return nil, fmt.Errorf("authorization server %.200q: %w: it has a query", issuer, ErrInsecureURL)
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	places := []string{wellKnownServer + path, wellKnownOpenID + path}
	if path != "" {
		places = append(places, path+wellKnownOpenID)
	}
	var mismatch error
	for _, place := range places {
		m, err := w.serverAt(ctx, at(u, place), issuer)
		switch {
		case errors.Is(err, ErrIssuerMismatch):
			mismatch = err
		case m != nil || err != nil:
			return m, err
		}
	}
	if mismatch != nil {
		return nil, mismatch
	}
	return nil, fmt.Errorf("%w: authorization server %.200q has none where it should be", ErrDiscovery, issuer)
}

// ownServer is what 2025-03-26 says of servers without metadata of their own: they
// are their own authorization servers, with endpoints in default places if they do
// not say where.
func (w *web) ownServer(ctx context.Context, revision string) (*serverMetadata, error) {
	origin := (&url.URL{Scheme: w.server.Scheme, Host: w.server.Host}).String()
	if _, err := w.check(origin); err != nil {
		return nil, err
	}
	m, err := w.serverAt(ctx, at(w.server, wellKnownServer), origin)
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

// serverAt is nil where there is nothing.
func (w *web) serverAt(ctx context.Context, u *url.URL, issuer string) (*serverMetadata, error) {
	r, err := w.get(ctx, u, "")
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK || !isJSON(r) {
		return nil, absent(u, r)
	}
	m, err := parseServer(r.body, issuer)
	if err != nil {
		return nil, err
	}
	return m, m.checkEndpoints(w)
}

// absent returns no error for a response which says that there is nothing. A server
// in trouble says nothing: taking that for an answer would lead elsewhere.
func absent(u *url.URL, r *reply) error {
	if r.status >= 500 || r.status == http.StatusTooManyRequests {
		return fmt.Errorf("%w: %s answers with HTTP status %d: try again later", ErrDiscovery, shown(u), r.status)
	}
	return nil
}

// isJSON reports whether a document is one, and not the page that some servers show
// for every path that they do not know.
func isJSON(r *reply) bool {
	return strings.HasPrefix(strings.TrimLeft(string(r.body[:min(len(r.body), 64)]), " \t\r\n"), "{")
}

func at(u *url.URL, escapedPath string) *url.URL {
	path, err := url.PathUnescape(escapedPath)
	if err != nil { // it comes from URLs that have been parsed
		path = escapedPath
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path, RawPath: escapedPath}
}
