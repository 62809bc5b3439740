package oauth

import (
	"context"
	"net/http"
	"strings"
)

// Login authorizes for a server before a request needs it, and anew if there is a token
// already. The server is asked what it wants first. Scopes are asked for beside that, and
// beside what was asked for before.
func (c *Client) Login(ctx context.Context, server string, scopes ...string) error {
	s, err := c.session(server)
	if err != nil {
		return err
	}
	n := need{anew: true}
	if err := s.inquire(ctx, &n); err != nil {
		return err
	}
	n.challenged = union(n.challenged, scopes)
	return s.obtain(ctx, n)
}

// ping is a request that does nothing, in every revision, wherever it is let in.
const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// inquire has the server say what it wants: a challenge comes before all other ways to
// find that out (2026-07-28, basic/authorization/authorization-server-discovery).
func (s *session) inquire(ctx context.Context, n *need) error {
	if _, err := s.web.check(s.server); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server, strings.NewReader(ping))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	r, err := s.web.do(req)
	if err != nil {
		return err
	}
	n.let = r.status != http.StatusUnauthorized && r.status != http.StatusForbidden
	if c, ours := challengeOf(r.header, ""); ours && r.status == http.StatusUnauthorized {
		n.hint, n.challenged, n.proof = c.Params["resource_metadata"], splitScopes(c.Params["scope"]), c.Is(typeDPoP)
	}
	return nil
}

// Logout forgets the tokens for a server, in the store too, and tells the
// authorization server so if it takes that. The registration stays.
func (c *Client) Logout(ctx context.Context, server string) error {
	s, err := c.session(server)
	if err != nil {
		return err
	}
	return s.forget(ctx)
}
