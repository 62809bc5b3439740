package auth

import (
	"strings"

	"github.com/parley-mcp/parley/internal/challenge"
)

// credentials are the access token of a request and its scheme.
type credentials struct {
	dpop  bool // the scheme is DPoP, not Bearer
	token string
}

// maxToken is the maximum length of a token in bytes.
const maxToken = 16 << 10

// readCredentials reads the Authorization headers of a request (RFC 6750, section 2.1;
// RFC 9449, section 7.1). Tokens in the query or the body do not count. Given is false if there is no
// header, or one of another scheme; ok is false if the header is malformed.
func readCredentials(headers []string) (c credentials, given, ok bool) {
	switch {
	case len(headers) == 0:
		return c, false, true
	case len(headers) > 1:
		return c, false, false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.Trim(token, " ")
	switch {
	case strings.EqualFold(scheme, challenge.DPoP):
		c.dpop = true
	case !strings.EqualFold(scheme, challenge.Bearer):
		return c, false, true
	}
	if len(token) > maxToken || !challenge.IsToken68(token) {
		return c, false, false
	}
	c.token = token
	return c, true, true
}
