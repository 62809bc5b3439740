package auth

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// ProtectedResource describes a server that requires access tokens over HTTP: its URI,
// the authorization servers that issue tokens for it, and the scopes that requests need.
// URI, Issuers and Verifier are the fields that most servers set; jwt.Protect sets
// Verifier and DPoP for JSON Web Tokens.
//
// Set the fields before the first use. A ProtectedResource must not be copied after
// that. It is safe for concurrent use, also by several servers and handlers.
type ProtectedResource struct {
	// URI is the URL of the server's endpoint, or a prefix of it, and the audience of its
	// tokens (2026-07-28, basic/authorization, Canonical Server URI). It must be https, or
	// http on the loopback interface. If URI is empty, the server uses the requested URL
	// on the loopback interface, and rejects requests on other interfaces, because the
	// client controls the Host header. Without Issuers and DPoP, URI is needed only for
	// tokens with an audience.
	URI string
	// Issuers are the authorization servers that clients get tokens from: issuer identifiers
	// (RFC 8414, section 2). If it is empty, clients have their tokens, such as API keys,
	// from elsewhere: the server has no metadata, and its challenges name none.
	Issuers []string
	// Verifier verifies the tokens. It must be set.
	Verifier Verifier
	// DPoP verifies proofs of possession (RFC 9449). Nil: the server rejects tokens that
	// are bound to a key.
	DPoP ProofVerifier
	// RequireDPoP makes the server reject bearer tokens. It needs DPoP.
	RequireDPoP bool

	// Scopes are the scopes that every request needs.
	Scopes []string
	// MethodScopes are the additional scopes that the requests of a method, such as
	// "tools/call", need. For single tools, prompts and resources see
	// server.RequireScopes.
	MethodScopes map[string][]string
	// Implies reports whether a granted scope includes a needed one (2026-07-28,
	// basic/authorization, Scope Challenge Handling). Nil: no scope includes another. It
	// must be safe for concurrent use.
	Implies func(granted, needed string) bool
	// AdvertisedScopes are the scopes that the metadata lists. Clients ask for them if no
	// challenge names scopes. Nil: Scopes.
	AdvertisedScopes []string

	// Name and Documentation, a URL, are shown to users who are asked for consent.
	Name, Documentation string

	// OnReject, if set, is called with each request that is rejected, for example for an audit log. Info
	// is nil unless the token is valid and a scope is missing. It must be safe for concurrent use and
	// must not block. It must not record the headers of r, which contain the token.
	OnReject func(r *http.Request, info *Info, rejection *Rejection)

	Now func() time.Time // returns the current time; nil: time.Now

	once     sync.Once
	err      error
	endpoint endpoint // of URI; zero if URI is empty
}

// Check returns an error if a field has an invalid value.
func (p *ProtectedResource) Check() error {
	p.once.Do(func() { p.err = p.prepare() })
	return p.err
}

func (p *ProtectedResource) prepare() error {
	if p.URI != "" {
		if _, err := httpurl.ParseSecure(p.URI); err != nil {
			return fmt.Errorf("URI %q: %w", p.URI, err)
		}
		canonical, err := httpurl.Canonical(p.URI)
		if err != nil {
			return fmt.Errorf("URI %q: %w", p.URI, err)
		}
		p.endpoint = endpointOf(canonical)
	}
	for _, issuer := range p.Issuers {
		if err := httpurl.CheckIssuer(issuer); err != nil {
			return fmt.Errorf("issuer %q: %w", issuer, err)
		}
	}
	sets := [][]string{p.Scopes, p.AdvertisedScopes}
	for _, scopes := range p.MethodScopes {
		sets = append(sets, scopes)
	}
	for _, scopes := range sets {
		if err := challenge.CheckScopes(scopes); err != nil {
			return err
		}
	}
	switch {
	case p.Verifier == nil:
		return errors.New("Verifier must be set; for JSON Web Tokens use Protect of package auth/jwt")
	case p.DPoP == nil && p.RequireDPoP:
		return errors.New("RequireDPoP needs DPoP to be set: use &jwt.ProofVerifier{}")
	}
	for _, field := range []any{p.Verifier, p.DPoP} {
		if checker, ok := field.(interface{ Check() error }); ok {
			if err := checker.Check(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *ProtectedResource) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

// proofAlgorithms returns the algorithms of DPoP proofs; nil without DPoP.
func (p *ProtectedResource) proofAlgorithms() []string {
	if p.DPoP == nil {
		return nil
	}
	return p.DPoP.Algorithms()
}
