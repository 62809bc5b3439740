// Package oauth gets, stores and renews access tokens for MCP servers over HTTP. It is the client side of OAuth
// authorization.
//
// A [Client] is the authorizer of a client.Dialer. When a server requires a token, the
// Client discovers the authorization server, registers there, opens the authorization
// page in the user's browser and exchanges the authorization code for a token:
//
//	login := &oauth.Client{Name: "My program", Interaction: &browser.Loopback{}}
//	d := client.Dialer{Auth: login}
//	c, err := d.Dial(ctx, client.URL("https://example.com/mcp"))
//
// Package browser opens the page on the user's machine. A program with web pages uses [Client.BeginLogin] and
// [Client.FinishLogin].
//
// Client.Store keeps the tokens for the next start of the program; package tokenstore stores them in an encrypted file.
// Programs without a user set Client.Grant: [ClientCredentials], [Enterprise], [TokenExchange] or [Workload]. Programs
// that get tokens elsewhere use client.BearerToken. A program that serves many callers, such as a gateway, lets each of
// them log in, or exchanges their tokens: see package callers. Package trace records the requests of a login.
//
// # Registration
//
// The Client identifies itself with an entry of Client.Registrations, with the client metadata document at
// Client.MetadataURL, or with dynamic registration (RFC 7591), in this order. 2026-07-28 deprecates dynamic
// registration (modelcontextprotocol pull request 2858), and the first revision from 2027-07-28 on may remove it, so
// set MetadataURL.
//
// # Security
//
// All URLs must be https, and URLs that a server names must lead to public addresses,
// which are checked when they are dialled. If the MCP server is on the loopback
// interface, its authorization server may be, too. Redirects are not followed. Metadata
// must name the resource or the issuer that it was requested for. Authorization codes are
// bound to this program by PKCE, to the request by state and to the issuer by iss (accept in code.go), and to
// the browser that the program opened.
//
// A token is sent only to the MCP server that it was issued for: it is kept by the canonical URL of the server
// (client.go), requested for it (setResource in tokenrequest.go) if the metadata is the server's (isResourceOf in
// discovery.go), and sent to its origin only (internal/dial/httpclient/authorize.go). A registration is used
// only at the authorization server that issued it. Neither appears in logs, errors or
// URLs. A Client starts at most three authorizations per minute for one server, and
// remembers for a minute that the user has declined.
//
// The rules come from basic/authorization of each revision. A server of 2025-03-26 without metadata is its own
// authorization server.
package oauth

// Where the rules are. A request without a usable token meets these files in this order:
//
//   - client.go: the fields, the challenge that counts, Login and Logout. session.go: whether a token is sent, renewed
//     or obtained, what a 401 or 403 leads to, how often a login may begin, and how long a failure is remembered.
//   - refresh.go: when a token is renewed, by whom, and which errors end a refresh token (rejectsRefresh).
//   - obtain.go: in which order a new token is sought: stored, refreshed, by a Grant, or by a login; revocation.
//   - discovery.go: where metadata is looked for, what means that there is none (absent), what it must contain, and
//     which of several authorization servers is used (preferredIssuer, Client.Issuer). peers.go: which addresses may be
//     dialled, sizes and time-outs.
//   - registration.go: which registration is used, when a new one is made, when its secret expires, and when one is
//     forgotten. scopes.go: which scopes are requested.
//   - code.go: logins with a browser, and which redirect is accepted. pending.go: the same for programs with web pages.
//   - grant.go: tokens without a user, and what an identity provider must return. tokenrequest.go: how the client
//     authenticates, the parameter resource, which response is valid, and when a token counts as expiring. sign.go:
//     assertions and DPoP proofs.
//   - store.go: the keys under which tokens are stored. errors.go: the errors, and which one blames the parameter
//     resource.
//
// How often one request is sent again with other credentials is limited in internal/dial/httpclient/authorize.go.
