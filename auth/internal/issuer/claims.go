package issuer

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// Claims are the claims of an access token (RFC 9068, section 2.2) or the members of an
// introspection response (RFC 7662, section 2.2) that the verifiers use.
type Claims struct {
	Issuer, Subject, Client string
	Audience, Scopes        []string
	Expiry                  time.Time
	NotBefore, IssuedAt     time.Time
	KeyThumbprint           string // of the key that the token is bound to
	OtherBinding            bool   // the token is bound in a way that is not supported
	Active                  bool   // of an introspection response
}

// Limits of lists in a token.
const (
	maxAudience = 64
	maxScopes   = 512
)

// ReadClaims reads the claims of object, which must have passed [jsonrpc.Check]. It
// returns false if one of them does not have the type that its specification requires.
func ReadClaims(object []byte) (c Claims, ok bool) {
	var authorizedParty string
	var scp []string
	ok = true
	for name, value := range jsonrpc.All(object) {
		valid := true
		switch name {
		case "iss":
			c.Issuer, valid = Text(value)
		case "sub":
			c.Subject, valid = Text(value)
		case "client_id":
			c.Client, valid = Text(value)
		case "azp":
			authorizedParty, valid = Text(value)
		case "aud":
			c.Audience, valid = texts(value, maxAudience)
		case "scope":
			var text string
			text, valid = Text(value)
			c.Scopes = strings.Fields(text)
		case "scp": // some authorization servers send it instead of scope
			if scp, valid = texts(value, maxScopes); len(scp) == 1 {
				scp = strings.Fields(scp[0])
			}
		case "exp":
			c.Expiry, valid = Date(value)
		case "nbf":
			c.NotBefore, valid = Date(value)
		case "iat":
			c.IssuedAt, valid = Date(value)
		case "active":
			c.Active = string(value) == "true"
		case "cnf":
			valid = value[0] == '{'
			for member, value := range jsonrpc.All(value) {
				if member == "jkt" {
					c.KeyThumbprint, valid = Text(value)
					valid = valid && c.KeyThumbprint != ""
				} else {
					c.OtherBinding = true
				}
			}
		}
		ok = ok && valid
	}
	if c.Client == "" {
		c.Client = authorizedParty
	}
	if c.Scopes == nil {
		c.Scopes = scp
	}
	return c, ok && len(c.Scopes) <= maxScopes
}

// Leeway is how much the clocks of an authorization server and this program may differ, unless the program sets it.
const Leeway = 30 * time.Second

// Check returns an *[auth.InvalidTokenError] if the token has expired, is not valid yet,
// or is bound in a way that is not supported.
func (c *Claims) Check(now time.Time, leeway time.Duration) error {
	switch {
	case !c.Expiry.IsZero() && !now.Before(c.Expiry.Add(leeway)):
		return Invalid("the token has expired")
	case now.Add(leeway).Before(c.NotBefore), now.Add(leeway).Before(c.IssuedAt):
		return Invalid("the token is not valid yet")
	case c.OtherBinding && c.KeyThumbprint == "":
		return Invalid("the token is bound to its client in a way that the server does not support")
	}
	return nil
}

// Info returns the claims as an [auth.Info]. Raw is the object that they were read from.
func (c *Claims) Info(raw []byte) (*auth.Info, error) {
	p, err := principal.New(c.Issuer, c.Subject, c.Client)
	if err != nil {
		return nil, Invalid("the subject or the client of the token cannot be used as a name")
	}
	audience := c.Audience
	if audience == nil {
		audience = []string{} // the token is for no server; nil means that it needs no audience
	}
	return &auth.Info{
		Principal: p, Scopes: c.Scopes, Audience: audience, Expiry: c.Expiry,
		KeyThumbprint: c.KeyThumbprint, Claims: raw,
	}, nil
}

// Invalid returns an *[auth.InvalidTokenError] with the code "invalid_token".
func Invalid(reason string) error { return &auth.InvalidTokenError{Reason: reason} }

// Text reads a string.
func Text(value []byte) (string, bool) { return jsonrpc.Unquote(value), value[0] == '"' }

// texts reads a string, or an array of at most limit strings. A null is no string.
func texts(value []byte, limit int) ([]string, bool) {
	if value[0] != '[' {
		text, ok := Text(value)
		return []string{text}, ok
	}
	var elements []jsontext.Value
	if json.Unmarshal(value, &elements) != nil || len(elements) > limit {
		return nil, false
	}
	all := make([]string, len(elements))
	for i, element := range elements {
		var ok bool
		if all[i], ok = Text(element); !ok {
			return nil, false
		}
	}
	return all, true
}

// Date reads a NumericDate (RFC 7519, section 2).
func Date(value []byte) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil || math.Abs(seconds) > 1<<40 { // time.Duration overflows with more
		return time.Time{}, false
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), true
}
