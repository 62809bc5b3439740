package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// The authentication schemes of access tokens. Their case does not matter.
const (
	SchemeBearer = "Bearer" // RFC 6750
	SchemeDPoP   = "DPoP"   // RFC 9449
)

// ProtectedResource is a server as authorization knows it, a protected resource: what it is
// called, who issues tokens for it, and what they have to grant. With URI and Issuers
// set it accepts the JSON Web Tokens of these issuers that were issued for this URI.
//
// Its fields are set before first use; it must not be copied afterwards, but may be
// shared, by a server and a metadata handler for instance. It is safe for concurrent
// use.
type ProtectedResource struct {
	// URI is what clients call the server, and the audience of its tokens: the URL of the
	// endpoint, or one above it (2026-07-28, basic/authorization, Canonical Server URI).
	// https, or http on the loopback interface. Empty: on the loopback interface the URL
	// that was asked for; elsewhere every request is refused, since the Host header is
	// the client's word.
	URI string
	// Issuers are the authorization servers that clients are sent to; at least one.
	Issuers []string
	// Verifier verifies tokens. Nil: a [JWT] of Issuers.
	Verifier Verifier

	// Scopes are those that every request needs.
	Scopes []string
	// MethodScopes are those that the requests of a method need besides, as "tools/call".
	// Tools, prompts and resources may need more: see server.RequireScopes.
	MethodScopes map[string][]string
	// Implies reports whether a granted scope includes another that is needed (2026-07-28,
	// basic/authorization, Scope Challenge Handling). Nil: none does. Safe for concurrent
	// use.
	Implies func(granted, needed string) bool

	// DPoP is how proofs of possession are dealt with.
	DPoP DPoP

	// Name and Documentation, a URL, are for the people who are asked for their consent.
	Name, Documentation string
	// AdvertisedScopes are those that the metadata lists, which clients ask for that have
	// nothing else to go by. Nil: Scopes.
	AdvertisedScopes []string

	Now func() time.Time // nil: time.Now

	once     sync.Once
	err      error
	verifier Verifier
	named    endpoint // of URI; zero if that is empty
	nonces   *nonces  // nil: none are asked for
	replays  replays
}

// Check returns what is wrong with the fields, or nil.
func (a *ProtectedResource) Check() error {
	a.once.Do(func() { a.err = a.begin() })
	return a.err
}

func (a *ProtectedResource) begin() error {
	if a.URI != "" {
		if _, err := safeURL(a.URI); err != nil {
			return fmt.Errorf("URI: %w", err)
		}
		canonical, err := canonicalURI(a.URI)
		if err != nil {
			return fmt.Errorf("URI: %w", err)
		}
		a.named = endpointOf(canonical)
	}
	if len(a.Issuers) == 0 {
		return errNoIssuer
	}
	for _, issuer := range a.Issuers {
		if err := checkIssuer(issuer); err != nil {
			return fmt.Errorf("issuer %q: %w", issuer, err)
		}
	}
	for _, scopes := range append([][]string{a.Scopes, a.AdvertisedScopes}, mapValues(a.MethodScopes)...) {
		if err := CheckScopes(scopes); err != nil {
			return err
		}
	}
	if a.verifier = a.Verifier; a.verifier == nil {
		a.verifier = &JWT{Issuers: a.Issuers, Now: a.Now}
	}
	if checked, ok := a.verifier.(interface{ Check() error }); ok {
		if err := checked.Check(); err != nil {
			return err
		}
	}
	a.replays.window = 2 * a.proofAge()
	if a.DPoP.Nonces {
		for _, key := range a.DPoP.NonceKeys {
			if len(key) < 32 {
				return errors.New("DPoP.NonceKeys: a key has at least 32 random bytes")
			}
		}
		a.nonces = newNonces(a.DPoP.NonceKeys)
	}
	return nil
}

func mapValues(m map[string][]string) (all [][]string) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// CheckScopes returns what is wrong with scopes that a server is to ask for, or nil.
// offline_access is none: whether clients get refresh tokens is not the resource's
// business (2026-07-28, basic/authorization, Refresh Tokens).
func CheckScopes(scopes []string) error {
	for _, scope := range scopes {
		bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' } // RFC 6749, section 3.3
		switch {
		case scope == "" || strings.ContainsFunc(scope, bad):
			return fmt.Errorf("%q is no scope: one is printable ASCII without spaces and quotes", scope)
		case scope == "offline_access":
			return errors.New("the scope offline_access is between clients and their authorization server: do not ask for it")
		}
	}
	return nil
}

func (a *ProtectedResource) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

func (a *ProtectedResource) proofAge() time.Duration {
	if a.DPoP.MaxAge > 0 {
		return a.DPoP.MaxAge
	}
	return proofAge
}

// endpoint names the resource that a request has reached.
func (a *ProtectedResource) endpoint(r *http.Request) (endpoint, error) {
	if err := a.Check(); err != nil {
		return endpoint{}, err
	}
	if a.named.uri != "" {
		return a.named, nil
	}
	return loopbackEndpoint(r, pathOf(r))
}

// Refusal is why a request is not served.
type Refusal struct {
	Status int
	// Reason is for the client and for logs. It holds nothing that is secret.
	Reason string
	// Err is for the log alone: why tokens cannot be verified at present. Nil otherwise.
	Err error
}

// Authenticate verifies the token of a request, whose body it does not touch. It
// returns what the token says, or how the request is to be refused; response gets the
// headers that go with that, WWW-Authenticate above all. Scopes are not looked at: see
// [ProtectedResource.Permit]. The context is for [NewContext].
func (a *ProtectedResource) Authenticate(response http.Header, r *http.Request) (*Info, *Refusal) {
	at, err := a.endpoint(r)
	if err != nil {
		return nil, &Refusal{http.StatusInternalServerError, "authorization is not configured", err}
	}
	c, given, ok := readCredentials(r.Header["Authorization"])
	deny := func(status int, code, reason string) (*Info, *Refusal) {
		a.challenge(response, at, c.dpop, code, reason, a.Scopes)
		return nil, &Refusal{Status: status, Reason: reason}
	}
	switch {
	case !ok:
		return deny(http.StatusBadRequest, errorInvalidRequest, "the Authorization header is malformed")
	case !given:
		return deny(http.StatusUnauthorized, "", "an access token is needed")
	case !c.dpop && a.DPoP.Required:
		return deny(http.StatusUnauthorized, errorInvalidToken, "a token with a proof of possession is needed")
	}
	info, err := a.verify(r.Context(), c.token)
	var not *InvalidTokenError
	switch {
	case errors.Is(err, ErrUnavailable):
		response.Set("Retry-After", "5")
		return nil, &Refusal{http.StatusServiceUnavailable, ErrUnavailable.Error(), withoutToken(err, c.token)}
	case errors.As(err, &not):
		return deny(http.StatusUnauthorized, errorInvalidToken, not.Reason)
	case err != nil:
		return deny(http.StatusUnauthorized, errorInvalidToken, "the token is not valid")
	}
	if reason := a.unfit(info, at, c.dpop); reason != "" {
		return deny(http.StatusUnauthorized, errorInvalidToken, reason)
	}
	if c.dpop {
		code, err := a.checkProof(response, r, at, c.token, info)
		switch {
		case errors.Is(err, errTooManyProofs):
			response.Set("Retry-After", "60")
			return nil, &Refusal{http.StatusServiceUnavailable, "too many requests: try again later", err}
		case errors.As(err, &not):
			return deny(http.StatusUnauthorized, code, "the proof of possession: "+not.Reason)
		}
	}
	mine := *info
	mine.Implies = a.Implies
	return &mine, nil
}

func (a *ProtectedResource) verify(ctx context.Context, token string) (info *Info, err error) {
	info, err = a.verifier.Verify(ctx, token)
	if err == nil && (info == nil || info.Principal.IsAnonymous()) {
		err = errors.New("the verifier returned nobody")
	}
	return info, err
}

// unfit returns why a token that is genuine is not for this request, or "".
func (a *ProtectedResource) unfit(info *Info, at endpoint, dpop bool) string {
	switch {
	case !slices.ContainsFunc(info.Audience, func(audience string) bool {
		if audience == at.uri {
			return true
		}
		canonical, err := canonicalURI(audience)
		return err == nil && canonical == at.uri
	}):
		return "the token is not for this server"
	case !info.Expiry.IsZero() && !a.now().Before(info.Expiry.Add(defaultLeeway)):
		return "the token has expired"
	case !dpop && info.KeyThumbprint != "":
		return "the token needs a proof of possession" // RFC 9449, section 7.2
	case dpop && info.KeyThumbprint == "":
		return "the token is bound to no key"
	}
	return ""
}

// checkProof checks the proof of a request, and has the client told of a new nonce. The
// code goes with the error.
func (a *ProtectedResource) checkProof(response http.Header, r *http.Request, at endpoint, token string, info *Info) (code string, err error) {
	p, err := readProof(r.Header["Dpop"])
	now := a.now()
	if err == nil {
		err = p.check(r, token, info, at.targets(r), now, a.proofAge())
	}
	if err != nil {
		return errorInvalidProof, err
	}
	if a.nonces != nil {
		age, ok := a.nonces.age(p.nonce, now)
		if !ok || age > a.nonces.life/2 {
			response[nonceName] = []string{a.nonces.issue(now)}
		}
		if !ok {
			return errorUseNonce, invalid("it lacks the nonce of the DPoP-Nonce header")
		}
	}
	switch err := a.replays.use(p.thumbprint, p.id, now); err {
	case errReplayed:
		return errorInvalidProof, invalid("it was used before")
	default:
		return "", err
	}
}

// withoutToken keeps a token out of the log that a verifier has put into its error.
func withoutToken(err error, token string) error {
	if text := err.Error(); strings.Contains(text, token) {
		return errors.New(strings.ReplaceAll(text, token, "[token]"))
	}
	return err
}

// Permit returns nil if a token grants all the scopes that a request needs: those of
// the resource, and needed. Otherwise it returns how the request is to be refused, in one
// challenge for all of them (2026-07-28, basic/authorization, Scope Challenge Handling);
// response gets its header.
func (a *ProtectedResource) Permit(response http.Header, r *http.Request, info *Info, needed []string) *Refusal {
	if info.grantsAll(a.Scopes) && info.grantsAll(needed) {
		return nil
	}
	return a.Challenge(response, r, info, needed)
}

// Challenge refuses a request for what it turned out to need beyond the scopes of the
// resource, as [ProtectedResource.Permit] does.
func (a *ProtectedResource) Challenge(response http.Header, r *http.Request, info *Info, needed []string) *Refusal {
	at, err := a.endpoint(r)
	if err != nil {
		return &Refusal{http.StatusInternalServerError, "authorization is not configured", err}
	}
	all := Union(a.Scopes, needed)
	lacking := &ScopeError{Needed: all}
	a.challenge(response, at, info.KeyThumbprint != "", errorInsufficientScope, lacking.Error(), all)
	return &Refusal{Status: http.StatusForbidden, Reason: lacking.Error()}
}

// Error codes of challenges (RFC 6750, section 3.1; RFC 9449, sections 7.1 and 9).
const (
	errorInvalidRequest    = "invalid_request"
	errorInvalidToken      = "invalid_token"
	errorInsufficientScope = "insufficient_scope"
	errorInvalidProof      = "invalid_dpop_proof"
	errorUseNonce          = "use_dpop_nonce"
)

// challenge sets WWW-Authenticate. The scheme is the one that the client has used, or
// that it has to use.
func (a *ProtectedResource) challenge(response http.Header, at endpoint, dpop bool, code, reason string, scopes []string) {
	c := Challenge{Scheme: SchemeBearer, Params: map[string]string{"resource_metadata": at.metadataURL()}}
	if dpop || a.DPoP.Required {
		c.Scheme = SchemeDPoP
		c.Params["algs"] = strings.Join(algorithms, " ")
	}
	if len(scopes) > 0 {
		c.Params["scope"] = strings.Join(scopes, " ")
	}
	if code != "" { // a request without credentials is told no more (RFC 6750, section 3.1)
		c.Params["error"] = code
		c.Params["error_description"] = describable(reason)
	}
	response["Www-Authenticate"] = []string{c.String()}
}

// describable leaves out what a description must not hold (RFC 6750, section 3).
func describable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, text)
}
