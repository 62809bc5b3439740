package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
)

// tokenServer is an MCP server and its issuer.
type tokenServer struct {
	*httptest.Server
	key     *ecdsa.PrivateKey
	accepts bool // any token
	keyless bool // the metadata of the issuer names no keys
	second  bool // the server names another issuer first
}

func newTokenServer(t *testing.T) *tokenServer {
	s := &tokenServer{key: must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	encode := base64.RawURLEncoding.EncodeToString
	switch r.URL.Path {
	case "/mcp":
		if s.accepts && r.Header.Get("Authorization") != "" {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":2,"result":{}}`)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer scope="read", resource_metadata="`+s.URL+`/resource"`)
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"the reason of the server"}}`)
	case "/resource":
		first := ""
		if s.second {
			first = fmt.Sprintf("%q,", s.URL+"/first")
		}
		fmt.Fprintf(w, `{"resource":"%[1]s/mcp","authorization_servers":[%s%[1]q]}`, s.URL, first)
	case "/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/first":
		path := strings.TrimPrefix(r.URL.Path, "/.well-known/oauth-authorization-server")
		keys := ""
		if !s.keyless {
			keys = fmt.Sprintf(`,"jwks_uri":"%s/keys"`, s.URL)
		}
		fmt.Fprintf(w, `{"issuer":%[1]q,"authorization_endpoint":"%[1]s/a","token_endpoint":"%[1]s/t",`+
			`"code_challenge_methods_supported":["S256"]%s}`, s.URL+path, keys)
	case "/keys":
		point, _ := s.key.PublicKey.Bytes() // cannot fail: the curve is supported
		fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","kid":"k","x":%q,"y":%q}]}`, encode(point[1:33]),
			encode(point[33:]))
	default:
		http.NotFound(w, r)
	}
}

// sign returns a token.
func sign(t *testing.T, key *ecdsa.PrivateKey, header, claims map[string]any) string {
	part := func(v any) string { return base64.RawURLEncoding.EncodeToString(must.Get(json.Marshal(v))(t)) }
	signed := part(header) + "." + part(claims)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	must.Do(t, err)
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// Each check of a token has a line with its result, and what to do, whether the server accepts the token or not. No line
// has the token.
func TestEachCheckOfATokenHasItsResult(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		change func(s *tokenServer, header, claims map[string]any) (key *ecdsa.PrivateKey)
		want   []string // the findings that are not ok
	}{
		"valid": {nil, nil},
		"of the second issuer": {func(s *tokenServer, _, _ map[string]any) *ecdsa.PrivateKey {
			s.second = true
			return nil
		}, nil},
		"of Keycloak": {func(_ *tokenServer, h, c map[string]any) *ecdsa.PrivateKey {
			h["typ"], c["typ"], c["azp"] = "JWT", "Bearer", "editor"
			return nil
		}, []string{"problem type: the type of the token is not that of an access token",
			"this is a token of Keycloak", "on the server: add --auth profile=keycloak"}},
		"of Keycloak, and accepted": {func(s *tokenServer, h, c map[string]any) *ecdsa.PrivateKey {
			h["typ"], c["typ"], c["azp"], s.accepts = "JWT", "Bearer", "editor", true
			return nil
		}, []string{"ok type: an access token by the profile keycloak"}},
		"an ID token": {func(_ *tokenServer, h, c map[string]any) *ecdsa.PrivateKey {
			h["typ"], c["nonce"], c["aud"] = "JWT", "n", "client"
			return nil
		}, []string{"problem type: ", "ID token", "problem audience: the token is for client, not for "}},
		"for another server": {func(_ *tokenServer, _, c map[string]any) *ecdsa.PrivateKey {
			c["aud"] = []string{"https://other.example/mcp", "b"}
			return nil
		}, []string{"problem audience: the token is for https://other.example/mcp, b, not for ", "--auth audience=https://other"}},
		"for its ID, and accepted": {func(s *tokenServer, _, c map[string]any) *ecdsa.PrivateKey {
			c["aud"], s.accepts = "api://app", true
			return nil
		}, []string{"note audience: the token is for api://app, not for ", "; the server accepts it all the same -> \n"}},
		"without audience": {func(_ *tokenServer, _, c map[string]any) *ecdsa.PrivateKey {
			delete(c, "aud")
			return nil
		}, []string{"problem audience: the token has no audience"}},
		"of another issuer": {func(_ *tokenServer, _, c map[string]any) *ecdsa.PrivateKey {
			c["iss"] = "https://other.example"
			return nil
		}, []string{"problem issuer: the token is of https://other.example, but the server names http", "run parley login",
			"note signature: not checked"}},
		"without issuer": {func(_ *tokenServer, _, c map[string]any) *ecdsa.PrivateKey {
			delete(c, "iss")
			return nil
		}, []string{"problem issuer: the token names no issuer"}},
		"with a key that is gone": {func(_ *tokenServer, h, _ map[string]any) *ecdsa.PrivateKey {
			h["kid"] = "gone"
			return nil
		}, []string{"problem keys: found, but none of them has signed the token -> run parley login"}},
		"with another key": {func(*tokenServer, map[string]any, map[string]any) *ecdsa.PrivateKey {
			return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		}, []string{"problem signature: the signature of the token is invalid"}},
		"not signed": {func(_ *tokenServer, h, _ map[string]any) *ecdsa.PrivateKey {
			h["alg"] = "none"
			return nil
		}, []string{"problem signature: "}},
		"signed with a secret": {func(_ *tokenServer, h, _ map[string]any) *ecdsa.PrivateKey {
			h["alg"] = "HS256"
			return nil
		}, []string{"problem signature: ", "HS256"}},
		"without keys at the issuer": {func(s *tokenServer, _, _ map[string]any) *ecdsa.PrivateKey {
			s.keyless = true
			return nil
		}, []string{"problem keys: the keys of the issuer cannot be found", "jwks_uri"}},
		"expired": {func(_ *tokenServer, _, c map[string]any) *ecdsa.PrivateKey {
			c["exp"] = now.Add(-time.Hour).Unix()
			return nil
		}, []string{"problem expiry: the token has expired at ", "run parley login", "ok signature: valid",
			"ok type: "}},
		"not valid yet": {func(_ *tokenServer, _, c map[string]any) *ecdsa.PrivateKey {
			c["nbf"] = now.Add(30 * time.Minute).Unix()
			return nil
		}, []string{"problem expiry: the token is not valid before ", "clock", "ok type: "}},
		"without expiry": {func(_ *tokenServer, _, c map[string]any) *ecdsa.PrivateKey {
			delete(c, "exp")
			return nil
		}, []string{"problem expiry: the token has no expiry time", "note signature: not checked"}},
		"without a scope": {func(_ *tokenServer, _, c map[string]any) *ecdsa.PrivateKey {
			c["scope"] = "write"
			return nil
		}, []string{"problem scopes: the token does not have the scopes read -> run parley login --scope read "}},
		"with scopes of Entra": {func(_ *tokenServer, _, c map[string]any) *ecdsa.PrivateKey {
			delete(c, "scope")
			c["scp"] = "read write"
			return nil
		}, nil},
		"bound to a key": {func(_ *tokenServer, _, c map[string]any) *ecdsa.PrivateKey {
			c["cnf"] = map[string]any{"jkt": "thumbprint"}
			return nil
		}, []string{"problem binding: "}},
	} {
		s := newTokenServer(t)
		header := map[string]any{"alg": "ES256", "typ": "at+jwt", "kid": "k"}
		claims := map[string]any{"iss": s.URL, "sub": "ada", "aud": s.URL + "/mcp", "client_id": "editor", "scope": "read",
			"exp": now.Add(time.Hour).Unix(), "iat": now.Add(-2 * time.Hour).Unix(), "jti": "1"}
		key := s.key
		s.accepts = tc.want == nil
		if tc.change != nil {
			if other := tc.change(s, header, claims); other != nil {
				key = other
			}
		}
		token := sign(t, key, header, claims)
		var findings []string
		e := &Examination{Target: &client.HTTPTarget{URL: s.URL + "/mcp",
			Header: http.Header{"Authorization": {"Bearer " + token}}}}
		e.Report = func(f Finding) {
			findings = append(findings, fmt.Sprintf("%s %s: %s -> %s", f.Level, f.Check, f.Text, f.Fix))
		}
		e.ExplainToken(t.Context())
		text := strings.Join(findings, "\n")
		for _, want := range tc.want {
			must.CheckContains(t, text, want, name)
		}
		verdict := "ok token: the server accepts the token"
		if !s.accepts {
			verdict = "problem token: the server rejects the token with status 401: the reason of the server"
		}
		must.CheckContains(t, text, verdict, name)
		must.CheckThat(t, tc.want != nil || !strings.Contains(text, "problem") && !strings.Contains(text, "note") &&
			len(findings) == 8, "%s: %s", name, text)
		for _, secret := range strings.Split(token, ".") {
			must.CheckThat(t, !strings.Contains(text, secret), "%s: a part of the token is shown: %s", name, text)
		}
	}
}

func TestOpaqueAndMissingTokensAreExplained(t *testing.T) {
	s := newTokenServer(t)
	s.accepts = true
	for header, want := range map[string]string{
		"Bearer opaque":    "note token: is opaque: only its issuer",
		"Bearer a.b.c":     "note token: is opaque",
		"Bearer e30.W10.x": "note token: is opaque",
		"":                 "problem token: there is no token that is valid -> run parley login",
		"Basic YTpi":       "problem token: there is no token that is valid",
	} {
		var findings []string
		e := &Examination{Target: &client.HTTPTarget{URL: s.URL + "/mcp",
			Header: http.Header{"Authorization": {header}}}}
		e.Report = func(f Finding) {
			findings = append(findings, fmt.Sprintf("%s %s: %s -> %s", f.Level, f.Check, f.Text, f.Fix))
		}
		e.ExplainToken(t.Context())
		must.CheckContains(t, strings.Join(findings, "\n"), want, header)
	}
}
