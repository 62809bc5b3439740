// Package authresponse parses the redirect from an authorization server that ends a login. Its caller checks state
// and iss; see accept in auth/oauth/code.go.
package authresponse

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ErrState means that an authorization response does not belong to the request.
var ErrState = errors.New("the authorization response does not belong to this request")

// Response contains the parameters of a redirect (RFC 6749, section 4.1.2; RFC 9207).
type Response struct {
	Code, State, Iss   string
	HasIss             bool
	Error, Description string
}

// maxLength is the maximum length of the URL of a redirect in bytes.
const maxLength = 32 << 10

// Parse parses the URL that the browser was redirected to, or its query. It rejects repeated parameters, which are
// ambiguous.
func Parse(raw string) (*Response, error) {
	if len(raw) > maxLength {
		return nil, fmt.Errorf("%w: the URL is too long: %d bytes, the limit is %d", ErrState, len(raw), maxLength)
	}
	values, err := url.ParseQuery(query(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: cannot parse the query", ErrState)
	}
	r := &Response{}
	for name, into := range map[string]*string{
		"code": &r.Code, "state": &r.State, "iss": &r.Iss, "error": &r.Error, "error_description": &r.Description,
	} {
		if len(values[name]) > 1 {
			return nil, fmt.Errorf("%w: the parameter %s is repeated", ErrState, name)
		}
		*into = values.Get(name)
	}
	r.HasIss = values.Has("iss")
	return r, nil
}

// query returns the query of the URL that the browser was redirected to, or raw if it is the query itself.
func query(raw string) string {
	if i := strings.IndexByte(raw, '?'); i >= 0 {
		raw = raw[i+1:]
	}
	query, _, _ := strings.Cut(raw, "#")
	return query
}
