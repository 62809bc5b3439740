// Package auth is what both sides of authorization share, and the side of the
// resource server. The side of the client is package auth/oauth.
package auth
