//go:build integration && long

package interop

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// The redirect URI of the clients, at which nobody listens, and a resource.
const (
	callback = "http://127.0.0.1:1/callback"
	resource = "https://mcp.example.com/mcp"
)

// issued are the tokens that a user has got from an OpenID provider.
type issued struct {
	Access string `json:"access_token"`
	ID     string `json:"id_token"`
}

// tokensOf logs in at an OpenID provider, in its forms, with the client web.
func tokensOf(t *testing.T, issuer string, params url.Values) (tokens issued) {
	t.Helper()
	browser := &http.Client{Jar: must.Get(cookiejar.New(nil))(t), Transport: &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(browser.CloseIdleConnections)
	var metadata struct {
		Authorize string `json:"authorization_endpoint"`
		Token     string `json:"token_endpoint"`
	}
	must.Do(t, json.Unmarshal(read(t, must.Get(browser.Get(issuer+"/.well-known/openid-configuration"))(t)), &metadata))
	params.Set("client_id", "web")
	params.Set("response_type", "code")
	params.Set("redirect_uri", callback)
	params.Set("nonce", "n")
	at := must.Get(url.Parse(metadata.Authorize + "?" + params.Encode()))(t)
	code := ""
	for response := must.Get(browser.Get(at.String()))(t); code == ""; {
		page := read(t, response)
		next, err := response.Location()
		form, action := url.Values{}, formAction.FindSubmatch(page)
		switch {
		case err == nil && strings.HasPrefix(next.String(), callback):
			if code = next.Query().Get("code"); code == "" {
				t.Fatalf("the login at %s ends with %s", issuer, next)
			}
			continue
		case err == nil:
			at, response = next, must.Get(browser.Get(next.String()))(t)
			continue
		case action == nil:
			t.Fatalf("%s responds with status %d: %s", at, response.StatusCode, page)
		}
		for _, input := range formInput.FindAllSubmatch(page, -1) {
			form.Set(string(input[1]), string(input[2]))
		}
		for name, value := range map[string]string{"username": "test-user2", "login": "ada", "password": "verysecure"} {
			form.Set(name, value)
		}
		at = must.Get(at.Parse(html.UnescapeString(string(action[1]))))(t)
		response = must.Get(browser.PostForm(at.String(), form))(t)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}}
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, metadata.Token,
		strings.NewReader(form.Encode())))(t)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth("web", "secret")
	must.Do(t, json.Unmarshal(read(t, must.Get(browser.Do(request))(t)), &tokens))
	if tokens.Access == "" || tokens.ID == "" {
		t.Fatalf("%s issues %+v", issuer, tokens)
	}
	return tokens
}

var (
	formAction = regexp.MustCompile(`<form[^>]* action="([^"]*)"`)
	formInput  = regexp.MustCompile(`<input[^>]* type="hidden" name="([^"]*)" value="([^"]*)"`)
)

func read(t *testing.T, response *http.Response) []byte {
	t.Helper()
	defer response.Body.Close()
	return must.Get(io.ReadAll(response.Body))(t)
}

// The program accepts the access tokens of OpenID providers that we did not write, and none of their ID tokens. The
// introspection endpoint of the example of zitadel/oidc names no audience, so its tokens could be for any server.
func TestTokensOfOpenIDProviders(t *testing.T) {
	parley := buildProgram(t, "../cmd/parley", "")
	zitadel := filepath.Join(t.TempDir(), "zitadel")
	build := exec.Command("go", "build", "-modfile=zitadel.mod", "-o", zitadel, "zitadel.go")
	build.Env = append(os.Environ(), "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build zitadel.go: %v\n%s", err, output)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte("secret"), 0o600))
	introspect := []string{"client=web", "client-secret-file=" + secret}
	oidcProvider := node(t, "../issuers/npm/provider.mjs", callback, resource)
	for name, tc := range map[string]struct {
		provider []string
		params   url.Values
		settings []string // of --auth
		endpoint string   // of introspection
		access   int      // the status with the access token
	}{
		"zitadel/oidc, JSON Web Tokens": {[]string{zitadel, "-jwt", "-redirect", callback},
			url.Values{"scope": {"openid profile"}}, []string{"profile=zitadel", "audience=web"}, "", 200},
		"zitadel/oidc, opaque tokens": {[]string{zitadel, "-redirect", callback},
			url.Values{"scope": {"openid profile"}}, append([]string{"audience=web", "scope=profile"}, introspect...),
			"/oauth/introspect", 401},
		"oidc-provider, JSON Web Tokens": {oidcProvider,
			url.Values{"scope": {"openid tools"}, "resource": {resource}}, []string{"audience=" + resource, "scope=tools",
				"allow-client=web"}, "", 200},
		"oidc-provider, opaque tokens": {oidcProvider,
			url.Values{"scope": {"openid tools"}, "resource": {"https://opaque.example.com"}},
			append([]string{"audience=https://opaque.example.com", "scope=tools"}, introspect...), "/token/introspection", 200},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := strings.TrimSuffix(listen(t, tc.provider), "/")
			tokens := tokensOf(t, issuer, tc.params)
			args := []string{"up", "--auth", "issuer=" + issuer}
			for _, setting := range tc.settings {
				args = append(args, "--auth", setting)
			}
			if tc.endpoint != "" {
				args = append(args, "--auth", "introspect="+issuer+tc.endpoint)
			}
			endpoint := startParley(t, parley, args...)
			for token, want := range map[string]int{tokens.Access: tc.access, tokens.ID: http.StatusUnauthorized} {
				request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(
					`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":`+
						`{},"clientInfo":{"name":"c","version":"1"}}}`)))(t)
				request.Header = http.Header{"Content-Type": {"application/json"},
					"Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + token}}
				response := must.Get(http.DefaultClient.Do(request))(t)
				if body := read(t, response); response.StatusCode != want {
					t.Errorf("%s %s, want %d; the token is %s", response.Status, body, want, token)
				}
			}
		})
	}
}
