package jwt_test

import (
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/internal/corpus"
)

// Rules R1, R2: the tokens reach the verifier through the handler of a protected resource.
func TestTokensOfTheCorpusAreJudgedAsRecorded(t *testing.T) {
	i := newIssuer(t)
	now := func() time.Time { return time.Unix(1_800_000_000, 0) }
	resource := &auth.ProtectedResource{URI: self, Issuers: []string{i.URL}, Verifier: &jwt.Verifier{Issuers: []string{i.URL}, Now: now}, Now: now}
	maker := newTokenMaker(t, i)
	for _, c := range corpus.Cases(t, "rules/tokens") {
		text := string(c.Bytes(t, maker.fragments))
		// A case of several lines is the parts of the token.
		if strings.Contains(c.Input, "\n") {
			text = maker.token(t, c)
		}
		r := httptest.NewRequest(http.MethodPost, self, nil)
		r.Header["Authorization"] = []string{"Bearer " + text}
		response := make(http.Header)
		info, rejection := resource.Authenticate(response, r)
		got := "200"
		if rejection != nil {
			got = strconv.Itoa(rejection.Status)
		}
		if got != c.Want() || (info == nil) != (rejection != nil) {
			t.Errorf("%s: %s: %s, want %s (%+v)", c.Place, c.Name, got, c.Want(), rejection)
		}
		if challenge := response.Get("WWW-Authenticate"); got == "401" && !strings.Contains(challenge, `error="invalid_token"`) {
			t.Errorf("%s: %s: challenge %s", c.Place, c.Name, challenge)
		}
	}
}

// tokenMaker signs the tokens of the cases.
type tokenMaker struct {
	own, other *signingKey
	fragments  map[string]string
}

func newTokenMaker(t *testing.T, i *issuer) *tokenMaker {
	m := &tokenMaker{own: i.key.Load(), other: newKey(t, "k1")}
	jwk, err := json.Marshal(jose.JSONWebKey{Key: &m.other.private.PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	m.fragments = map[string]string{"iss": i.URL, "other key": string(jwk)}
	header := m.members("header", `"alg":"ES256"`, `"kid":"k1"`, `"typ":"at+jwt"`)
	claims := m.members("claims", `"iss":"`+i.URL+`"`, `"sub":"ada"`, `"client_id":"editor"`, `"scope":"read"`, `"aud":"`+self+`"`, `"iat":1800000000`, `"exp":1800003600`)
	parts := strings.Split(m.sign(t, "{"+header+"}", "{"+claims+"}", ""), ".")
	m.fragments["head"], m.fragments["body"], m.fragments["signature"] = parts[0], parts[1], parts[2]
	return m
}

// members defines the fragments of an object with the given members: all, and all without one.
func (m *tokenMaker) members(name string, members ...string) string {
	for n, member := range members {
		without := slices.Delete(slices.Clone(members), n, n+1)
		m.fragments[name+" without "+strings.Split(member, `"`)[1]] = strings.Join(without, ",")
	}
	m.fragments[name] = strings.Join(members, ",")
	return m.fragments[name]
}

// token returns the token of a case. The lines are separated before the expressions in them are replaced, which may contain
// line breaks.
func (m *tokenMaker) token(t *testing.T, c corpus.Case) string {
	var parts [3]string
	for n, line := range strings.Split(c.Input, "\n") {
		part := c
		part.Input = line
		parts[n] = string(part.Bytes(t, m.fragments))
	}
	return m.sign(t, parts[0], parts[1], parts[2])
}

func (m *tokenMaker) sign(t *testing.T, header, claims, how string) string {
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(header)) + "." + encode([]byte(claims))
	key := m.own
	switch how {
	case "unsigned":
		return signed + "."
	case "hmac":
		secret, err := m.own.private.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(signed))
		return signed + "." + encode(mac.Sum(nil))
	case "other key":
		key = m.other
	}
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key.private, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + encode(signature)
}
