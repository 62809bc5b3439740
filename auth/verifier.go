package auth

import (
	"context"
	"errors"
	"net/http"
)

// Verifier verifies access tokens. Package auth/jwt has a Verifier for JSON Web Tokens,
// package auth/introspection one that asks the authorization server.
//
// Verify returns the information of a token that is genuine and has not expired. It
// must fill in Info.Principal, Info.Audience, which [ProtectedResource] checks, and
// Info.KeyThumbprint if the token is bound to a key. The token has the syntax of RFC 6750, section 2.1, and
// at most 16 KiB. It is a secret and must not appear in a log or an error.
//
// If the error is or wraps an *[InvalidTokenError], the client receives its Reason. If
// it is or wraps [ErrUnavailable], the client receives HTTP status 503 and may try again
// later. Any other error also means that the token is not valid.
//
// A server calls Verify at most once for each request. Verify must be safe for
// concurrent use.
type Verifier interface {
	Verify(ctx context.Context, token string) (*Info, error)
}

// VerifierFunc is a function that implements [Verifier].
type VerifierFunc func(ctx context.Context, token string) (*Info, error)

// Verify calls f.
func (f VerifierFunc) Verify(ctx context.Context, token string) (*Info, error) { return f(ctx, token) }

// ProofVerifier verifies DPoP proofs, with which a client proves that it has the key
// that its token is bound to (RFC 9449). The ProofVerifier of package auth/jwt implements
// it.
type ProofVerifier interface {
	// VerifyProof verifies the DPoP header of r. The proof must be made for the method
	// of r, for one of urls and for token, and by the key with the given thumbprint. If
	// nonce is not empty, the response carries it in its DPoP-Nonce header.
	//
	// An *[InvalidTokenError] says what is wrong with the proof. Any other error means
	// that the proof cannot be verified at present.
	VerifyProof(r *http.Request, urls []string, token, thumbprint string) (nonce string, err error)
	// Algorithms returns the JWS algorithms of proofs that VerifyProof accepts.
	Algorithms() []string
}

// ErrUnavailable means that a token cannot be verified at present, for instance because
// the keys of its issuer cannot be fetched.
var ErrUnavailable = errors.New("cannot verify access tokens at present")

// InvalidTokenError reports an access token or a DPoP proof that is not valid.
type InvalidTokenError struct {
	// Reason is sent to the client. It must not contain secrets. Example: "the token has
	// expired".
	Reason string
	// Code is the error code of the challenge (RFC 6750, section 3.1; RFC 9449, section
	// 7.1); empty for "invalid_token".
	Code string
}

// Error implements the error interface.
func (e *InvalidTokenError) Error() string { return "invalid token: " + e.Reason }
