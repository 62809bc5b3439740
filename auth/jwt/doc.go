// Package jwt verifies access tokens that are JSON Web Tokens (RFC 9068), and DPoP proofs (RFC 9449). [Protect] sets up
// an [auth.ProtectedResource] for both.
package jwt
