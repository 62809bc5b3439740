// Package auth protects MCP servers over HTTP with OAuth access tokens. Package auth/oauth is for the clients.
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
// Without Issuers, callers get their tokens elsewhere, as with API keys, and neither URI nor Info.Audience is needed.
// [Keys] verifies API keys, alone or together with the tokens of an issuer:
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
// Handlers find the caller with [FromContext] and check further scopes with [Require]. They cannot read the token
// itself: it was issued for this server only, and a server must not pass it on.
package auth

// Where the rules are:
//
//   - resource.go: which fields a server needs, its metadata, and its URI if none is set (on the loopback interface).
//   - authenticate.go: which request is rejected, with which status and challenge: audience, client, DPoP, and expiry
//     (leeway).
//   - verifier.go: what a token may look like, claims by path, and which scope implies which. context.go: callers that
//     the program authenticates, and missing scopes of a handler.
//   - keys.go: API keys: limits, and what happens when their file changes or is invalid. newkey.go: their form and
//     checksum.
//
// JSON Web Tokens and proofs: auth/jwt. Which claims a provider uses: auth/internal/issuer. Groups in rules:
// host/policy.go. When an event stream ends with its token: internal/serve/httpserver/authorize.go.
