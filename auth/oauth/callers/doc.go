// Package callers gets the access tokens with which a program that serves many callers, such as a gateway, calls other
// servers on their behalf. Each caller gets its own tokens: a [Broker] lets users log in to the servers, and [Clients]
// exchanges the callers' tokens, or gets tokens without a user. Both return a client.Authorizer for the requests of one
// caller.
package callers
