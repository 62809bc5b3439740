// Package principal says who is calling.
//
// A [Principal] is an issuer, a subject within that issuer and, where it is known, the client that
// acts for the subject. It is a small comparable value: it may be a map key, it is compared with ==,
// and it is what every key of a store starts with, so that one caller's state cannot be named by
// another. Tokens and scopes are no part of it: a caller who steps up to more scopes stays the same
// principal and keeps its state.
//
// Two principals need no token. [Local] is the one who started this process or shares its memory;
// [Anonymous], the zero value, is somebody whom nobody has authenticated.
package principal
