package auth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
)

// Where there is no token yet, a proof is still for one request of one key.
func TestAProofWithoutATokenIsForOneRequest(t *testing.T) {
	p, c := newProver(t), &auth.ProofChecker{}
	request := func(proof ...string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/token", nil)
		r.Header["Dpop"] = proof
		return r
	}
	good := p.proof("", nil)
	if thumbprint, err := c.Check(request(good), self); err != nil || thumbprint != p.thumbprint {
		t.Fatalf("%q, %v", thumbprint, err)
	}
	for name, proof := range map[string][]string{
		"none":           nil,
		"two":            {p.proof("", nil), p.proof("", nil)},
		"used before":    {good},
		"another method": {p.proof("", object{"htm": "GET"})},
		"another URL":    {p.proof("", object{"htu": self + "/x"})},
		"too old":        {p.proof("", object{"iat": time.Now().Add(-2 * time.Minute).Unix()})},
		"of the future":  {p.proof("", object{"iat": time.Now().Add(2 * time.Minute).Unix()})},
		"another type":   {p.proof("", nil, object{"typ": "JWT"})},
		"a foreign key":  {p.proof("", nil, object{"jwk": newProver(t).jwk})},
	} {
		var not *auth.InvalidTokenError
		if thumbprint, err := c.Check(request(proof...), self); !errors.As(err, &not) || thumbprint != "" {
			t.Errorf("%s: %q, %v", name, thumbprint, err)
		}
	}
}
