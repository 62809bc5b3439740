package oauth

import (
	"crypto/subtle"
	"fmt"
	"net/url"
	"strings"

	"github.com/parley-mcp/parley/auth/internal/secrets"
)

// authorizationResponse contains the parameters of a redirect (RFC 6749, section 4.1.2;
// RFC 9207).
type authorizationResponse struct {
	code, state, iss   string
	hasIss             bool
	error, description string
}

// maxRedirect is the maximum length of the URL of a redirect in bytes.
const maxRedirect = 32 << 10

// parseAuthorizationResponse parses the URL that the browser was redirected to, or its
// query. It rejects repeated parameters, which are ambiguous.
func parseAuthorizationResponse(raw string) (*authorizationResponse, error) {
	if len(raw) > maxRedirect {
		return nil, fmt.Errorf("%w: the URL is too long: %d bytes, the limit is %d", ErrState, len(raw), maxRedirect)
	}
	values, err := url.ParseQuery(redirectQuery(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: cannot parse the query", ErrState)
	}
	r := &authorizationResponse{}
	for name, into := range map[string]*string{
		"code": &r.code, "state": &r.state, "iss": &r.iss, "error": &r.error, "error_description": &r.description,
	} {
		if len(values[name]) > 1 {
			return nil, fmt.Errorf("%w: the parameter %s is repeated", ErrState, name)
		}
		*into = values.Get(name)
	}
	r.hasIss = values.Has("iss")
	return r, nil
}

// redirectQuery returns the query of the URL that the browser was redirected to, which can be the query itself.
func redirectQuery(raw string) string {
	if i := strings.IndexByte(raw, '?'); i >= 0 {
		raw = raw[i+1:]
	}
	query, _, _ := strings.Cut(raw, "#")
	return query
}

// accept returns the code of a response to the authorization request with the given
// state at server. It checks state and issuer first: the code or the error of another
// party must not be used, and its error must not be shown (2026-07-28,
// basic/authorization, Authorization Response Validation).
func (r *authorizationResponse) accept(state string, server *serverMetadata) (code string, err error) {
	if state == "" || subtle.ConstantTimeCompare([]byte(r.state), []byte(state)) != 1 {
		return "", fmt.Errorf("%w: the state differs", ErrState)
	}
	switch {
	case r.hasIss && r.iss != server.Issuer:
		return "", fmt.Errorf("%w: the authorization response is not from %.200q", ErrIssuerMismatch, server.Issuer)
	case !r.hasIss && server.IssParameter:
		return "", fmt.Errorf("%w: the authorization response has no iss parameter, which %.200q always sends according to its metadata", ErrIssuerMismatch, server.Issuer)
	case r.error != "":
		return "", newServerError("authorization", 0, r.error, r.description, secrets.Set{Sent: []string{state, r.code}})
	case r.code == "" || len(r.code) > maxURL:
		return "", fmt.Errorf("%w: the authorization response has neither code nor error", ErrInvalidResponse)
	}
	return r.code, nil
}
