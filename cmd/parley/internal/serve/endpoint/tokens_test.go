package endpoint

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

// authorizationServer signs tokens. Each of its paths is an issuer.
type authorizationServer struct {
	*httptest.Server
	key    *ecdsa.PrivateKey
	active map[string]any // the response of introspection to the token "opaque"
}

func newAuthorizationServer(t *testing.T) *authorizationServer {
	i := &authorizationServer{key: must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *authorizationServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var document any
	name, isMetadata := strings.CutPrefix(r.URL.Path, "/.well-known/oauth-authorization-server")
	id, secret, _ := r.BasicAuth()
	switch {
	case isMetadata:
		document = map[string]any{"issuer": i.URL + name, "jwks_uri": i.URL + "/keys"}
	case r.URL.Path == "/keys":
		point, _ := i.key.PublicKey.Bytes()
		document = map[string]any{"keys": []any{map[string]any{"kty": "EC", "crv": "P-256", "kid": "k",
			"x": base64.RawURLEncoding.EncodeToString(point[1:33]),
			"y": base64.RawURLEncoding.EncodeToString(point[33:])}}}
	case r.URL.Path == "/introspect" && id == "mcp" && secret == "s3cret" && r.PostFormValue("token") == "opaque",
		r.URL.Path == "/tokeninfo" && r.Header.Get("Authorization") == "Bearer opaque":
		document = i.active
	case r.URL.Path == "/introspect":
		document = map[string]any{"active": false}
	default:
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document)
}

// token signs claims of the issuer at a path. Header is the type; empty: none.
func (i *authorizationServer) token(t *testing.T, path, typ string, claims map[string]any) string {
	header := map[string]any{"alg": "ES256", "kid": "k"}
	if typ != "" {
		header["typ"] = typ
	}
	all := map[string]any{"iss": i.URL + path, "sub": "ada", "iat": time.Now().Unix(),
		"exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode(must.Get(json.Marshal(header))(t)) + "." + encode(must.Get(json.Marshal(all))(t))
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, digest[:])
	must.Do(t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + encode(signature)
}

type claims = map[string]any

// The command line of each provider accepts its access tokens with the scope that the endpoint needs, and not its ID
// tokens.
func TestTheCommandLineOfEachProvider(t *testing.T) {
	i := newAuthorizationServer(t)
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte("s3cret\n"), 0o600))
	for flags, tc := range map[string]struct {
		path, typ      string
		access, id     claims
		opaque         claims // the response about the access token "opaque"
		allowedClients bool
	}{
		"": {path: "", typ: "at+jwt", access: claims{"aud": "URL", "scope": "tools", "client_id": "c"},
			id: claims{"aud": "URL"}},
		"--auth type=JWT --auth audience=mcp": {typ: "JWT", access: claims{"aud": "mcp", "scope": "tools"},
			id: claims{"aud": "mcp", "nonce": "n"}},
		"--auth audience=mcp --auth type=JWT": {typ: "at+jwt", access: claims{"aud": "mcp", "scope": "tools"},
			id: claims{"aud": "mcp", "nonce": "n"}},
		"--auth profile=keycloak --auth audience=mcp": {typ: "JWT", path: "/realms/acme",
			access: claims{"aud": []string{"account", "mcp"}, "azp": "c", "typ": "Bearer", "scope": "email tools"},
			id:     claims{"aud": "mcp", "azp": "c", "typ": "ID", "scope": "tools"}},
		"--auth profile=keycloak --auth audience=mcp --auth scopes-from=realm_access.roles": {typ: "JWT",
			path: "/realms/acme", access: claims{"aud": "mcp", "azp": "c", "typ": "Bearer",
				"realm_access": claims{"roles": []string{"tools"}}},
			id: claims{"aud": "mcp", "azp": "c", "typ": "ID", "realm_access": claims{"roles": []string{"tools"}}}},
		"--auth profile=entra --auth audience=api://mcp --auth audience=6e74": {typ: "JWT", path: "/72f9/v2.0",
			access: claims{"aud": "6e74", "azp": "c", "scp": "tools", "tid": "72f9", "ver": "2.0"},
			id:     claims{"aud": "6e74", "tid": "72f9", "ver": "2.0", "roles": []string{"tools"}}},
		"--auth profile=okta --auth audience=api://default": {path: "/oauth2/default",
			access: claims{"aud": "api://default", "cid": "c", "scp": []string{"tools"}, "ver": 1},
			id:     claims{"aud": "api://default", "ver": 1, "amr": []string{"pwd"}}},
		"--auth profile=auth0 --auth audience=my-api": {typ: "JWT",
			access: claims{"aud": []string{"my-api", "u"}, "azp": "c", "scope": "openid tools"},
			id:     claims{"aud": "my-api", "sid": "s"}},
		"--auth profile=auth0 --auth audience=my-api --auth scopes-from=permissions": {typ: "JWT",
			access: claims{"aud": []string{"my-api", "u"}, "azp": "c", "scope": "openid", "permissions": []string{"tools"}},
			id:     claims{"aud": "my-api", "permissions": []string{"tools"}}},
		"--auth profile=cognito --auth audience=c --auth scope=mcp/tools": {path: "/eu-west-1_A",
			access: claims{"client_id": "c", "token_use": "access", "scope": "tools mcp/tools"},
			id:     claims{"aud": "c", "token_use": "id"}},
		"--auth profile=workos": {typ: "JWT", access: claims{"aud": "URL", "client_id": "c", "scope": "tools", "jti": "1"},
			id: claims{"aud": "URL", "email": "ada@example.com"}},
		"--auth profile=ping --auth allow-client=c": {path: "/72f9/as",
			access: claims{"aud": "URL", "client_id": "c", "scope": "tools"}, id: claims{"aud": "URL", "acr": "a"}},
		"--auth profile=zitadel --auth audience=project --auth scopes-from=urn:zitadel:iam:org:project:roles": {
			access: claims{"aud": []string{"c", "project"}, "jti": "1", "client_id": "c",
				"urn:zitadel:iam:org:project:roles": claims{"tools": claims{"1": "acme"}}},
			id: claims{"aud": []string{"c", "project"}, "azp": "c", "auth_time": 1}},
		"--auth profile=google --auth audience=c.apps.example --auth introspect=ISSUER/tokeninfo": {
			opaque: claims{"aud": "c.apps.example", "azp": "c.apps.example", "sub": "1", "scope": "openid tools",
				"exp": "32503680000"},
			id: claims{"aud": "c.apps.example", "azp": "c.apps.example"}},
		"--auth introspect=ISSUER/introspect --auth client=mcp --auth client-secret-file=SECRET": {
			opaque: claims{"active": true, "aud": "URL", "sub": "ada", "client_id": "c", "scope": "tools"},
			id:     claims{"aud": "URL", "nonce": "n"}},
	} {
		const resource = "https://mcp.example.com/mcp"
		args := "--auth scope=tools --public-url " + resource + " --auth issuer=" + i.URL + tc.path + " " +
			strings.NewReplacer("ISSUER", i.URL, "SECRET", secret).Replace(flags)
		s := must.Get(serveWith(t, new(Flags), strings.Fields(args)...))(t)
		for _, all := range []claims{tc.access, tc.id, tc.opaque} {
			if all["aud"] == "URL" {
				all["aud"] = resource
			}
		}
		access := "opaque"
		if i.active = tc.opaque; tc.opaque == nil {
			access = i.token(t, tc.path, tc.typ, tc.access)
		}
		idType := tc.typ
		if idType == "at+jwt" {
			idType = "JWT"
		}
		for token, status := range map[string]int{access: 200, i.token(t, tc.path, idType, tc.id): 401} {
			resp, body := s.request(t, "POST", s.url+Path, initialize, "Host", "mcp.example.com", "Authorization",
				"Bearer "+token)
			must.CheckEqual(t, resp.StatusCode, status, flags, resp.Status, body)
		}
	}
}

// The log says which setting would accept a genuine token; the client does not learn it.
func TestTheLogNamesTheSettingForAToken(t *testing.T) {
	i := newAuthorizationServer(t)
	keycloak := claims{"aud": "account", "azp": "c", "typ": "Bearer", "scope": "tools"}
	for flags, tc := range map[string]struct {
		token        string
		reason, want string
	}{
		"": {i.token(t, "", "JWT", keycloak), "this is a token of Keycloak", "add --auth profile=keycloak"},
		"--auth profile=okta": {i.token(t, "", "JWT", keycloak), "this is a token of Keycloak",
			"add --auth profile=keycloak"},
		"--auth profile=keycloak": {i.token(t, "", "JWT", keycloak), "the token is not for this server, but for",
			"add --auth audience=account"},
		"--auth profile=keycloak --auth audience=account --auth allow-client=d": {i.token(t, "", "JWT", keycloak),
			"may not use this server", "add --auth allow-client=c"},
		"--auth scope=tools": {i.token(t, "", "JWT", claims{"aud": "x"}), "at+jwt, but", "add --auth profile=NAME"},
	} {
		s := must.Get(serveWith(t, new(Flags), strings.Fields("--auth issuer="+i.URL+" "+flags)...))(t)
		resp, body := s.request(t, "POST", s.url+Path, initialize, "Authorization", "Bearer "+tc.token)
		log := s.output.String()
		if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(body, tc.reason) ||
			strings.Contains(body+resp.Header.Get("WWW-Authenticate"), "--auth") || !strings.Contains(log, tc.want) ||
			strings.Contains(log, tc.token) {
			t.Errorf("%s: %s %s\n%s", flags, resp.Status, body, log)
		}
	}
}

func TestSettingsOfTokensAreChecked(t *testing.T) {
	const issuer = "--auth issuer=https://login.example.com "
	for flags, want := range map[string]string{
		issuer + "--auth profile=azure":  "must be one of rfc9068, keycloak, entra",
		issuer + "--auth profile=google": "add --auth audience=ID",
		"--auth profile=keycloak":        "add --auth issuer=URL",
		"--auth dev --auth audience=mcp": "--auth dev starts an issuer whose tokens need no other setting",
		"--auth dev --auth profile=okta": "--auth dev starts an issuer whose tokens need no other setting",
		issuer + "--auth issuer=https://b.example --auth introspect=https://b.example/i": "works with one issuer only",
		issuer + "--auth introspect=https://b.example/i --auth profile=okta":             "remove --auth profile=okta",
		issuer + "--auth introspect=https://b.example/i --auth type=JWT":                 "remove it, or introspect",
		issuer + "--auth introspect=http://b.example/i":                                  "must begin with https://",
		issuer + "--auth resource=api://mcp":                                             "add --auth audience=NAME",
	} {
		must.CheckFails(t, must.Err(serveWith(t, new(Flags), strings.Fields(flags)...)), want, flags)
	}
	for word, want := range map[string]string{"profile=": "requires a value", "audiance=x": "audience=NAME"} {
		must.CheckFails(t, new(AuthFlag).Set(word), want, word)
	}
	f := new(AuthFlag)
	must.Do(t, f.Set("profile=okta"))
	must.CheckFails(t, f.Set("profile=auth0"), "profile is given twice")
}

// Clients of Entra request an application ID URI and a name, and its tokens have the name.
func TestScopesOfEntraAreRequestedWithTheirApplication(t *testing.T) {
	i := newAuthorizationServer(t)
	for _, application := range []string{"api://6e74", "https://mcp.example.com/mcp"} {
		s := must.Get(serveWith(t, new(Flags), strings.Fields("--auth issuer="+i.URL+" --auth profile=entra --auth "+
			"audience=6e74 --auth scope="+application+"/tools")...))(t)
		for scope, status := range map[string]int{"tools": 200, "other tools": 200, "ools": 403, "other": 403,
			"6e74/tools": 403} {
			token := i.token(t, "", "JWT", claims{"aud": "6e74", "azp": "c", "scp": scope, "ver": "2.0"})
			resp, body := s.request(t, "POST", s.url+Path, initialize, "Authorization", "Bearer "+token)
			if resp.StatusCode != status || status == 403 &&
				!strings.Contains(resp.Header.Get("WWW-Authenticate"), `scope="`+application+`/tools"`) {
				t.Errorf("%s: %s %s %v", scope, resp.Status, body, resp.Header)
			}
		}
	}
}
