package oauth

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/parley-mcp/parley/internal/challenge"
)

// Login authorizes for a server before a request needs a token, or again if there is a
// token. It first sends the server a request to learn which scopes it requires. It
// requests these, the given scopes, and those of the previous authorization. It does not wait for
// other logins; the token of the one that ends last is stored.
func (c *Client) Login(ctx context.Context, server string, scopes ...string) error {
	s, err := c.session(server)
	if err != nil {
		return err
	}
	n := need{force: true}
	if err := s.probe(ctx, &n); err != nil {
		return err
	}
	n.challenged = challenge.Union(n.challenged, scopes)
	return s.obtain(ctx, n)
}

// ping is a request without effect in every revision.
const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// probe sends a request without token and reads the challenge, which has precedence over
// other information (2026-07-28, basic/authorization/authorization-server-discovery).
func (s *session) probe(ctx context.Context, n *need) error {
	if _, err := s.peers.check(s.server); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server, strings.NewReader(ping))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	r, err := s.peers.do(stepChallenge, req)
	if err != nil {
		return err
	}
	if r.redirect != "" {
		return fmt.Errorf("%w: %s responded with %s; if you trust it, log in at that URL", ErrDiscovery, withoutQuery(s.peers.server), r.statusText())
	}
	n.accepted = r.status != http.StatusUnauthorized && r.status != http.StatusForbidden
	if c, supported := challengeOf(r.header, ""); supported && r.status == http.StatusUnauthorized {
		n.metadataURL, n.challenged, n.dpop = c.Params["resource_metadata"], splitScopes(c.Params["scope"]), c.Is(typeDPoP)
	}
	return nil
}

// Logout deletes the token for a server, also from the store, and revokes it if the
// authorization server supports that. It keeps the registration.
func (c *Client) Logout(ctx context.Context, server string) error {
	s, err := c.session(server)
	if err != nil {
		return err
	}
	return s.logout(ctx)
}
