package jwt_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
)

func TestVerifyTokenRequest(t *testing.T) {
	p, v := newProver(t), &jwt.ProofVerifier{}
	request := func(proof ...string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/token", nil)
		r.Header["Dpop"] = proof
		return r
	}
	good := p.proof("", nil)
	if thumbprint, err := v.VerifyTokenRequest(request(good), self); err != nil || thumbprint != p.thumbprint {
		t.Fatalf("%q, %v", thumbprint, err)
	}
	for name, proof := range map[string][]string{
		"none":           nil,
		"two":            {p.proof("", nil), p.proof("", nil)},
		"used before":    {good},
		"another method": {p.proof("", object{"htm": "GET"})},
		"another URL":    {p.proof("", object{"htu": self + "/x"})},
		"too old":        {p.proof("", object{"iat": time.Now().Add(-2 * time.Minute).Unix()})},
		"in the future":  {p.proof("", object{"iat": time.Now().Add(2 * time.Minute).Unix()})},
		"another type":   {p.proof("", nil, object{"typ": "JWT"})},
		"another key":    {p.proof("", nil, object{"jwk": newProver(t).jwk})},
	} {
		var invalid *auth.InvalidTokenError
		if thumbprint, err := v.VerifyTokenRequest(request(proof...), self); !errors.As(err, &invalid) || thumbprint != "" {
			t.Errorf("%s: %q, %v", name, thumbprint, err)
		}
	}
}
