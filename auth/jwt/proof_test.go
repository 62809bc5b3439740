package jwt_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// prover is a client with a key.
type prover struct {
	t          testing.TB
	key        *signingKey
	jwk        jose.JSONWebKey
	thumbprint string
}

func newProver(t testing.TB) *prover {
	p := &prover{t: t, key: newKey(t, "")}
	p.jwk = jose.JSONWebKey{Key: &p.key.private.PublicKey}
	sum := must.Get(p.jwk.Thumbprint(crypto.SHA256))(t)
	p.thumbprint = base64.RawURLEncoding.EncodeToString(sum)
	return p
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// proof makes a proof for a POST to self. claims changes the claims, header changes fields of the JWS header.
func (p *prover) proof(token string, claims object, header ...object) string {
	public := must.Get(json.Marshal(p.jwk))(p.t)
	base := object{"jti": rand.Text(), "htm": "POST", "htu": self, "iat": time.Now().Unix(), "ath": hash(token)}
	return sign(p.t, jose.ES256, p.key.private, with(base, claims),
		append([]object{{"typ": "dpop+jwt", "jwk": json.RawMessage(public)}}, header...)...)
}

// resourceOf returns a resource that accepts DPoP proofs and the given tokens.
func resourceOf(t testing.TB, tokens map[string]*auth.Info) *auth.ProtectedResource {
	who := must.Get(principal.New("https://as.example.com", "ada", "editor"))(t)
	return &auth.ProtectedResource{
		URI: self, Issuers: []string{"https://as.example.com"},
		Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
			info := tokens[token]
			if info == nil {
				return nil, &auth.InvalidTokenError{Reason: "unknown token"}
			}
			known := *info
			known.Principal, known.Audience = who, []string{self}
			return &known, nil
		}),
		DPoP: &jwt.ProofVerifier{},
	}
}

// present sends a request with a token and proofs to a resource.
func present(a *auth.ProtectedResource, scheme, token string,
	proofs ...string) (*auth.Info, *auth.Rejection, http.Header) {
	r := httptest.NewRequest(http.MethodPost, "https://backend.internal/mcp?sessionId=1", nil)
	r.Header.Set("Authorization", scheme+" "+token)
	for _, p := range proofs {
		r.Header.Add("DPoP", p)
	}
	response := http.Header{}
	info, err := a.Authenticate(response, r)
	rejection, _ := errors.AsType[*auth.Rejection](err)
	return info, rejection, response
}

func challengeOf(t *testing.T, response http.Header) challenge.Challenge {
	t.Helper()
	all := challenge.Parse(response["Www-Authenticate"])
	must.Equal(t, len(all), 1, all)
	return all[0]
}

func TestBoundTokensNeedAProof(t *testing.T) {
	p, other := newProver(t), newProver(t)
	a := resourceOf(t, map[string]*auth.Info{"token": {KeyThumbprint: p.thumbprint}, "plain": {}})
	info, rejection, _ := present(a, "DPoP", "token", p.proof("token", nil))
	must.That(t, rejection == nil && info.Principal.Subject() == "ada", "valid proof: %+v", rejection)
	used := p.proof("token", nil)
	_, rejection, _ = present(a, "dpop", "token", used)
	must.That(t, rejection == nil, "scheme in lower case: %+v", rejection)
	private, _ := json.Marshal(jose.JSONWebKey{Key: p.key.private})
	now := time.Now()
	for name, tc := range map[string]struct {
		token  string
		proofs []string
		code   string
	}{
		"none": {"token", nil, "invalid_dpop_proof"},
		"two": {"token", []string{p.proof("token", nil), p.proof("token", nil)},
			"invalid_dpop_proof"},
		"used before":           {"token", []string{used}, "invalid_dpop_proof"},
		"not a JWS":             {"token", []string{"abc"}, "invalid_dpop_proof"},
		"key of another client": {"token", []string{other.proof("token", nil)}, "invalid_dpop_proof"},
		"signature of another key": {"token", []string{p.proof("token", nil, object{"jwk": other.jwk})},
			"invalid_dpop_proof"},
		"private key": {"token", []string{p.proof("token", nil, object{"jwk": json.RawMessage(private)})},
			"invalid_dpop_proof"},
		"no key": {"token", []string{p.proof("token", nil, object{"jwk": nil})},
			"invalid_dpop_proof"},
		"symmetric key": {"token", []string{p.proof("token", nil,
			object{"jwk": object{"kty": "oct", "k": "AAAA"}})}, "invalid_dpop_proof"},
		"certificate chain": {"token", []string{p.proof("token", nil,
			object{"jwk": object{"kty": "EC", "x5c": []string{"AAAA"}}})}, "invalid_dpop_proof"},
		"another type": {"token", []string{p.proof("token", nil, object{"typ": "JWT"})},
			"invalid_dpop_proof"},
		"another method": {"token", []string{p.proof("token", object{"htm": "GET"})}, "invalid_dpop_proof"},
		"another URL": {"token", []string{p.proof("token",
			object{"htu": "https://mcp.example.com/other"})}, "invalid_dpop_proof"},
		"another host": {"token", []string{p.proof("token", object{"htu": "https://backend.internal/mcp"})},
			"invalid_dpop_proof"},
		"no URL":        {"token", []string{p.proof("token", object{"htu": nil})}, "invalid_dpop_proof"},
		"another token": {"token", []string{p.proof("another", nil)}, "invalid_dpop_proof"},
		"no hash":       {"token", []string{p.proof("token", object{"ath": nil})}, "invalid_dpop_proof"},
		"old": {"token", []string{p.proof("token",
			object{"iat": now.Add(-2 * time.Minute).Unix()})}, "invalid_dpop_proof"},
		"issued in the future": {"token", []string{p.proof("token",
			object{"iat": now.Add(2 * time.Minute).Unix()})}, "invalid_dpop_proof"},
		"no time of issue": {"token", []string{p.proof("token", object{"iat": nil})}, "invalid_dpop_proof"},
		"no id":            {"token", []string{p.proof("token", object{"jti": nil})}, "invalid_dpop_proof"},
		"id is too long": {"token", []string{p.proof("token", object{"jti": strings.Repeat("x", 300)})},
			"invalid_dpop_proof"},
		"for a bearer token":   {"plain", []string{p.proof("plain", nil)}, "invalid_token"},
		"for an unknown token": {"forged", []string{p.proof("forged", nil)}, "invalid_token"},
	} {
		info, rejection, response := present(a, "DPoP", tc.token, tc.proofs...)
		if rejection == nil || rejection.Status != http.StatusUnauthorized {
			t.Errorf("%s: %v, %+v", name, info, rejection)
			continue
		}
		c := challengeOf(t, response)
		must.CheckThat(t, c.Is("DPoP") && c.Params["error"] == tc.code && strings.Contains(c.Params["algs"], "ES256") &&
			!strings.Contains(c.Params["algs"], "HS"), "%s: %v", name, c)
	}
	_, rejection, response := present(a, "Bearer", "token")
	must.CheckThat(t, rejection != nil && challengeOf(t, response).Params["error"] == "invalid_token",
		"bound token as a bearer token: %+v", rejection)
	for _, htu := range []string{"HTTPS://MCP.example.com:443/mcp", self + "?sessionId=1", self + "#x"} {
		_, rejection, _ := present(a, "DPoP", "token", p.proof("token", object{"htu": htu}))
		must.CheckThat(t, rejection == nil, "%s: %+v", htu, rejection)
	}
}

func TestRequireDPoPRejectsBearerTokens(t *testing.T) {
	a := resourceOf(t, map[string]*auth.Info{"plain": {}})
	a.RequireDPoP = true
	_, rejection, response := present(a, "Bearer", "plain")
	if c := challengeOf(t, response); rejection == nil || rejection.Status != http.StatusUnauthorized || !c.Is("DPoP") {
		t.Errorf("%+v %v", rejection, c)
	}
}

func TestProofsNeedAFreshNonce(t *testing.T) {
	p := newProver(t)
	now := time.Now()
	key := []byte(rand.Text() + rand.Text())
	replica := func(keys ...[]byte) *auth.ProtectedResource {
		a := resourceOf(t, map[string]*auth.Info{"token": {KeyThumbprint: p.thumbprint}})
		a.DPoP = &jwt.ProofVerifier{Nonces: true, NonceKeys: keys, Now: func() time.Time { return now }}
		return a
	}
	a := replica(key)
	_, rejection, response := present(a, "DPoP", "token", p.proof("token", nil))
	nonce := response.Get("DPoP-Nonce")
	must.That(t, rejection != nil && challengeOf(t, response).Params["error"] == "use_dpop_nonce" && nonce != "",
		"%+v %v", rejection, response)
	try := func(a *auth.ProtectedResource, nonce string) (ok bool, next string) {
		_, rejection, response := present(a, "DPoP", "token",
			p.proof("token", object{"nonce": nonce, "iat": now.Unix()}))
		return rejection == nil, response.Get("DPoP-Nonce")
	}
	ok, next := try(a, nonce)
	must.CheckThat(t, ok && next == "", "issued nonce: %v, next %q", ok, next)
	ok, _ = try(replica([]byte(strings.Repeat("n", 32)), key), nonce)
	must.CheckThat(t, ok, "a replica with a newer key rejects the nonce")
	for _, bad := range []string{"", "abc", nonce + "x", flip(nonce)} {
		ok, next := try(a, bad)
		must.CheckThat(t, !ok && next != "", "%q: %v, next %q", bad, ok, next)
	}
	now = now.Add(3 * time.Minute)
	ok, next = try(a, nonce)
	must.CheckThat(t, ok && next != "", "nonce in the second half of its life: %v, next %q, want a new nonce", ok, next)
	now = now.Add(3 * time.Minute)
	ok, next = try(a, nonce)
	must.CheckThat(t, !ok && next != "", "expired nonce: %v, next %q", ok, next)
}

// A proof is remembered for as long as it is valid.
func TestProofsAreAcceptedOnce(t *testing.T) {
	p := newProver(t)
	now := time.Now()
	a := resourceOf(t, map[string]*auth.Info{"token": {KeyThumbprint: p.thumbprint}})
	a.DPoP = &jwt.ProofVerifier{Now: func() time.Time { return now }}
	// It is issued as far in the future as clocks may differ, so it is valid for two minutes.
	early := p.proof("token", object{"iat": now.Add(time.Minute).Unix()})
	_, rejection, _ := present(a, "DPoP", "token", early)
	must.That(t, rejection == nil, "%+v", rejection)
	for range 23 {
		now = now.Add(5 * time.Second)
		_, rejection, _ := present(a, "DPoP", "token",
			p.proof("token", object{"iat": now.Unix()}))
		must.That(t, rejection == nil, "%+v", rejection)
		_, rejection, _ = present(a, "DPoP", "token", early)
		must.That(t, rejection != nil, "a proof was accepted twice")
	}
}

func TestReplicasWithOneStoreAcceptAProofOnce(t *testing.T) {
	p := newProver(t)
	memory := store.NewMemory()
	var replicas [2]*auth.ProtectedResource
	for i := range replicas {
		replicas[i] = resourceOf(t, map[string]*auth.Info{"token": {KeyThumbprint: p.thumbprint}})
		replicas[i].DPoP = &jwt.ProofVerifier{KV: memory}
	}
	proof := p.proof("token", nil)
	_, rejection, _ := present(replicas[0], "DPoP", "token", proof)
	must.That(t, rejection == nil, "%+v", rejection)
	_, rejection, _ = present(replicas[1], "DPoP", "token", proof)
	must.CheckThat(t, rejection != nil && rejection.Status == http.StatusUnauthorized,
		"another replica responded %+v", rejection)
	_, rejection, _ = present(replicas[1], "DPoP", "token", p.proof("token", nil))
	must.CheckThat(t, rejection == nil, "another proof: %+v", rejection)
	replicas[1].DPoP = &jwt.ProofVerifier{KV: brokenKV{memory}}
	_, rejection, _ = present(replicas[1], "DPoP", "token", p.proof("token", nil))
	must.CheckThat(t, rejection != nil && rejection.Status == http.StatusServiceUnavailable,
		"without the store: %+v", rejection)
}

// docs/program/scale.md states this number.
func TestProofIsOneOperationOfTheStore(t *testing.T) {
	p := newProver(t)
	kv := &puttingKV{}
	r := resourceOf(t, map[string]*auth.Info{"token": {KeyThumbprint: p.thumbprint}})
	r.DPoP = &jwt.ProofVerifier{KV: kv}
	for n := 1; n <= 3; n++ {
		if _, rejection, _ := present(r, "DPoP", "token", p.proof("token", nil)); rejection != nil || kv.puts != n {
			t.Errorf("%d operations after %d proofs: %+v", kv.puts, n, rejection)
		}
	}
}

// puttingKV counts Put. Other methods panic.
type puttingKV struct {
	store.KV
	puts int
}

func (kv *puttingKV) Put(context.Context, string, []byte, store.PutOptions) (uint64, error) {
	kv.puts++
	return 1, nil
}

// brokenKV rejects writes.
type brokenKV struct{ store.KV }

func (brokenKV) Put(context.Context, string, []byte, store.PutOptions) (uint64, error) {
	return 0, errors.New("no connection")
}

// Replicas without a common store do not share used proofs. If each replica issues its own nonces, it rejects a proof
// that was used at another replica because of the nonce.
func TestReplicasWithOwnNoncesRejectProofsOfOthers(t *testing.T) {
	p := newProver(t)
	for name, tc := range map[string]struct {
		keys [][]byte
		code string // error code at the other replica; empty: accepted
	}{
		"own keys":    {nil, "use_dpop_nonce"},
		"shared keys": {[][]byte{bytes.Repeat([]byte("k"), 32)}, ""},
	} {
		var replicas [2]*auth.ProtectedResource
		for i := range replicas {
			replicas[i] = resourceOf(t, map[string]*auth.Info{"token": {KeyThumbprint: p.thumbprint}})
			replicas[i].DPoP = &jwt.ProofVerifier{Nonces: true, NonceKeys: tc.keys}
		}
		_, _, response := present(replicas[0], "DPoP", "token", p.proof("token", nil))
		proof := p.proof("token", object{"nonce": response.Get("DPoP-Nonce")})
		if _, rejection, _ := present(replicas[0], "DPoP", "token", proof); rejection != nil {
			t.Errorf("%s: %+v", name, rejection)
		}
		if _, rejection, response := present(replicas[0], "DPoP", "token", proof); rejection == nil ||
			challengeOf(t, response).Params["error"] != "invalid_dpop_proof" {
			t.Errorf("%s: one replica accepted a proof twice", name)
		}
		_, rejection, response := present(replicas[1], "DPoP", "token", proof)
		if rejection == nil && tc.code != "" || rejection != nil &&
			challengeOf(t, response).Params["error"] != tc.code {
			t.Errorf("%s: another replica responded %+v, want %q", name, rejection, tc.code)
		}
	}
}

// Rule R6: a rejection contains no part of the token or the proof.
func TestRejectionsDoNotContainTheProof(t *testing.T) {
	const canary = "planted-canary-token"
	p := newProver(t)
	a := resourceOf(t, map[string]*auth.Info{canary: {KeyThumbprint: p.thumbprint}})
	proof := p.proof(canary, object{"htu": "https://planted-canary-url.example"})
	_, rejection, response := present(a, "DPoP", canary, proof)
	text := fmt.Sprintf("%+v %s", rejection, response)
	must.CheckThat(t, !strings.Contains(text, "planted-canary") && !strings.Contains(text, proof), "%s", text)
}

func TestProtectKeepsFieldsThatAreSet(t *testing.T) {
	verifier, proofs := &jwt.Verifier{}, &jwt.ProofVerifier{}
	a := &auth.ProtectedResource{Verifier: verifier, DPoP: proofs}
	must.CheckThat(t, jwt.Protect(a) == a && a.Verifier == verifier && a.DPoP == proofs, "%+v", a)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer is an authorization server that serves metadata and keys.
type issuer struct {
	*httptest.Server
	t        testing.TB
	key      atomic.Pointer[signingKey]
	metadata string // path of the metadata
	fetches  atomic.Int32
	broken   atomic.Bool
	document func(base string) map[string]any // changes to the metadata
}

type signingKey struct {
	id      string
	private *ecdsa.PrivateKey
}

func newKey(t testing.TB, id string) *signingKey {
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return &signingKey{id, private}
}

func newIssuer(t testing.TB) *issuer {
	i := &issuer{t: t, metadata: "/.well-known/oauth-authorization-server"}
	i.key.Store(newKey(t, "k1"))
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i.broken.Load() {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case i.metadata:
		document := map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
		if i.document != nil {
			maps.Copy(document, i.document(i.URL))
		}
		_ = json.NewEncoder(w).Encode(document)
	case "/keys":
		i.fetches.Add(1)
		k := i.key.Load()
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: []byte("a symmetric key, to be skipped"), KeyID: "k0"},
			{Key: &k.private.PublicKey, KeyID: k.id, Use: "sig"},
		}})
	default:
		http.NotFound(w, r)
	}
}

const self = "https://mcp.example.com/mcp"

// claims returns the claims of a valid token for self.
func (i *issuer) claims() map[string]any {
	now := time.Now()
	return map[string]any{
		"iss": i.URL, "sub": "ada", "client_id": "editor", "aud": self, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "scope": "mcp:read mcp:write",
	}
}

type object = map[string]any

// with returns a copy of claims with changes; the value nil removes a claim.
func with(claims, changes object) object {
	changed := maps.Clone(claims)
	for name, value := range changes {
		if value == nil {
			delete(changed, name)
		} else {
			changed[name] = value
		}
	}
	return changed
}

// token signs claims. header changes fields of the JWS header.
func (i *issuer) token(claims object, header ...object) string {
	k := i.key.Load()
	return sign(i.t, jose.ES256, k.private, claims, append([]object{{"typ": "at+jwt", "kid": k.id}}, header...)...)
}

func sign(t testing.TB, alg jose.SignatureAlgorithm, key any, claims object, header ...object) string {
	t.Helper()
	options := &jose.SignerOptions{}
	for _, h := range header {
		for name, value := range h {
			options.WithHeader(jose.HeaderKey(name), value)
			if value == nil {
				delete(options.ExtraHeaders, jose.HeaderKey(name))
			}
		}
	}
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options))(t)
	payload, _ := json.Marshal(claims)
	signed := must.Get(signer.Sign(payload))(t)
	text := must.Get(signed.CompactSerialize())(t)
	return text
}
