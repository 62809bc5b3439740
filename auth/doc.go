// Package auth protects MCP servers over HTTP with OAuth access tokens. It is the side
// of the server; package auth/oauth is the side of the client.
//
// A [ProtectedResource] describes a server: its URI, the authorization servers that issue
// tokens for it, and the scopes that requests need.
//
//	s := &server.Server{Auth: jwt.Protect(&auth.ProtectedResource{
//		URI:     "https://mcp.example.com/mcp",
//		Issuers: []string{"https://as.example.com"},
//		Scopes:  []string{"mcp"},
//	})}
//
// The server then requires a token with every HTTP request, in every revision and for
// every method. It responds to a request without a valid token with a challenge that tells
// the client where to get one.
//
// Without Issuers, the callers of the server have tokens from elsewhere, such as API keys. Then neither URI nor
// Info.Audience is needed. [Keys] verifies API keys, alone or beside the tokens of an issuer:
//
//	s.Auth = &auth.ProtectedResource{Verifier: &auth.Keys{File: "keys.json"}}
//
// A program that authenticates its callers itself, in middleware in front of the server, tells the server with
// [NewContext] who they are.
//
// A [Verifier] verifies the tokens. Package auth/jwt verifies JSON Web Tokens and DPoP
// proofs, package auth/introspection asks the authorization server, and a program can
// supply its own [VerifierFunc].
//
// Handlers find the caller with [FromContext] and check further scopes with [Require].
// They cannot get at the token itself: it was issued for this server only, and a server
// must not send it to other servers.
package auth
