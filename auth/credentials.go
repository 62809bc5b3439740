package auth

import "strings"

// credentials are what a request has to show: one token, in a scheme of ours.
type credentials struct {
	dpop  bool
	token string
}

// readCredentials reads the Authorization headers of a request (RFC 6750, section 2.1;
// RFC 9449, section 7.1). Tokens elsewhere, as in the query or the body, are nobody's
// credentials. None are given if there is no header, or one of another scheme; ok is
// false for what is malformed.
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
	case strings.EqualFold(scheme, SchemeDPoP):
		c.dpop = true
	case !strings.EqualFold(scheme, SchemeBearer):
		return c, false, true
	}
	if token == "" || len(token) > maxToken || !isToken68(token) {
		return c, false, false
	}
	c.token = token
	return c, true, true
}

func isToken68(text string) bool {
	text = strings.TrimRight(text, "=")
	for i := range len(text) {
		if !isAlphanumeric(text[i]) && strings.IndexByte("-._~+/", text[i]) < 0 {
			return false
		}
	}
	return text != ""
}
