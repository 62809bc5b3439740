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

// Status is what is known of a login. Nothing of it is secret.
type Status struct {
	Server   string // the MCP server's URL
	Resource string // what the token is for; empty for a server of 2025-03-26
	Issuer   string // who has issued it
	// Subject is the user, as the token itself says; empty if it does not. Nobody has
	// verified it, since that is the server's part: it is for people to read.
	Subject string
	// Scopes are those that were granted.
	Scopes []string
	// Expires is when the token ends; zero: it was not said.
	Expires time.Time
	// Renewable: there is a refresh token.
	Renewable bool
	// Bound: the token is of no use without a key that the store has (DPoP).
	Bound bool
}

// Status returns what the store has of the login to a server, nil if it has none. It
// asks nobody, and renews nothing.
func (c *Client) Status(ctx context.Context, server string) (*Status, error) {
	canonical, err := canonicalServer(server)
	if err != nil {
		return nil, err
	}
	k, err := load[known](ctx, c.store(), serverKey(canonical))
	if err != nil || k == nil {
		return nil, err
	}
	t, err := load[token](ctx, c.store(), k.tokenKey(canonical))
	if err != nil || !t.usable() {
		return nil, err
	}
	return &Status{
		Server: canonical, Resource: k.Resource, Issuer: k.Issuer, Subject: subjectOf(t.Access),
		Scopes: slices.Clone(t.Scopes), Expires: t.Expires, Renewable: t.Refresh != "", Bound: t.Type == typeDPoP,
	}, nil
}

// Servers returns the servers that the store has logins for, sorted. It fails with
// errors.ErrUnsupported if the store has no method Keys(context.Context) ([]string,
// error), which [MemoryStore] and [FileStore] have.
func (c *Client) Servers(ctx context.Context) ([]string, error) {
	lister, ok := c.store().(interface {
		Keys(ctx context.Context) ([]string, error)
	})
	if !ok {
		return nil, fmt.Errorf("listing the store of tokens: %w", errors.ErrUnsupported)
	}
	keys, err := lister.Keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("the store of tokens: %w", err)
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

// subjectOf reads the subject of a token that is a JSON Web Token.
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
