// Package devissuer is a small OAuth 2.1 authorization server for tests, examples and development on one machine. It
// has no passwords: on its page, any person can log in as any of the configured users. The page says so, and the server
// listens on the loopback interface only.
//
// Start it, and configure its URL as the issuer of a server:
//
//	issuer, err := devissuer.Start(devissuer.Config{Scopes: []string{"files:read"}})
//	if err != nil { … }
//	defer issuer.Close()
//	fmt.Println(issuer.URL()) // http://127.0.0.1:41234
//
// It implements metadata (RFC 8414), the authorization code flow with PKCE, the parameters iss (RFC 9207) and resource
// (RFC 8707), dynamic registration of public clients (RFC 7591), client credentials, refresh tokens, and access tokens
// that are JSON Web Tokens (RFC 9068). It does not bind tokens to keys (DPoP), replace refresh tokens or revoke tokens.
// It keeps everything in memory, in bounded tables, until it is closed.
//
// For a test that needs only a token, [Issuer.Token] returns one.
package devissuer
