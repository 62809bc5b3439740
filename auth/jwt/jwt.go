// Package jwt verifies access tokens that are JSON Web Tokens (RFC 9068), and DPoP
// proofs (RFC 9449). [Protect] equips an [auth.ProtectedResource] with both.
package jwt

import "github.com/parley-mcp/parley/auth"

// Protect sets the fields Verifier and DPoP of r if they are nil, and returns r: to a
// [Verifier] of the tokens of r.Issuers, and to a [ProofVerifier].
//
//	s := &server.Server{Auth: jwt.Protect(&auth.ProtectedResource{
//		URI:     "https://mcp.example.com/mcp",
//		Issuers: []string{"https://as.example.com"},
//	})}
func Protect(r *auth.ProtectedResource) *auth.ProtectedResource {
	if r.Verifier == nil {
		r.Verifier = &Verifier{Issuers: r.Issuers, Now: r.Now}
	}
	if r.DPoP == nil {
		r.DPoP = &ProofVerifier{Now: r.Now}
	}
	return r
}

const maxToken = 16 << 10 // bytes
