// Package principal identifies callers.
//
// A [Principal] consists of an issuer, a subject within that issuer and, if it is
// known, the client that acts for the subject. It is a small comparable value, so it
// can be a map key. Every key in a store begins with the [Principal.Key] of its owner,
// so that one caller cannot name the data of another. Tokens and scopes are not part of
// a Principal: a caller who obtains more scopes keeps the same principal and data.
//
// Two principals do not need a token. [Local] is the caller at the other end of this
// process's standard streams or in its memory. [Anonymous], the zero value, is a caller
// who is not authenticated.
package principal
