package jwt_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"
)

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
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
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

// token signs claims. Header changes members of the JWS header.
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
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	payload, _ := json.Marshal(claims)
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
