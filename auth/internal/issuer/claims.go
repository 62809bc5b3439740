package issuer

import (
	"encoding/base64"
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

// Claims are the claims of an access token (RFC 9068, section 2.2) or the fields of an
// introspection response (RFC 7662, section 2.2) that the verifiers use.
type Claims struct {
	Issuer, Subject, Client string
	Audience, Scopes        []string
	Expiry                  time.Time
	NotBefore, IssuedAt     time.Time
	KeyThumbprint           string // thumbprint of the key that the token is bound to
	OtherBinding            bool   // the token is bound in a way that is not supported
	Active                  bool   // active in an introspection response
}

// Limits of lists in a token.
const (
	maxAudience = 64
	maxScopes   = 512
)

// ReadClaims reads claims of object, which must have passed [jsonrpc.Check], under the names
// that p lists. If scopesFrom is not empty, the scopes come from that claim (see
// [auth.Info.Claim]). ReadClaims returns false if a claim has the wrong JSON type.
func ReadClaims(object []byte, p *Profile, scopesFrom string) (c Claims, ok bool) {
	ok = true
	for name, value := range jsonrpc.All(object) {
		valid := true
		switch name {
		case "iss":
			c.Issuer, valid = Text(value)
		case "sub", "client_id", "azp", "appid", "cid":
			_, valid = Text(value)
		case "exp":
			if p.Opaque && value[0] == '"' {
				value = []byte(jsonrpc.Unquote(value))
			}
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
	c.Subject = firstText(object, p.Subjects, "sub")
	c.Client = firstText(object, p.Clients, "client_id", "azp")
	valid := true
	if _, value := first(object, p.Audiences, "aud"); value != nil {
		c.Audience, valid = texts(value, maxAudience)
		ok = ok && valid
	}
	name, value := first(object, p.Scopes, "scope", "scp") // some authorization servers send scp instead of scope
	switch {
	case scopesFrom != "":
		value, _ = (&auth.Info{Claims: object}).Claim(scopesFrom)
		c.Scopes, valid = readScopes(value)
	case name == "scope" && value[0] != '"':
		valid = false
	case value != nil:
		c.Scopes, valid = readScopes(value)
	}
	return c, ok && valid && len(c.Scopes) <= maxScopes
}

// first returns the first of names that object contains, and its value. If names is nil, it looks for others
// instead.
func first(object []byte, names []string, others ...string) (string, []byte) {
	if names == nil {
		names = others
	}
	for _, name := range names {
		if value, ok := jsonrpc.Get(object, name); ok {
			return name, value
		}
	}
	return "", nil
}

// firstText returns the first string among names, as first does, that is not empty.
func firstText(object []byte, names []string, others ...string) string {
	if names == nil {
		names = others
	}
	for _, name := range names {
		if value, _ := jsonrpc.Get(object, name); jsonrpc.Unquote(value) != "" {
			return jsonrpc.Unquote(value)
		}
	}
	return ""
}

// readScopes reads the value of a claim with scopes or roles: a string with spaces between them, an array, or an
// object with their names as keys. A nil value contains none.
func readScopes(value []byte) (scopes []string, ok bool) {
	if value == nil {
		return nil, true
	}
	if value[0] == '{' {
		for name := range jsonrpc.All(value) {
			scopes = append(scopes, name)
		}
		return scopes, true
	}
	if scopes, ok = texts(value, maxScopes); len(scopes) == 1 {
		scopes = strings.Fields(scopes[0])
	}
	return scopes, ok
}

// Leeway is how much the clocks of an authorization server and this program may differ, unless the program sets it.
const Leeway = 30 * time.Second

// Check returns an *[auth.InvalidTokenError] if the token has expired, is not valid yet,
// or is bound in a way that is not supported.
func (c *Claims) Check(now time.Time, leeway time.Duration) error {
	switch {
	case !c.Expiry.IsZero() && !now.Before(c.Expiry.Add(leeway)):
		return Invalid("the token has expired: get a new one")
	case now.Add(leeway).Before(c.NotBefore), now.Add(leeway).Before(c.IssuedAt):
		return Invalid("the token is not valid yet")
	case c.OtherBinding && c.KeyThumbprint == "":
		return Invalid("the token is bound to its client in a way that the server does not support")
	}
	return nil
}

// Info returns the claims as an [auth.Info]. They were read from the object raw.
func (c *Claims) Info(raw []byte) (*auth.Info, error) {
	p, err := principal.New(c.Issuer, c.Subject, c.Client)
	if err != nil {
		return nil, Invalid("the subject or the client of the token cannot be used as a name")
	}
	audience := c.Audience
	if audience == nil {
		audience = []string{} // the token is for no server; nil would mean that it needs no audience
	}
	return &auth.Info{
		Principal: p, Scopes: c.Scopes, Audience: audience, Expiry: c.Expiry,
		KeyThumbprint: c.KeyThumbprint, Claims: raw,
	}, nil
}

// NoAccess is the reason for which an ID token is not valid.
const NoAccess = "the token is an ID token or a refresh token, which gives no access: send the access token"

// Invalid returns an *[auth.InvalidTokenError] with the code "invalid_token".
func Invalid(reason string) error { return &auth.InvalidTokenError{Reason: reason} }

// Text reads a string.
func Text(value []byte) (string, bool) { return jsonrpc.Unquote(value), value[0] == '"' }

// texts reads a string, or an array of at most limit strings. null is not a string.
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

// PayloadOf returns the JSON object in the payload of a token that looks like a JSON Web Token, or nil. It does not
// verify the token.
func PayloadOf(token string) []byte {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || len(data) == 0 || data[0] != '{' || jsonrpc.Check(data, jsonrpc.Limits{}) != nil {
		return nil
	}
	return data
}

// Date reads a NumericDate (RFC 7519, section 2).
func Date(value []byte) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(math.Abs(seconds) <= 1<<40) { // larger values overflow time.Duration; also rejects NaN
		return time.Time{}, false
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), true
}
