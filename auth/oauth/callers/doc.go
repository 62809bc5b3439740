// Package callers gets the access tokens with which a program that serves many callers, such as a gateway, calls other
// servers on their behalf. Each caller gets its own tokens: a [Broker] lets users log in to the servers, and [Clients]
// exchanges the callers' tokens, or gets tokens without a user. Both return a client.Authorizer for the requests of one
// caller.
package callers

// Where the rules are:
//
//   - clients.go: which requests share a client and its tokens (caller and scopes), how many are kept, and whose
//     requests are rejected.
//   - broker.go: when a user needs a login, how many may be pending, and for how long. pages.go: the pages, and which
//     requests they reject. signin.go: how the user of a browser is identified, for how long, and by which token.
//   - store.go: how long logins and registrations are kept, and the lock of a token among replicas.
//
// The rules of OAuth itself are in auth/oauth.
