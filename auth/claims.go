package auth

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// claims are what access tokens and introspection responses say (RFC 9068, section
// 2.2; RFC 7662, section 2.2), as far as it is looked at.
type claims struct {
	issuer, subject, client string
	audience, scopes        []string
	expiry, notBefore       time.Time
	issuedAt                time.Time
	thumbprint              string // of the key that the token is bound to
	otherBinding            bool   // the token is bound in a way that cannot be checked here
	active                  bool
}

// Bounds on lists within a token.
const (
	maxAudience = 64
	maxScopes   = 512
)

// readClaims reads an object that has passed jsonrpc.Check. It is not ok if one of the
// claims that are looked at has another form than its definition says.
func readClaims(object []byte) (c claims, ok bool) {
	var authorizedParty string
	var scp []string
	ok = true
	for name, value := range jsonrpc.All(object) {
		fine := true
		switch name {
		case "iss":
			c.issuer, fine = textOf(value)
		case "sub":
			c.subject, fine = textOf(value)
		case "client_id":
			c.client, fine = textOf(value)
		case "azp":
			authorizedParty, fine = textOf(value)
		case "aud":
			c.audience, fine = textsOf(value, maxAudience)
		case "scope":
			var text string
			text, fine = textOf(value)
			c.scopes = strings.Fields(text)
		case "scp": // what some authorization servers have instead
			if scp, fine = textsOf(value, maxScopes); len(scp) == 1 {
				scp = strings.Fields(scp[0])
			}
		case "exp":
			c.expiry, fine = dateOf(value)
		case "nbf":
			c.notBefore, fine = dateOf(value)
		case "iat":
			c.issuedAt, fine = dateOf(value)
		case "active":
			c.active = string(value) == "true"
		case "cnf":
			fine = value[0] == '{'
			for member, value := range jsonrpc.All(value) {
				if member == "jkt" {
					c.thumbprint, fine = textOf(value)
					fine = fine && c.thumbprint != ""
				} else {
					c.otherBinding = true
				}
			}
		}
		ok = ok && fine
	}
	if c.client == "" {
		c.client = authorizedParty
	}
	if c.scopes == nil {
		c.scopes = scp
	}
	return c, ok && len(c.scopes) <= maxScopes
}

// info makes what the claims say public, for the issuer who has said it.
func (c *claims) info(raw []byte) (*Info, error) {
	who, err := principal.New(c.issuer, c.subject, c.client)
	if err != nil {
		return nil, invalid("its subject or client cannot be used as a name")
	}
	return &Info{
		Principal: who, Scopes: c.scopes, Audience: c.audience, Expiry: c.expiry,
		KeyThumbprint: c.thumbprint, Claims: raw,
	}, nil
}

// check returns what is wrong with the time, or nil.
func (c *claims) check(now time.Time, leeway time.Duration) error {
	switch {
	case !c.expiry.IsZero() && !now.Before(c.expiry.Add(leeway)):
		return invalid("the token has expired")
	case now.Add(leeway).Before(c.notBefore), now.Add(leeway).Before(c.issuedAt):
		return invalid("the token is not valid yet")
	case c.otherBinding && c.thumbprint == "":
		return invalid("the token is bound in a way that is not supported here")
	}
	return nil
}

func textOf(value []byte) (string, bool) { return jsonrpc.Unquote(value), value[0] == '"' }

// textsOf reads a string, or an array of strings.
func textsOf(value []byte, most int) ([]string, bool) {
	if value[0] != '[' {
		text, ok := textOf(value)
		return []string{text}, ok
	}
	var all []string
	if json.Unmarshal(value, &all) != nil || len(all) > most {
		return nil, false
	}
	return all, true
}

// dateOf reads a NumericDate (RFC 7519, section 2).
func dateOf(value []byte) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil || math.Abs(seconds) > 1<<40 { // beyond, durations overflow
		return time.Time{}, false
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), true
}
