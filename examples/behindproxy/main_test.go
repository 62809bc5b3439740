package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/replicatest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// signer signs assertions.
type signer struct {
	t   *testing.T
	key jose.JSONWebKey
}

func newSigner(t *testing.T) *signer {
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return &signer{t, jose.JSONWebKey{Key: private, KeyID: "1", Algorithm: string(jose.ES256), Use: "sig"}}
}

// ServeHTTP serves the public key.
func (s *signer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.key.Public()}})
}

// assert returns the headers of a user's request. changes replaces claims.
func (s *signer) assert(user string, changes map[string]any) []string {
	claims := map[string]any{"iss": "https://proxy.example", "aud": []string{"server-1"}, "sub": user,
		"exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	for name, value := range changes {
		claims[name] = value
	}
	by := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key},
		new(jose.SignerOptions).WithType("JWT")))(s.t)
	signed := must.Get(by.Sign(must.Get(json.Marshal(claims))(s.t)))(s.t)
	return []string{"X-Assertion", must.Get(signed.CompactSerialize())(s.t)}
}

// Nothing of one user exists for another user.
func TestUsersCannotUseWhatOthersHave(t *testing.T) {
	signs, forger := newSigner(t), newSigner(t)
	keys := httptest.NewServer(signs)
	defer keys.Close()
	p := &proxy{header: "X-Assertion", issuer: "https://proxy.example", audience: "server-1", keysURL: keys.URL}
	must.Do(t, p.fetch())
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	memory := store.NewMemory()
	replicatest.Principals(t, memory, memory, replicatest.Door{
		Protect: func(s *server.Server) http.Handler { return p.authenticate(s) },
		Headers: func(user string) []string { return signs.assert(user, nil) },
		Strangers: map[string][]string{
			"nobody": nil, "name": {"X-Assertion", "ada", "X-Forwarded-User", "ada"},
			"another key":    forger.assert("ada", nil),
			"unsigned":       {"X-Assertion", "eyJhbGciOiJub25lIn0." + strings.Split(signs.assert("ada", nil)[1], ".")[1] + "."},
			"no expiry":      signs.assert("ada", map[string]any{"exp": nil}),
			"not yet":        signs.assert("ada", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
			"another server": signs.assert("ada", map[string]any{"aud": "server-2"}),
			"no audience":    signs.assert("ada", map[string]any{"aud": nil}),
			"another issuer": signs.assert("ada", map[string]any{"iss": "https://other.example"}),
			"expired":        signs.assert("ada", map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
			"no subject":     signs.assert("", nil),
			"other header":   {"Authorization", "Bearer " + signs.assert("ada", nil)[1]},
		},
	})
}
