package auth

import (
	"context"
	"errors"
)

// Verifier says what an access token is worth. [JWT] and [Introspection] are two.
//
// Verify returns what the token says if it is genuine and in force. It need not look at
// the audience, which [ProtectedResource] does, and must therefore say it; nor at proofs of
// possession, but it must say which key the token is bound to. The token is in the form
// of RFC 6750, section 2.1 and has at most 16 KiB. It is a secret: it belongs into
// no log and no error.
//
// An error that is or wraps [ErrUnavailable] means that the token could not be
// verified at present, and the client is asked to try again. Any other means that it is
// not valid; the client is told why if the error is an *[InvalidTokenError].
//
// Verify is called at most once for each request, by many goroutines at a time.
type Verifier interface {
	Verify(ctx context.Context, token string) (*Info, error)
}

// VerifierFunc is a function that is a [Verifier].
type VerifierFunc func(ctx context.Context, token string) (*Info, error)

// Verify calls f.
func (f VerifierFunc) Verify(ctx context.Context, token string) (*Info, error) { return f(ctx, token) }

// ErrUnavailable means that tokens cannot be verified at present: keys or an answer
// could not be had.
var ErrUnavailable = errors.New("tokens cannot be verified at present")

// InvalidTokenError reports a token that is not valid.
type InvalidTokenError struct {
	// Reason is told to the client: a few words without anything secret, as "the token
	// has expired".
	Reason string
}

// Error implements the error interface.
func (e *InvalidTokenError) Error() string { return "invalid token: " + e.Reason }

func invalid(reason string) error { return &InvalidTokenError{reason} }

// maxToken bounds tokens and proofs, in bytes.
const maxToken = 16 << 10
