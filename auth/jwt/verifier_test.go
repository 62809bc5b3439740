package jwt_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/must"
)

func TestVerifyReturnsTheClaims(t *testing.T) {
	i := newIssuer(t)
	v := &jwt.Verifier{Issuers: []string{i.URL}}
	claims := i.claims()
	claims["tenant"] = object{"id": 7}
	info := must.Get(v.Verify(t.Context(), i.token(claims)))(t)
	p := info.Principal
	must.CheckThat(t, p.Issuer() == i.URL && p.Subject() == "ada" && p.Client() == "editor", "principal %v", p)
	must.CheckThat(t, strings.Join(info.Scopes, " ") == "mcp:read mcp:write" && len(info.Audience) == 1 &&
		info.Audience[0] == self && time.Until(info.Expiry) >= 50*time.Minute,
		"%v, audience %v, expiry %v", info.Scopes, info.Audience, info.Expiry)
	tenant, ok := info.Claim("tenant")
	must.CheckThat(t, ok && string(tenant) == `{"id":7}`, "claim tenant: %s", tenant)
	_, ok = info.Claim("nothing")
	must.CheckThat(t, !ok, "Claim returned a claim that the token does not have")
}

func TestVerifyReadsScopeAndScp(t *testing.T) {
	i := newIssuer(t)
	v := &jwt.Verifier{Issuers: []string{i.URL}}
	for name, claim := range map[string]object{
		"scp as an array": {"scope": nil, "scp": []string{"a", "b"}},
		"scp as a string": {"scope": nil, "scp": "a b"},
		"both":            {"scope": "a b", "scp": []string{"c"}},
	} {
		info := must.Get(v.Verify(t.Context(), i.token(with(i.claims(), claim))))(t)
		must.CheckEqual(t, strings.Join(info.Scopes, " "), "a b", name, info)
	}
}

// Rules R1, R2: a token with any defect is invalid.
func TestDefectiveTokensAreInvalid(t *testing.T) {
	i := newIssuer(t)
	now := time.Now()
	good := i.claims()
	bearer := i.token(good)
	parts := strings.Split(bearer, ".")
	other := newKey(t, "k1")
	secret, _ := i.key.Load().private.PublicKey.ECDH()
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	jwk, _ := json.Marshal(jose.JSONWebKey{Key: &other.private.PublicKey})
	for name, token := range map[string]string{
		"empty":                    "",
		"not a JWS":                "abc",
		"four parts":               bearer + ".x",
		"two parts":                parts[0] + "." + parts[1],
		"no signature":             parts[0] + "." + parts[1] + ".",
		"flipped bit":              parts[0] + "." + parts[1] + "." + flip(parts[2]),
		"changed payload":          parts[0] + "." + encode(`{"iss":"`+i.URL+`"}`) + "." + parts[2],
		"line break":               bearer + "\n",
		"padding":                  bearer + "=",
		"alg none":                 encode(`{"alg":"none","typ":"at+jwt"}`) + "." + parts[1] + ".",
		"no alg":                   encode(`{"typ":"at+jwt"}`) + "." + parts[1] + "." + parts[2],
		"two algs":                 encode(`{"alg":"ES256","alg":"none","typ":"at+jwt"}`) + "." + parts[1] + ".",
		"HMAC with the public key": sign(t, jose.HS256, secret.Bytes(), good, object{"typ": "at+jwt", "kid": "k1"}),
		"algorithm of another key": sign(t, jose.EdDSA, ed25519.NewKeyFromSeed(make([]byte, 32)), good,
			object{"typ": "at+jwt", "kid": "k1"}),
		"key of another issuer": sign(t, jose.ES256, other.private, good, object{"typ": "at+jwt", "kid": "k1"}),
		"embedded key": sign(t, jose.ES256, other.private, good,
			object{"typ": "at+jwt", "jwk": json.RawMessage(jwk)}),
		"jku": sign(t, jose.ES256, other.private, good,
			object{"typ": "at+jwt", "jku": i.URL + "/other", "kid": "k1"}),
		"unknown kid":            i.token(good, object{"kid": "k9"}),
		"kid is a path":          i.token(good, object{"kid": "../../../dev/null"}),
		"kid is SQL":             i.token(good, object{"kid": "k1' OR '1'='1"}),
		"kid is too long":        i.token(good, object{"kid": strings.Repeat("k", 600)}),
		"critical extensions":    i.token(good, object{"crit": []string{"exp"}}),
		"ID token":               i.token(good, object{"typ": "JWT"}),
		"DPoP proof":             i.token(good, object{"typ": "dpop+jwt"}),
		"unknown issuer":         i.token(with(good, object{"iss": "https://evil.example"})),
		"issuer with a slash":    i.token(with(good, object{"iss": i.URL + "/"})),
		"no issuer":              i.token(with(good, object{"iss": nil})),
		"no subject":             i.token(with(good, object{"sub": nil})),
		"numeric subject":        i.token(with(good, object{"sub": 7})),
		"no expiry":              i.token(with(good, object{"exp": nil})),
		"expired":                i.token(with(good, object{"exp": now.Add(-time.Minute).Unix()})),
		"expiry is a string":     i.token(with(good, object{"exp": "tomorrow"})),
		"expiry overflows":       i.token(with(good, object{"exp": 1e300})),
		"not valid yet":          i.token(with(good, object{"nbf": now.Add(time.Minute).Unix()})),
		"issued in the future":   i.token(with(good, object{"iat": now.Add(time.Minute).Unix()})),
		"bound to a certificate": i.token(with(good, object{"cnf": object{"x5t#S256": "abc"}})),
		"empty key thumbprint":   i.token(with(good, object{"cnf": object{"jkt": ""}})),
		"numeric audience":       i.token(with(good, object{"aud": []int{1}})),
		"null in the audiences":  i.token(with(good, object{"aud": []any{self, nil}})),
		"null in the scopes":     i.token(with(good, object{"scope": nil, "scp": []any{"a", nil}})),
		"too many audiences":     i.token(with(good, object{"aud": strings.Split(strings.Repeat("a,", 100), ",")})),
		"too long":               i.token(with(good, object{"x": strings.Repeat("x", 17<<10)})),
		"control characters":     i.token(with(good, object{"sub": "a\nb"})),
	} {
		v := &jwt.Verifier{Issuers: []string{i.URL}}
		info, err := v.Verify(t.Context(), token)
		var invalid *auth.InvalidTokenError
		must.CheckThat(t, errors.As(err, &invalid) && info == nil, "%s: %v, %v", name, info, err)
		must.CheckThat(t, len(token) <= 20 || err == nil || !strings.Contains(err.Error(), token[len(token)-20:]),
			"%s: the error contains the token: %v", name, err)
	}
	must.Check(t, must.Err((&jwt.Verifier{Issuers: []string{i.URL}}).Verify(t.Context(), bearer)))
	open := i.token(with(good, object{"aud": nil}))
	info := must.Get((&jwt.Verifier{Issuers: []string{i.URL}}).Verify(t.Context(), open))(t)
	must.CheckThat(t, info.Audience != nil, "a token without audience, for no server: %v", info)
}

func flip(signature string) string {
	raw, _ := base64.RawURLEncoding.DecodeString(signature)
	raw[5] ^= 1
	return base64.RawURLEncoding.EncodeToString(raw)
}

func TestVerifyAllowsForClockSkew(t *testing.T) {
	i := newIssuer(t)
	now := time.Now()
	v := &jwt.Verifier{Issuers: []string{i.URL}}
	for name, change := range map[string]object{
		"expired just now": {"exp": now.Add(-5 * time.Second).Unix()},
		"issued a little in the future": {"nbf": now.Add(5 * time.Second).Unix(),
			"iat": now.Add(5 * time.Second).Unix()},
		"fractional expiry": {"exp": float64(now.Unix()) + 100.5},
	} {
		must.Check(t, must.Err(v.Verify(t.Context(), i.token(with(i.claims(), change)))), name)
	}
}

func TestVerifySupportsAsymmetricAlgorithms(t *testing.T) {
	rsaKey := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	weak := must.Get(rsa.GenerateKey(rand.Reader, 1024))(t)
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	var set jose.JSONWebKeySet
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/jwk-set+json")
		_ = json.NewEncoder(w).Encode(set)
	}))
	defer keys.Close()
	i := newIssuer(t)
	set.Keys = []jose.JSONWebKey{
		{Key: &rsaKey.PublicKey, KeyID: "rsa"}, {Key: edKey.Public(), KeyID: "ed"},
		{Key: &weak.PublicKey, KeyID: "weak"},
		{Key: &rsaKey.PublicKey, KeyID: "ps only", Algorithm: "PS256"},
		{Key: &rsaKey.PublicKey, KeyID: "enc", Use: "enc"},
	}
	v := &jwt.Verifier{Issuers: []string{i.URL}, KeysURL: keys.URL}
	for _, tc := range []struct {
		alg jose.SignatureAlgorithm
		key any
		id  string
		ok  bool
	}{
		{jose.RS256, rsaKey, "rsa", true}, {jose.RS384, rsaKey, "rsa", true}, {jose.RS512, rsaKey, "rsa", true},
		{jose.PS256, rsaKey, "rsa", true}, {jose.PS384, rsaKey, "rsa", true}, {jose.PS512, rsaKey, "rsa", true},
		{jose.EdDSA, edKey, "ed", true}, {jose.RS256, weak, "weak", false}, {jose.RS256, rsaKey, "ps only", false},
		{jose.PS256, rsaKey, "ps only", true}, {jose.RS256, rsaKey, "enc", false},
	} {
		_, err := v.Verify(t.Context(), sign(t, tc.alg, tc.key, i.claims(),
			object{"typ": "application/at+JWT", "kid": tc.id}))
		must.CheckEqual(t, err == nil, tc.ok, tc.alg, tc.id, err)
	}
	// The kid is optional.
	must.Check(t, must.Err(v.Verify(t.Context(), sign(t, jose.EdDSA, edKey, i.claims(), object{"typ": "at+jwt"}))))
}

// A hundred concurrent requests with a new key cause one fetch, and tokens with invented key ids cause none.
func TestKeyRotationCausesOneFetch(t *testing.T) {
	i := newIssuer(t)
	var mu sync.Mutex
	now := time.Now()
	v := &jwt.Verifier{Issuers: []string{i.URL}, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}}
	later := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	concurrently := func(token string) (failed int) {
		var wg sync.WaitGroup
		errs := make([]error, 100)
		for n := range errs {
			wg.Go(func() { _, errs[n] = v.Verify(t.Context(), token) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				failed++
			}
		}
		return failed
	}
	if failed, n := concurrently(i.token(i.claims())), i.fetches.Load(); failed > 0 || n != 1 {
		t.Errorf("first fetch: %d failed, %d fetches", failed, n)
	}
	later(11 * time.Second)
	i.key.Store(newKey(t, "k2"))
	if failed, n := concurrently(i.token(i.claims())), i.fetches.Load(); failed > 0 || n != 2 {
		t.Errorf("after the rotation: %d failed, %d fetches in all", failed, n)
	}
	forged := newKey(t, "forged")
	for range 10 {
		_, err := v.Verify(t.Context(), sign(t, jose.ES256, forged.private, i.claims(),
			object{"typ": "at+jwt", "kid": rand.Text()}))
		var invalid *auth.InvalidTokenError
		must.That(t, errors.As(err, &invalid), "%v", err)
	}
	n := i.fetches.Load()
	must.CheckEqual(t, n, 2, "invented key ids caused", n-2)
	// If a fetch fails, cached keys are used for another hour.
	i.broken.Store(true)
	later(61 * time.Minute)
	long := i.token(with(i.claims(), object{"exp": now.Add(24 * time.Hour).Unix()}))
	must.Check(t, must.Err(v.Verify(t.Context(), long)))
	later(time.Hour)
	must.CheckIs(t, must.Err(v.Verify(t.Context(), long)), auth.ErrUnavailable)
	i.broken.Store(false)
	later(11 * time.Second)
	must.Check(t, must.Err(v.Verify(t.Context(), long)), "after the issuer has recovered")
}

// An issuer that is restarted, for instance in development, may give its new key the old ID.
func TestAChangedKeyWithTheSameIDIsFetched(t *testing.T) {
	i := newIssuer(t)
	now := time.Now()
	v := &jwt.Verifier{Issuers: []string{i.URL}, Now: func() time.Time { return now }}
	verifies := func(token string, valid bool, fetches int32) {
		t.Helper()
		if _, err := v.Verify(t.Context(), token); (err == nil) != valid || i.fetches.Load() != fetches {
			t.Errorf("%v after %d fetches, want %d", err, i.fetches.Load(), fetches)
		}
	}
	old := i.token(i.claims())
	verifies(old, true, 1)
	i.key.Store(newKey(t, i.key.Load().id))
	renewed := i.token(i.claims())
	verifies(renewed, false, 1) // the last fetch was a moment ago
	now = now.Add(11 * time.Second)
	verifies(renewed, true, 2)
	verifies(renewed, true, 2)
	verifies(old, false, 2) // forged tokens cause one fetch in 10 seconds
	now = now.Add(11 * time.Second)
	verifies(old, false, 3)
	verifies(renewed, true, 3)
}

func TestIssuerMetadataLocations(t *testing.T) {
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
		i := newIssuer(t)
		i.metadata = path
		must.Check(t, must.Err((&jwt.Verifier{Issuers: []string{i.URL}}).Verify(t.Context(), i.token(i.claims()))),
			path)
	}
	for _, path := range []string{"/.well-known/oauth-authorization-server/a", "/.well-known/openid-configuration/a",
		"/a/.well-known/openid-configuration"} {
		i := newIssuer(t)
		i.metadata = path
		i.document = func(base string) map[string]any { return object{"issuer": base + "/a"} }
		must.Check(t, must.Err((&jwt.Verifier{Issuers: []string{i.URL + "/a"}}).Verify(t.Context(),
			i.token(with(i.claims(), object{"iss": i.URL + "/a"})))), path)
	}
}

func TestUnavailableKeysDoNotInvalidateTokens(t *testing.T) {
	elsewhere := newIssuer(t)
	for name, breakIssuer := range map[string]func(*issuer){
		"HTTP status 500": func(i *issuer) { i.broken.Store(true) },
		"no metadata":     func(i *issuer) { i.metadata = "/nowhere" },
		"metadata of another issuer": func(i *issuer) {
			i.document = func(string) map[string]any { return object{"issuer": "https://evil.example"} }
		},
		"no jwks_uri": func(i *issuer) { i.document = func(string) map[string]any { return object{"jwks_uri": ""} } },
		"jwks_uri over http": func(i *issuer) {
			i.document = func(string) map[string]any { return object{"jwks_uri": "http://keys.example/"} }
		},
		"jwks_uri is a file URL": func(i *issuer) {
			i.document = func(string) map[string]any { return object{"jwks_uri": "file:///etc/keys"} }
		},
		"jwks_uri is not a key set": func(i *issuer) {
			i.document = func(base string) map[string]any { return object{"jwks_uri": base + i.metadata} }
		},
	} {
		i := newIssuer(t)
		breakIssuer(i)
		_, err := (&jwt.Verifier{Issuers: []string{i.URL}}).Verify(t.Context(), i.token(i.claims()))
		must.CheckIs(t, err, auth.ErrUnavailable, name)
	}
	redirecting := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/keys", http.StatusFound))
	defer redirecting.Close()
	i := newIssuer(t)
	v := &jwt.Verifier{Issuers: []string{i.URL}, KeysURL: redirecting.URL}
	_, err := v.Verify(t.Context(), i.token(i.claims()))
	must.CheckThat(t, errors.Is(err, auth.ErrUnavailable) && elsewhere.fetches.Load() <= 0,
		"a redirect to another origin was followed: %v", err)
	large := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"keys":[` + strings.Repeat(" ", 600<<10) + `]}`))
	}))
	defer large.Close()
	v = &jwt.Verifier{Issuers: []string{i.URL}, KeysURL: large.URL}
	must.CheckFails(t, must.Err(v.Verify(t.Context(), i.token(i.claims()))), "longer than", "a document of 600 KiB")
}

func TestCheckRejectsInsecureIssuers(t *testing.T) {
	for _, v := range []*jwt.Verifier{
		{}, {Issuers: []string{""}}, {Issuers: []string{"http://as.example.com"}},
		{Issuers: []string{"https://as.example.com?x"}},
		{Issuers: []string{"https://as.example.com#x"}}, {Issuers: []string{"https://u:p@as.example.com"}},
		{Issuers: []string{"as.example.com"}},
		{Issuers: []string{"https://a.example", "https://b.example"}, KeysURL: "https://a.example/keys"},
		{Issuers: []string{"https://a.example"}, KeysURL: "http://a.example/keys"},
	} {
		err := v.Check()
		must.CheckThat(t, err != nil, "%q, %q is accepted", v.Issuers, v.KeysURL)
	}
	for _, issuer := range []string{"https://as.example.com", "https://as.example.com/tenant", "http://127.0.0.1:1",
		"http://[::1]:1", "http://localhost"} {
		must.Check(t, (&jwt.Verifier{Issuers: []string{issuer}}).Check(), issuer)
	}
}

// FuzzJWT signs any header and claims with the issuer's key, and can change the token afterwards. A token that Verify
// accepts has a signature that another library accepts, the algorithm of the key, the type of an access token, the
// issuer, a subject, and an expiry that has not passed. The audience comes from the claims. The key and the time are
// fixed, so that fuzzing can run in several processes.
func FuzzJWT(f *testing.F) {
	const now = 1000
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	}))
	defer keys.Close()
	v := &jwt.Verifier{Issuers: []string{"https://as.example.com"}, KeysURL: keys.URL,
		Now: func() time.Time { return time.Unix(now, 0) }}
	token := func(header, claims string) string {
		input := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." +
			base64.RawURLEncoding.EncodeToString([]byte(claims))
		return input + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(input)))
	}
	const header, claims = `{"alg":"EdDSA","typ":"at+jwt","kid":"k"}`,
		`{"iss":"https://as.example.com","sub":"ada","aud":["a","b"],"exp":2000,"nbf":900,"iat":900}`
	must.Get(v.Verify(f.Context(), token(header, claims)))(f)
	for _, h := range []string{header, `{"alg":"none","typ":"at+jwt","kid":"k"}`,
		`{"alg":"HS256","typ":"at+jwt","kid":"k"}`, `{"alg":"EdDSA","typ":"JWT"}`,
		`{"alg":"EdDSA","alg":"none","typ":"at+jwt"}`, `{"alg":"EdDSA","typ":"application/at+jwt","crit":["exp"]}`} {
		f.Add(h, claims, 0, byte(0))
	}
	for _, c := range []string{`{"iss":"https://as.example.com","sub":"ada","exp":970}`,
		`{"iss":"https://as.example.com","sub":"ada","exp":1e3,"exp":2000}`,
		`{"iss":"https://as.example.com","sub":"ada","Exp":2000}`,
		`{"iss":"https://as.example.com","sub":"ada","exp":"2000"}`,
		`{"iss":"https://as.example.com","sub":"ada","aud":"a","exp":2e3,"nbf":1031}`, `{}`} {
		f.Add(header, c, 0, byte(0))
	}
	f.Add(header, claims, 60, byte(1))
	f.Fuzz(func(t *testing.T, header, claims string, at int, flip byte) {
		text := []byte(token(header, claims))
		text[max(at, 0)%len(text)] ^= flip
		info, err := v.Verify(t.Context(), string(text))
		if err != nil {
			return
		}
		must.Equal(t, flip, 0, header, claims, text)
		parsed, err := jose.ParseSignedCompact(string(text), []jose.SignatureAlgorithm{jose.EdDSA})
		must.Do(t, err, info, text)
		must.Do(t, must.Err(parsed.Verify(key.Public())), info, text)
		var h, c map[string]any
		must.That(t, json.Unmarshal([]byte(header), &h) == nil && json.Unmarshal([]byte(claims), &c) == nil,
			"%q and %q are accepted", header, claims)
		kind, _ := h["typ"].(string)
		kind = strings.ToLower(kind)
		must.That(t, h["alg"] == "EdDSA" && (kind == "at+jwt" || kind == "application/at+jwt") && h["crit"] == nil,
			"a token with header %q is accepted", header)
		expiry, _ := c["exp"].(float64)
		before, _ := c["nbf"].(float64)
		issued, _ := c["iat"].(float64)
		subject, _ := c["sub"].(string)
		if c["iss"] != "https://as.example.com" || expiry+30 <= now || before-30 > now || issued-30 > now ||
			subject == "" || info.Principal.Subject() != subject {
			t.Fatalf("a token with claims %q is accepted", claims)
		}
		var audience []string
		switch aud := c["aud"].(type) {
		case string:
			audience = []string{aud}
		case []any:
			for _, a := range aud {
				s, _ := a.(string)
				audience = append(audience, s)
			}
		}
		must.That(t, slices.Equal(info.Audience, audience),
			"a token with claims %q has the audience %q", claims, info.Audience)
	})
}

// If keys cannot be fetched, the error keeps the cause of the failed connection and its text.
func TestErrorsKeepTheCauseOfAFailedFetch(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	gone := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	gone.Close()
	i := newIssuer(t)
	for keys, test := range map[string]struct {
		text  string
		found func(error) bool
	}{
		untrusted.URL: {"x509: certificate signed by unknown authority",
			func(err error) bool { return errors.As(err, new(x509.UnknownAuthorityError)) }},
		"http://" + gone.Addr().String(): {"connection refused",
			func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		"https://keys.invalid/": {"lookup keys.invalid",
			func(err error) bool { return errors.As(err, new(*net.DNSError)) }},
	} {
		v := &jwt.Verifier{Issuers: []string{i.URL}, KeysURL: keys}
		for range 2 { // the second call returns the error of the first fetch
			_, err := v.Verify(t.Context(), i.token(i.claims()))
			must.CheckThat(t, errors.Is(err, auth.ErrUnavailable) && strings.Contains(err.Error(), test.text) &&
				test.found(err), "%s: %v, want the cause %q", keys, err, test.text)
		}
	}
}

// Rules R1, R2: the tokens reach the verifier through the handler of a protected resource.
func TestTokensOfTheCorpusAreJudgedAsRecorded(t *testing.T) {
	i := newIssuer(t)
	now := func() time.Time { return time.Unix(1_800_000_000, 0) }
	resource := &auth.ProtectedResource{URI: self, Issuers: []string{i.URL},
		Verifier: &jwt.Verifier{Issuers: []string{i.URL}, Now: now}, Now: now}
	maker := newTokenMaker(t, i)
	for _, c := range corpus.Cases(t, "rules/tokens") {
		text := string(c.Bytes(t, maker.fragments))
		// A case of several lines contains the parts of the token.
		if strings.Contains(c.Input, "\n") {
			text = maker.token(t, c)
		}
		r := httptest.NewRequest(http.MethodPost, self, nil)
		r.Header["Authorization"] = []string{"Bearer " + text}
		response := make(http.Header)
		info, err := resource.Authenticate(response, r)
		rejection, _ := errors.AsType[*auth.Rejection](err)
		got := "200"
		if rejection != nil {
			got = strconv.Itoa(rejection.Status)
		}
		if got != c.Want() || (info == nil) != (rejection != nil) {
			t.Errorf("%s: %s: %s, want %s (%+v)", c.Place, c.Name, got, c.Want(), rejection)
		}
		challenge := response.Get("WWW-Authenticate")
		must.CheckThat(t, got != "401" || strings.Contains(challenge, `error="invalid_token"`),
			"%s: %s: challenge %s", c.Place, c.Name, challenge)
	}
}

// tokenMaker signs the tokens of the cases.
type tokenMaker struct {
	own, other *signingKey
	fragments  map[string]string
}

func newTokenMaker(t *testing.T, i *issuer) *tokenMaker {
	m := &tokenMaker{own: i.key.Load(), other: newKey(t, "k1")}
	jwk := must.Get(json.Marshal(jose.JSONWebKey{Key: &m.other.private.PublicKey}))(t)
	m.fragments = map[string]string{"iss": i.URL, "other key": string(jwk)}
	header := m.members("header", `"alg":"ES256"`, `"kid":"k1"`, `"typ":"at+jwt"`)
	claims := m.members("claims", `"iss":"`+i.URL+`"`, `"sub":"ada"`, `"client_id":"editor"`, `"scope":"read"`,
		`"aud":"`+self+`"`, `"iat":1800000000`, `"exp":1800003600`)
	parts := strings.Split(m.sign(t, "{"+header+"}", "{"+claims+"}", ""), ".")
	m.fragments["head"], m.fragments["body"], m.fragments["signature"] = parts[0], parts[1], parts[2]
	return m
}

// members defines fragments of an object with the given keys: with all of them, and with each one left out.
func (m *tokenMaker) members(name string, members ...string) string {
	for n, member := range members {
		without := slices.Delete(slices.Clone(members), n, n+1)
		m.fragments[name+" without "+strings.Split(member, `"`)[1]] = strings.Join(without, ",")
	}
	m.fragments[name] = strings.Join(members, ",")
	return m.fragments[name]
}

// token returns the token of a case. The lines are split before the expressions in them are replaced, because an
// expression may produce line breaks.
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
		secret := must.Get(m.own.private.PublicKey.Bytes())(t)
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(signed))
		return signed + "." + encode(mac.Sum(nil))
	case "other key":
		key = m.other
	}
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key.private, digest[:])
	must.Do(t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + encode(signature)
}
