package auth_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/principal"
)

// prover is a client with a key of its own.
type prover struct {
	t          testing.TB
	key        *signingKey
	jwk        jose.JSONWebKey
	thumbprint string
}

func newProver(t testing.TB) *prover {
	p := &prover{t: t, key: newKey(t, "")}
	p.jwk = jose.JSONWebKey{Key: &p.key.private.PublicKey}
	sum, err := p.jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	p.thumbprint = base64.RawURLEncoding.EncodeToString(sum)
	return p
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// proof makes a proof for a POST to self, with some claims and members of the header
// changed.
func (p *prover) proof(token string, claims object, header ...object) string {
	public, err := json.Marshal(p.jwk)
	if err != nil {
		p.t.Fatal(err)
	}
	base := object{"jti": rand.Text(), "htm": "POST", "htu": self, "iat": time.Now().Unix(), "ath": hash(token)}
	return sign(p.t, jose.ES256, p.key.private, with(base, claims),
		append([]object{{"typ": "dpop+jwt", "jwk": json.RawMessage(public)}}, header...)...)
}

// resource is one whose tokens are their names.
func resourceOf(t testing.TB, tokens map[string]*auth.Info) *auth.ProtectedResource {
	who, err := principal.New("https://as.example.com", "ada", "editor")
	if err != nil {
		t.Fatal(err)
	}
	return &auth.ProtectedResource{
		URI: self, Issuers: []string{"https://as.example.com"},
		Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
			info := tokens[token]
			if info == nil {
				return nil, &auth.InvalidTokenError{Reason: "nobody knows it"}
			}
			known := *info
			known.Principal, known.Audience = who, []string{self}
			return &known, nil
		}),
	}
}

// present shows a token and proofs to a resource.
func present(a *auth.ProtectedResource, scheme, token string, proofs ...string) (*auth.Info, *auth.Refusal, http.Header) {
	r := httptest.NewRequest(http.MethodPost, "https://backend.internal/mcp?sessionId=1", nil)
	r.Header.Set("Authorization", scheme+" "+token)
	for _, p := range proofs {
		r.Header.Add("DPoP", p)
	}
	response := http.Header{}
	info, no := a.Authenticate(response, r)
	return info, no, response
}

func challengeOf(t *testing.T, response http.Header) auth.Challenge {
	t.Helper()
	all := auth.ParseChallenges(response["Www-Authenticate"])
	if len(all) != 1 {
		t.Fatalf("challenges: %v", all)
	}
	return all[0]
}

func TestABoundTokenNeedsItsProof(t *testing.T) {
	p, other := newProver(t), newProver(t)
	a := resourceOf(t, map[string]*auth.Info{"token": {KeyThumbprint: p.thumbprint}, "plain": {}})
	if info, no, _ := present(a, "DPoP", "token", p.proof("token", nil)); no != nil || info.Principal.Subject() != "ada" {
		t.Fatalf("a proof that is right: %+v", no)
	}
	used := p.proof("token", nil)
	if _, no, _ := present(a, "dpop", "token", used); no != nil {
		t.Fatalf("in lower case: %+v", no)
	}
	private, _ := json.Marshal(jose.JSONWebKey{Key: p.key.private})
	now := time.Now()
	for name, tc := range map[string]struct {
		token  string
		proofs []string
		code   string
	}{
		"none":                      {"token", nil, "invalid_dpop_proof"},
		"two":                       {"token", []string{p.proof("token", nil), p.proof("token", nil)}, "invalid_dpop_proof"},
		"used before":               {"token", []string{used}, "invalid_dpop_proof"},
		"no token":                  {"token", []string{"abc"}, "invalid_dpop_proof"},
		"another's key":             {"token", []string{other.proof("token", nil)}, "invalid_dpop_proof"},
		"another's signature":       {"token", []string{p.proof("token", nil, object{"jwk": other.jwk})}, "invalid_dpop_proof"},
		"a private key":             {"token", []string{p.proof("token", nil, object{"jwk": json.RawMessage(private)})}, "invalid_dpop_proof"},
		"no key":                    {"token", []string{p.proof("token", nil, object{"jwk": nil})}, "invalid_dpop_proof"},
		"a symmetric key":           {"token", []string{p.proof("token", nil, object{"jwk": object{"kty": "oct", "k": "AAAA"}})}, "invalid_dpop_proof"},
		"a chain":                   {"token", []string{p.proof("token", nil, object{"jwk": object{"kty": "EC", "x5c": []string{"AAAA"}}})}, "invalid_dpop_proof"},
		"another type":              {"token", []string{p.proof("token", nil, object{"typ": "JWT"})}, "invalid_dpop_proof"},
		"another method":            {"token", []string{p.proof("token", object{"htm": "GET"})}, "invalid_dpop_proof"},
		"another URL":               {"token", []string{p.proof("token", object{"htu": "https://mcp.example.com/other"})}, "invalid_dpop_proof"},
		"another host":              {"token", []string{p.proof("token", object{"htu": "https://backend.internal/mcp"})}, "invalid_dpop_proof"},
		"no URL":                    {"token", []string{p.proof("token", object{"htu": nil})}, "invalid_dpop_proof"},
		"another token":             {"token", []string{p.proof("another", nil)}, "invalid_dpop_proof"},
		"no hash":                   {"token", []string{p.proof("token", object{"ath": nil})}, "invalid_dpop_proof"},
		"old":                       {"token", []string{p.proof("token", object{"iat": now.Add(-2 * time.Minute).Unix()})}, "invalid_dpop_proof"},
		"of the future":             {"token", []string{p.proof("token", object{"iat": now.Add(2 * time.Minute).Unix()})}, "invalid_dpop_proof"},
		"without a time":            {"token", []string{p.proof("token", object{"iat": nil})}, "invalid_dpop_proof"},
		"without an id":             {"token", []string{p.proof("token", object{"jti": nil})}, "invalid_dpop_proof"},
		"with a long id":            {"token", []string{p.proof("token", object{"jti": strings.Repeat("x", 300)})}, "invalid_dpop_proof"},
		"for a bearer's token":      {"plain", []string{p.proof("plain", nil)}, "invalid_token"},
		"for a token nobody issued": {"forged", []string{p.proof("forged", nil)}, "invalid_token"},
	} {
		info, no, response := present(a, "DPoP", tc.token, tc.proofs...)
		if no == nil || no.Status != http.StatusUnauthorized {
			t.Errorf("%s: %v, %+v", name, info, no)
			continue
		}
		if c := challengeOf(t, response); !c.Is("DPoP") || c.Params["error"] != tc.code || !strings.Contains(c.Params["algs"], "ES256") || strings.Contains(c.Params["algs"], "HS") {
			t.Errorf("%s: %v", name, c)
		}
	}
	if _, no, response := present(a, "Bearer", "token"); no == nil || challengeOf(t, response).Params["error"] != "invalid_token" {
		t.Errorf("as a bearer's: %+v", no)
	}
	for _, htu := range []string{"HTTPS://MCP.example.com:443/mcp", self + "?sessionId=1", self + "#x"} {
		if _, no, _ := present(a, "DPoP", "token", p.proof("token", object{"htu": htu})); no != nil {
			t.Errorf("%s: %+v", htu, no)
		}
	}
}

func TestProofsCanBeRequired(t *testing.T) {
	a := resourceOf(t, map[string]*auth.Info{"plain": {}})
	a.DPoP.Required = true
	_, no, response := present(a, "Bearer", "plain")
	if c := challengeOf(t, response); no == nil || no.Status != http.StatusUnauthorized || !c.Is("DPoP") {
		t.Errorf("%+v %v", no, c)
	}
}

func TestNoncesAreIssuedAndAskedFor(t *testing.T) {
	p := newProver(t)
	now := time.Now()
	key := []byte(rand.Text() + rand.Text())
	replica := func(keys ...[]byte) *auth.ProtectedResource {
		a := resourceOf(t, map[string]*auth.Info{"token": {KeyThumbprint: p.thumbprint}})
		a.DPoP = auth.DPoP{Nonces: true, NonceKeys: keys}
		a.Now = func() time.Time { return now }
		return a
	}
	a := replica(key)
	_, no, response := present(a, "DPoP", "token", p.proof("token", nil))
	nonce := response.Get("DPoP-Nonce")
	if no == nil || challengeOf(t, response).Params["error"] != "use_dpop_nonce" || nonce == "" {
		t.Fatalf("%+v %v", no, response)
	}
	try := func(a *auth.ProtectedResource, nonce string) (ok bool, next string) {
		_, no, response := present(a, "DPoP", "token", p.proof("token", object{"nonce": nonce, "iat": now.Unix()}))
		return no == nil, response.Get("DPoP-Nonce")
	}
	if ok, next := try(a, nonce); !ok || next != "" {
		t.Errorf("the nonce that was issued: %v, next %q", ok, next)
	}
	if ok, _ := try(replica([]byte(strings.Repeat("n", 32)), key), nonce); !ok {
		t.Error("another replica, which has a newer key, does not know the nonce")
	}
	for _, bad := range []string{"", "abc", nonce + "x", flip(nonce)} {
		if ok, next := try(a, bad); ok || next == "" {
			t.Errorf("%q: %v, next %q", bad, ok, next)
		}
	}
	now = now.Add(3 * time.Minute)
	if ok, next := try(a, nonce); !ok || next == "" {
		t.Errorf("an aging nonce: %v, next %q: want the next one with the answer", ok, next)
	}
	now = now.Add(3 * time.Minute)
	if ok, next := try(a, nonce); ok || next == "" {
		t.Errorf("an old nonce: %v, next %q", ok, next)
	}
}

// A proof is remembered for as long as it would be accepted, and no longer.
func TestProofsAreRememberedWhileTheyCount(t *testing.T) {
	p := newProver(t)
	now := time.Now()
	a := resourceOf(t, map[string]*auth.Info{"token": {KeyThumbprint: p.thumbprint}})
	a.Now = func() time.Time { return now }
	// As far in the future as clocks may differ, so that it counts for two minutes.
	early := p.proof("token", object{"iat": now.Add(time.Minute).Unix()})
	if _, no, _ := present(a, "DPoP", "token", early); no != nil {
		t.Fatalf("%+v", no)
	}
	for range 23 {
		now = now.Add(5 * time.Second)
		if _, no, _ := present(a, "DPoP", "token", p.proof("token", object{"iat": now.Unix()})); no != nil {
			t.Fatalf("%+v", no)
		}
		if _, no, _ := present(a, "DPoP", "token", early); no == nil {
			t.Fatal("a proof was accepted twice")
		}
	}
}

// What one process remembers is enough where nonces are its own: elsewhere a proof that it
// was shown is refused for its nonce, before anybody asks whether it was used.
func TestAProofIsOfUseAtOneReplicaOnlyWhereNoncesAreItsOwn(t *testing.T) {
	p := newProver(t)
	for name, tc := range map[string]struct {
		keys [][]byte
		code string // at the other replica, empty if it is accepted
	}{
		"own keys":    {nil, "use_dpop_nonce"},
		"shared keys": {[][]byte{bytes.Repeat([]byte("k"), 32)}, ""},
	} {
		var replicas [2]*auth.ProtectedResource
		for i := range replicas {
			replicas[i] = resourceOf(t, map[string]*auth.Info{"token": {KeyThumbprint: p.thumbprint}})
			replicas[i].DPoP = auth.DPoP{Nonces: true, NonceKeys: tc.keys}
		}
		_, _, response := present(replicas[0], "DPoP", "token", p.proof("token", nil))
		proof := p.proof("token", object{"nonce": response.Get("DPoP-Nonce")})
		if _, no, _ := present(replicas[0], "DPoP", "token", proof); no != nil {
			t.Errorf("%s: %+v", name, no)
		}
		if _, no, response := present(replicas[0], "DPoP", "token", proof); no == nil || challengeOf(t, response).Params["error"] != "invalid_dpop_proof" {
			t.Errorf("%s: a proof is accepted twice by one replica", name)
		}
		_, no, response := present(replicas[1], "DPoP", "token", proof)
		if no == nil && tc.code != "" || no != nil && challengeOf(t, response).Params["error"] != tc.code {
			t.Errorf("%s: another replica answers %+v, want %q", name, no, tc.code)
		}
	}
}
