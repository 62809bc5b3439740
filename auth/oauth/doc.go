// Package oauth is the client's side of authorization: it gets, keeps and renews the
// tokens with which MCP servers over HTTP are called.
//
// A [Client] plugs into a client's dialer. When a server wants a token, it finds out
// who issues them, makes itself known there, takes the user to the login and comes
// back with one:
//
//	login := &oauth.Client{Name: "My program", Interaction: &oauth.Loopback{}}
//	d := client.Dialer{Auth: login}
//	c, err := d.Dial(ctx, client.URL("https://example.com/mcp"))
//
// With a [FileStore] the next start needs no login. Programs without a user set
// Client.Grant: [ClientCredentials], [Enterprise] or [Workload]. A program that has
// tokens of its own uses [FromTokenSource].
//
// # What it keeps to
//
// Every URL that a peer names is https, and leads to public addresses only, as they
// are when they are dialled; while the MCP server itself is on this machine, so may
// the others be. Redirects are not followed. Metadata must be about who was asked.
// Codes are bound to us by PKCE, to our request by their state, to their issuer, and to
// the browser that was sent for them.
// Tokens and registrations belong to the authorization server that gave them out, and
// tokens to one MCP server; they are sent nowhere else, and are in no log, error or
// URL. Users are asked at most three times a minute for one server, and a no is
// remembered.
//
// Rules: basic/authorization of each revision; 2025-03-26 servers without metadata of
// their own are their own authorization servers.
package oauth
