// Package jwt verifies access tokens that are JSON Web Tokens (RFC 9068), and DPoP proofs (RFC 9449). [Protect] sets up
// an [auth.ProtectedResource] for both.
package jwt

// Where the rules are:
//
//   - jwt.go: the checks of an access token, in order; the issuers and profiles. use.go: whether a token is an access
//     token by its type and claims, and the advice if it is not.
//   - jws.go: which signatures, algorithms and sizes of keys are accepted. keys.go: how long the keys of an issuer are
//     cached, when they are fetched again, and which may have signed a token.
//   - proof.go: DPoP proofs: their age, nonces, and that each is used once, with the limit of remembered proofs.
