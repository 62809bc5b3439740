package oauth

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// idJAG is what an identity assertion authorization grant has to say, to be of use at
// one authorization server for one client and resource.
type idJAG struct {
	issuer   string // of the identity provider; empty: not known
	audience string
	resource string
	client   string
}

const idJAGType = "oauth-id-jag+jwt"

// readIDJAG takes the grant out of the response to a token exchange. Its signature is
// for the authorization server to check; that it goes to the right one, and is about
// us, is for us (extension enterprise-managed-authorization, sections 4.2 and 4.3).
func readIDJAG(body []byte, want idJAG) (string, error) {
	var answer struct {
		Access string `json:"access_token"`
		Issued string `json:"issued_token_type"`
		Type   string `json:"token_type"`
	}
	if decode(body, &answer) != nil || !validToken(answer.Access) {
		return "", fmt.Errorf("%w: of the token exchange: there is no token in it", ErrInvalidResponse)
	}
	if answer.Issued != typeIDJAG {
		return "", fmt.Errorf("%w: of the token exchange: the token is of type %.100q and not an ID-JAG", ErrInvalidResponse, answer.Issued)
	}
	if !strings.EqualFold(answer.Type, "N_A") {
		return "", fmt.Errorf("%w: of the token exchange: token_type is %.32q and not N_A", ErrInvalidResponse, answer.Type)
	}
	if err := want.check(answer.Access); err != nil {
		return "", fmt.Errorf("%w: the ID-JAG: %w", ErrInvalidResponse, err)
	}
	return answer.Access, nil
}

func (want idJAG) check(jwt string) error {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 || parts[2] == "" {
		return fmt.Errorf("it is no signed JWT")
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
			return fmt.Errorf("it cannot be read")
		}
	}
	switch {
	case !strings.EqualFold(header.Type, idJAGType):
		return fmt.Errorf("its typ is %.32q and not %s", header.Type, idJAGType)
	case header.Algorithm == "" || strings.EqualFold(header.Algorithm, "none"):
		return fmt.Errorf("it is not signed")
	case want.issuer != "" && claims.Issuer != want.issuer:
		return fmt.Errorf("its iss is %.200q and not %.200q", claims.Issuer, want.issuer)
	case !only(claims.Audience, want.audience):
		return fmt.Errorf("its aud is not %.200q alone", want.audience)
	case !only(claims.Resource, want.resource):
		return fmt.Errorf("its resource is not %.200q alone", want.resource)
	case claims.Client != want.client:
		return fmt.Errorf("its client_id is %.200q and not %.200q", claims.Client, want.client)
	case claims.Subject == "":
		return fmt.Errorf("it names no subject")
	case time.Now().After(time.Unix(int64(min(max(claims.Expires, 0), 1<<40)), 0)):
		return fmt.Errorf("it has expired")
	}
	return nil
}

// only reports whether a claim is one value, alone or as the only one of an array.
func only(claim jsontext.Value, want string) bool {
	var one string
	if decode(claim, &one) == nil {
		return one == want
	}
	var many []string
	return decode(claim, &many) == nil && len(many) == 1 && many[0] == want
}
