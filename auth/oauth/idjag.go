package oauth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// idJAG are the required claims of an identity assertion authorization grant (ID-JAG).
type idJAG struct {
	issuer   string // the identity provider; empty: not checked
	audience string
	resource string
	client   string
}

const idJAGType = "oauth-id-jag+jwt"

// readIDJAG reads the grant in the response of a token exchange, and checks that it is
// for the right authorization server, resource and client. The authorization server
// verifies the signature (extension enterprise-managed-authorization, sections 4.2 and
// 4.3).
func readIDJAG(body []byte, want idJAG) (string, error) {
	var exchanged struct {
		Access string `json:"access_token"`
		Issued string `json:"issued_token_type"`
		Type   string `json:"token_type"`
	}
	if err := decode(body, &exchanged); err != nil {
		return "", fmt.Errorf("%w: token exchange: %w", ErrInvalidResponse, err)
	}
	if !validToken(exchanged.Access) {
		return "", fmt.Errorf("%w: token exchange: access_token is missing or invalid", ErrInvalidResponse)
	}
	if exchanged.Issued != typeIDJAG {
		return "", fmt.Errorf("%w: token exchange: issued_token_type must be %s", ErrInvalidResponse, typeIDJAG)
	}
	if !strings.EqualFold(exchanged.Type, "N_A") {
		return "", fmt.Errorf("%w: token exchange: token_type must be N_A", ErrInvalidResponse)
	}
	if err := want.check(exchanged.Access); err != nil {
		return "", fmt.Errorf("%w: ID-JAG: %w", ErrInvalidResponse, err)
	}
	return exchanged.Access, nil
}

// check checks the header and the claims of a JWT.
func (want idJAG) check(jwt string) error {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 || parts[2] == "" {
		return errors.New("it must be a signed JWT")
	}
	var header struct {
		Type      string `json:"typ"`
		Algorithm string `json:"alg"`
	}
	var claims struct {
		Issuer   string         `json:"iss"`
		Subject  string         `json:"sub"`
		Audience jsontext.Value `json:"aud"`
		Resource jsontext.Value `json:"resource"`
		Client   string         `json:"client_id"`
		Expires  float64        `json:"exp"`
	}
	for i, into := range []any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || decode(raw, into) != nil {
			return errors.New("cannot decode its header or its claims")
		}
	}
	switch {
	case !strings.EqualFold(header.Type, idJAGType):
		return fmt.Errorf("typ must be %s, got %.32q", idJAGType, header.Type)
	case header.Algorithm == "" || strings.EqualFold(header.Algorithm, "none"):
		return errors.New("it must be signed")
	case want.issuer != "" && claims.Issuer != want.issuer:
		return fmt.Errorf("iss must be %.200q, got %.200q", want.issuer, claims.Issuer)
	case !isOnly(claims.Audience, want.audience):
		return fmt.Errorf("aud must be only %.200q", want.audience)
	case !isOnly(claims.Resource, want.resource):
		return fmt.Errorf("resource must be only %.200q", want.resource)
	case claims.Client != want.client:
		return fmt.Errorf("client_id must be %.200q, got %.200q", want.client, claims.Client)
	case claims.Subject == "":
		return errors.New("sub is missing")
	case time.Now().After(time.Unix(int64(min(max(claims.Expires, 0), 1<<40)), 0)):
		return errors.New("it has expired")
	}
	return nil
}

// isOnly reports whether a claim is want, or an array with want as its only element.
func isOnly(claim jsontext.Value, want string) bool {
	var one string
	if decode(claim, &one) == nil {
		return one == want
	}
	var many []string
	return decode(claim, &many) == nil && len(many) == 1 && many[0] == want
}
