// Package auth is what both sides of authorization share, and the side of the
// resource server. The side of the client is package auth/oauth.
//
// A [ProtectedResource] is what a server needs to know: what it is called and who issues tokens
// for it.
//
//	s := &server.Server{Auth: &auth.ProtectedResource{
//		URI:     "https://mcp.example.com/mcp",
//		Issuers: []string{"https://as.example.com"},
//		Scopes:  []string{"mcp"},
//	}}
//
// From then on every request over HTTP, in every revision and with every method, needs
// a token that one of the issuers has signed, for this server, with these scopes.
// Whoever comes without is told where to get one. Tokens that only their issuer can
// read are verified by [Introspection], and all others by a [Verifier] of the program's
// own. Tokens that are bound to a key need a proof of it with each request: see [DPoP].
//
// A handler finds who calls in the context: [FromContext]. The token itself it does not
// find: it was issued for this server, and is of no business to any other. What a
// handler calls in turn needs a token of its own.
package auth
