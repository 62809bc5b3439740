// Package devissuer is a small OAuth 2.1 authorization server for tests, examples and
// development on one machine. It has no passwords: on its consent page, any person can
// log in as any of the configured users. Every page says so, and the server listens on
// loopback addresses only.
//
// Start it, and configure its URL as the issuer of a server:
//
//	issuer, err := devissuer.Start(devissuer.Config{Scopes: []string{"files:read"}})
//	if err != nil { … }
//	defer issuer.Close()
//	fmt.Println(issuer.URL()) // http://127.0.0.1:41234
//
// It implements what MCP requires of an authorization server (2026-07-28,
// basic/authorization): metadata (RFC 8414), the authorization code flow with PKCE S256
// and a consent page, the iss parameter (RFC 9207), resource indicators (RFC 8707),
// dynamic registration (RFC 7591; deprecated, see package oauth), client credentials, rotating
// refresh tokens, revocation (RFC 7009), DPoP (RFC 9449), and JWT access tokens (RFC 9068) that
// are signed with the key at its jwks_uri.
//
// It keeps all state in memory, in bounded tables, until it is closed.
//
// For a test that needs only a token, [Issuer.Token] returns one.
package devissuer
