package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/principal"
)

// Rejection is the error for a request that is not authorized. It describes the response.
type Rejection struct {
	// Status is the HTTP status.
	Status int
	// Reason is the text for the client and for logs. It contains no secrets.
	Reason string
	// Err is the cause if the server is at fault, for logs only; nil otherwise.
	Err error
	// Remedy tells the operator how to accept such tokens. It is for logs only.
	Remedy string
}

// Error returns the reason.
func (r *Rejection) Error() string { return r.Reason }

// Unwrap returns the cause.
func (r *Rejection) Unwrap() error { return r.Err }

const misconfigured = "authorization is misconfigured"

// leeway is how long after its expiry a token is accepted, because clocks differ.
const leeway = 30 * time.Second

// Authenticate verifies the token of r, and returns the information about the token. The
// error is a *[Rejection] to respond with. In both cases Authenticate adds headers, such as
// WWW-Authenticate, to response. It neither reads the body of r nor checks scopes.
//
// A server.Server calls Authenticate itself. Call it to protect other handlers of the
// same program.
func (p *ProtectedResource) Authenticate(response http.Header, r *http.Request) (*Info, error) {
	info, rejection := p.authenticate(response, r)
	if rejection != nil {
		p.rejected(r, nil, rejection)
		return nil, rejection
	}
	return info, nil
}

// rejected calls OnReject.
func (p *ProtectedResource) rejected(r *http.Request, info *Info, rejection *Rejection) {
	if p.OnReject != nil {
		p.OnReject(r, info, rejection)
	}
}

func (p *ProtectedResource) authenticate(response http.Header, r *http.Request) (*Info, *Rejection) {
	at, err := p.endpointFor(r)
	if err != nil {
		return nil, &Rejection{Status: http.StatusInternalServerError, Reason: misconfigured, Err: err}
	}
	c, given, ok := readCredentials(r.Header["Authorization"])
	reject := func(status int, code, reason string) (*Info, *Rejection) {
		p.challenge(response, at, c.dpop, code, reason, p.Scopes)
		return nil, &Rejection{Status: status, Reason: reason}
	}
	rejectInvalid := func(err *InvalidTokenError) (*Info, *Rejection) {
		_, rejection := reject(http.StatusUnauthorized, err.code(), err.Reason)
		rejection.Remedy = err.Remedy
		return nil, rejection
	}
	switch {
	case !ok:
		return reject(http.StatusBadRequest, codeInvalidRequest, "the Authorization header is malformed")
	case !given:
		return reject(http.StatusUnauthorized, "", "the request has no access token")
	case !c.dpop && p.RequireDPoP:
		return reject(http.StatusUnauthorized, codeInvalidToken, "the server requires a token with a DPoP proof")
	}
	info, err := p.verify(r.Context(), c.token)
	var invalid *InvalidTokenError
	switch {
	case errors.Is(err, ErrUnavailable):
		response.Set("Retry-After", "5")
		return nil, &Rejection{Status: http.StatusServiceUnavailable, Reason: ErrUnavailable.Error(),
			Err: withoutToken(err, c.token)}
	case errors.As(err, &invalid):
		return rejectInvalid(invalid)
	case err != nil:
		_, rejection := reject(http.StatusUnauthorized, codeInvalidToken, "the token is not valid")
		if err == errNoPrincipal {
			rejection.Err = err
		}
		return nil, rejection
	}
	if at.uri == "" && info.Audience != nil && p.Audiences == nil {
		return nil, &Rejection{Status: http.StatusInternalServerError, Reason: misconfigured, Err: errNoURI}
	}
	if invalid := p.mismatch(info, at, c.dpop); invalid != nil {
		return rejectInvalid(invalid)
	}
	if c.dpop {
		nonce, err := p.DPoP.VerifyProof(Proof{Request: r, URLs: at.proofURLs(r), Token: c.token,
			Thumbprint: info.KeyThumbprint})
		if nonce != "" {
			response["Dpop-Nonce"] = []string{nonce}
		}
		switch {
		case errors.As(err, &invalid):
			return reject(http.StatusUnauthorized, invalid.code(), "DPoP proof: "+invalid.Reason)
		case err != nil:
			response.Set("Retry-After", "60")
			return nil, &Rejection{Status: http.StatusServiceUnavailable,
				Reason: "too many requests: try again later", Err: err}
		}
	}
	authenticated := *info
	authenticated.Implies = p.Implies
	if !info.own { // an API key means nothing to an authorization server, and is not sent to one
		authenticated.token = &c.token
	}
	return &authenticated, nil
}

// endpointFor returns the endpoint that r was sent to.
func (p *ProtectedResource) endpointFor(r *http.Request) (endpoint, error) {
	if err := p.Check(); err != nil {
		return endpoint{}, err
	}
	if p.endpoint.uri != "" {
		return p.endpoint, nil
	}
	at, err := loopbackEndpoint(r, pathOf(r))
	if err != nil && len(p.Issuers) == 0 && p.DPoP == nil { // neither metadata nor proofs need it
		return endpoint{}, nil
	}
	return at, err
}

// errNoPrincipal is a fault of the program, so it is logged.
var errNoPrincipal = errors.New("the Verifier returned no principal")

func (p *ProtectedResource) verify(ctx context.Context, token string) (info *Info, err error) {
	info, err = p.Verifier.Verify(ctx, token)
	if err == nil && (info == nil || info.Principal == principal.Anonymous) {
		err = errNoPrincipal
	}
	return info, err
}

// mismatch returns why a genuine token cannot be used for this request, or nil.
func (p *ProtectedResource) mismatch(info *Info, at endpoint, dpop bool) *InvalidTokenError {
	reason := ""
	switch client := info.Principal.Client(); {
	case !p.isFor(info, at):
		return wrongAudience(info.Audience)
	case p.Clients != nil && !info.own && !slices.Contains(p.Clients, client):
		return &InvalidTokenError{
			Reason: fmt.Sprintf("the client %.200q of the token may not use this server", client),
			Remedy: fmt.Sprintf("add --auth allow-client=%s (in Go: ProtectedResource.Clients)", client),
		}
	case !info.Expiry.IsZero() && !p.now().Before(info.Expiry.Add(leeway)):
		reason = "the token has expired: get a new one"
	case !dpop && info.KeyThumbprint != "":
		reason = "the token needs a DPoP proof" // RFC 9449, section 7.2
	case dpop && info.KeyThumbprint == "":
		reason = "the token is not bound to a key"
	case dpop && p.DPoP == nil:
		reason = "the server does not support DPoP"
	default:
		return nil
	}
	return &InvalidTokenError{Reason: reason}
}

// isFor reports whether a token was issued for an endpoint. Without Issuers, Verifier alone may decide.
func (p *ProtectedResource) isFor(info *Info, at endpoint) bool {
	switch {
	case info.own:
		return true
	case p.Audiences != nil:
		return slices.ContainsFunc(info.Audience, func(audience string) bool {
			return slices.Contains(p.Audiences, audience)
		})
	case info.Audience == nil:
		return len(p.Issuers) == 0
	}
	return slices.ContainsFunc(info.Audience, func(audience string) bool {
		if audience == at.uri {
			return true
		}
		canonical, err := httpurl.Canonical(audience)
		return err == nil && canonical == at.uri
	})
}

func wrongAudience(audience []string) *InvalidTokenError {
	const reason = "the token is not for this server"
	if len(audience) == 0 {
		return &InvalidTokenError{
			Reason: reason + ": it has no audience",
			Remedy: "let the authorization server put the URL of this server into the claim aud of its tokens",
		}
	}
	shown := audience[:min(len(audience), 3)] // the text is for one line
	return &InvalidTokenError{
		Reason: fmt.Sprintf("%s, but for %.200q", reason, shown),
		Remedy: fmt.Sprintf("if these are tokens for this server, add --auth audience=%.200s (in Go: "+
			"ProtectedResource.Audiences)", audience[0]),
	}
}

// withoutToken removes the token from an error in case a Verifier has included it.
func withoutToken(err error, token string) error {
	if text := err.Error(); strings.Contains(text, token) {
		return errors.New(strings.ReplaceAll(text, token, "[token]"))
	}
	return err
}

// Challenge returns the rejection of a request that needs more scopes than its token grants. It sets a challenge in
// response that names these scopes and the scopes that every request needs (2026-07-28, basic/authorization, Scope
// Challenge Handling).
func (p *ProtectedResource) Challenge(response http.Header, r *http.Request, info *Info, needed []string) *Rejection {
	at, err := p.endpointFor(r)
	if err != nil {
		return &Rejection{Status: http.StatusInternalServerError, Reason: misconfigured, Err: err}
	}
	all := challenge.Union(p.Scopes, needed)
	missing := &ScopeError{Needed: all}
	p.challenge(response, at, info.KeyThumbprint != "", codeInsufficientScope, missing.Error(), all)
	rejection := &Rejection{Status: http.StatusForbidden, Reason: missing.Error()}
	p.rejected(r, info, rejection)
	return rejection
}

// Error codes of challenges (RFC 6750, section 3.1).
const (
	codeInvalidRequest    = "invalid_request"
	codeInvalidToken      = "invalid_token"
	codeInsufficientScope = "insufficient_scope"
)

func (e *InvalidTokenError) code() string {
	if e.Code != "" {
		return e.Code
	}
	return codeInvalidToken
}

// challenge sets WWW-Authenticate. dpop reports whether the client used the scheme DPoP.
func (p *ProtectedResource) challenge(response http.Header, at endpoint, dpop bool, code, reason string,
	scopes []string) {
	c := challenge.Challenge{Scheme: challenge.Bearer, Params: map[string]string{}}
	if len(p.Issuers) > 0 {
		c.Params["resource_metadata"] = at.metadataURL()
	} else {
		c.Params["realm"] = "mcp" // a challenge has at least one parameter (RFC 6750, section 3)
	}
	if p.DPoP != nil && (dpop || p.RequireDPoP) {
		c.Scheme = challenge.DPoP
		c.Params["algs"] = strings.Join(p.DPoP.Algorithms(), " ")
	}
	if len(scopes) > 0 {
		c.Params["scope"] = strings.Join(scopes, " ")
	}
	if code != "" { // absent for a request without credentials (RFC 6750, section 3.1)
		c.Params["error"] = code
		c.Params["error_description"] = describable(reason)
	}
	response["Www-Authenticate"] = []string{c.String()}
}

// describable removes the characters that error_description must not contain (RFC 6750,
// section 3).
func describable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, text)
}
