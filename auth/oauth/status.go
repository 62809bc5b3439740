package oauth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status describes a stored login. It contains no secrets.
type Status struct {
	Server   string // the MCP server's URL
	Resource string // the resource that the token is for; empty for a server of 2025-03-26 without metadata
	Issuer   string // the authorization server that issued the token
	// Subject is the user that the token names; empty if it names none. The token is not
	// verified, so Subject is for display only.
	Subject string
	// Scopes are the granted scopes.
	Scopes []string
	// Expires is when the token expires; zero if it is not known.
	Expires time.Time
	// Renewable reports whether there is a refresh token.
	Renewable bool
	// Bound reports whether the token is bound to a key (DPoP).
	Bound bool
}

// Status returns the stored login at a server, nil if there is none. It sends no
// requests.
func (c *Client) Status(ctx context.Context, server string) (*Status, error) {
	canonical, err := canonicalServer(server)
	if err != nil {
		return nil, err
	}
	r, err := load[record](ctx, c.store(), serverKey(canonical))
	if err != nil || r == nil {
		return nil, err
	}
	t, err := load[token](ctx, c.store(), r.tokenKey(canonical))
	if err != nil || !t.usable() {
		return nil, err
	}
	return &Status{
		Server: canonical, Resource: r.Resource, Issuer: r.Issuer, Subject: subjectOf(t.Access),
		Scopes: slices.Clone(t.Scopes), Expires: t.Expires, Renewable: t.Refresh != "", Bound: t.Type == typeDPoP,
	}, nil
}

// Servers returns the URLs of the servers with stored logins, sorted. It fails with
// errors.ErrUnsupported if the store has no method Keys(context.Context) ([]string,
// error). [MemoryStore] and [FileStore] have it.
func (c *Client) Servers(ctx context.Context) ([]string, error) {
	lister, ok := c.store().(interface {
		Keys(ctx context.Context) ([]string, error)
	})
	if !ok {
		return nil, fmt.Errorf("cannot list the token store: %w", errors.ErrUnsupported)
	}
	keys, err := lister.Keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list the token store: %w", err)
	}
	var servers []string
	for _, key := range keys {
		if server, ok := strings.CutPrefix(key, serverKey("")); ok {
			servers = append(servers, server)
		}
	}
	slices.Sort(servers)
	return servers, nil
}

// subjectOf returns the subject of a JSON Web Token, empty for other tokens.
func subjectOf(access string) string {
	parts := strings.Split(access, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if decode(payload, &claims) != nil {
		return ""
	}
	return claims.Subject
}
