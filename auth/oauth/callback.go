package oauth

import (
	"crypto/subtle"
	"fmt"
	"net/url"
	"strings"
)

// callback is an authorization response (RFC 6749, section 4.1.2; RFC 9207).
type callback struct {
	code, state, iss   string
	hasIss             bool
	error, description string
}

// maxCallback bounds what a browser may bring, in bytes.
const maxCallback = 32 << 10

// parseCallback reads a URL that a user was sent back to, or its query alone. A
// parameter that comes twice could be read in two ways.
func parseCallback(raw string) (*callback, error) {
	if len(raw) > maxCallback {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrState, maxCallback)
	}
	query := raw
	if i := strings.IndexByte(raw, '?'); i >= 0 {
		query = raw[i+1:]
	}
	query, _, _ = strings.Cut(query, "#")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be parsed", ErrState)
	}
	c := &callback{}
	for name, into := range map[string]*string{
		"code": &c.code, "state": &c.state, "iss": &c.iss, "error": &c.error, "error_description": &c.description,
	} {
		if len(values[name]) > 1 {
			return nil, fmt.Errorf("%w: it has two parameters %s", ErrState, name)
		}
		*into = values.Get(name)
	}
	c.hasIss = values.Has("iss")
	return c, nil
}

// accept returns the code of a response to the request that had state, which was sent
// to server. Who answers is looked at before what they say: neither the code nor the
// error of somebody else is of any use, and the error is not even shown (2026-07-28,
// basic/authorization, Authorization Response Validation).
func (c *callback) accept(state string, server *serverMetadata) (code string, err error) {
	if state == "" || subtle.ConstantTimeCompare([]byte(c.state), []byte(state)) != 1 {
		return "", fmt.Errorf("%w: its state is another", ErrState)
	}
	switch {
	case c.hasIss && c.iss != server.Issuer:
		return "", fmt.Errorf("%w: the authorization response is not from %.200q", ErrIssuerMismatch, server.Issuer)
	case !c.hasIss && server.IssParameter:
		return "", fmt.Errorf("%w: the authorization response does not say that it is from %.200q, which says that it always does", ErrIssuerMismatch, server.Issuer)
	case c.error != "":
		return "", newServerError("authorization", 0, c.error, c.description, []string{state})
	case c.code == "" || len(c.code) > maxURL:
		return "", fmt.Errorf("%w: there is neither a code nor an error in the authorization response", ErrInvalidResponse)
	}
	return c.code, nil
}
