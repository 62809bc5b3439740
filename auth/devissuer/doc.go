// Package devissuer is a small authorization server for development: for tests, for examples and for
// trying authorization on one machine without an account anywhere. It is real OAuth 2.1 with nothing
// behind it: anybody who sees its consent page may sign in as anybody on its list. It says so on every
// page, and it listens on loopback addresses only.
//
// Start it, and give its URL to a server as the issuer to trust:
//
//	issuer, err := devissuer.Start(devissuer.Config{Scopes: []string{"files:read"}})
//	if err != nil { … }
//	defer issuer.Close()
//	fmt.Println(issuer.URL()) // http://127.0.0.1:41234
//
// It has what the Model Context Protocol asks of an authorization server (2026-07-28,
// basic/authorization): metadata (RFC 8414), the authorization code flow with PKCE S256 and a consent
// page, the iss parameter (RFC 9207), resource indicators (RFC 8707), dynamic registration (RFC 7591),
// client id metadata documents, client credentials, refresh tokens that rotate, revocation (RFC 7009),
// tokens that are bound to a key for clients that prove to have one (RFC 9449), and access tokens that are JWTs of RFC 9068, signed by the keys at its jwks_uri.
//
// Everything it knows is in memory, bounded, and gone when it is closed.
//
// In a test that needs a token and no dance, [Issuer.Token] makes one.
package devissuer
