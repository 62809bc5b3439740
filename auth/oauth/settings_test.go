package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/callers"
	"github.com/parley-mcp/parley/auth/oauth/internal/oauthtest"
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
)

const notSupported = "AADSTS901002: The 'resource' request parameter is not supported."

// withStore returns a client as in another process: it uses the store of the first client, but none of its
// settings.
func withStore(w *environment, store oauth.TokenStore, interaction oauth.Interaction) *oauth.Client {
	c := w.Client()
	c.Store, c.Interaction = store, interaction
	return c
}

// loginPaths lists the ways to a token. set changes a setting of the client that logs in.
var loginPaths = []struct {
	name string
	do   func(t *testing.T, w *environment, set func(*oauth.Client)) error
	code bool // whether the path includes an authorization page
}{
	{"a challenge", func(_ *testing.T, w *environment, set func(*oauth.Client)) error {
		c := w.Client()
		set(c)
		_, err := w.Dial(c, "")
		return err
	}, true},
	{"Login", func(t *testing.T, w *environment, set func(*oauth.Client)) error {
		c := w.Client()
		set(c)
		return c.Login(t.Context(), w.URL())
	}, true},
	{"a refresh by another process", func(t *testing.T, w *environment, set func(*oauth.Client)) error {
		store := new(tokenstore.Memory)
		w.Lifetime = 0
		c := withStore(w, store, w.User())
		set(c)
		if err := c.Login(t.Context(), w.URL()); err != nil {
			return err
		}
		w.Lifetime = 3600
		h, err := authorize(withStore(w, store, nil), w.URL())
		if h == "" && err == nil {
			err = errors.New("no token")
		}
		return err
	}, true},
	{"a refresh after a rejection", func(t *testing.T, w *environment, set func(*oauth.Client)) error {
		store := new(tokenstore.Memory)
		c := withStore(w, store, w.User())
		set(c)
		if err := c.Login(t.Context(), w.URL()); err != nil {
			return err
		}
		w.RevokeAll()
		_, err := w.Dial(withStore(w, store, nil), "")
		return err
	}, true},
	{"more scopes", func(_ *testing.T, w *environment, set func(*oauth.Client)) error {
		var asked atomic.Bool
		w.Authenticated = func(rw http.ResponseWriter, _ *http.Request) bool {
			if asked.Swap(true) {
				return false
			}
			w.Challenge(rw, http.StatusForbidden, "Bearer", "more", "insufficient_scope")
			return true
		}
		c := w.Client()
		set(c)
		_, err := w.Dial(c, "")
		return err
	}, true},
	{"a later login by another process", func(t *testing.T, w *environment, set func(*oauth.Client)) error {
		store := new(tokenstore.Memory)
		c := withStore(w, store, w.User())
		set(c)
		if err := c.Login(t.Context(), w.URL()); err != nil {
			return err
		}
		return withStore(w, store, w.User()).Login(t.Context(), w.URL(), "more")
	}, true},
	{"client credentials", func(_ *testing.T, w *environment, set func(*oauth.Client)) error {
		c := w.Client()
		c.Interaction, c.Grant = nil, &oauth.ClientCredentials{}
		c.Registrations = []oauth.Registration{{Server: w.URL(), ClientID: clientID, ClientSecret: oauthtest.Secret + "m"}}
		set(c)
		_, err := w.Dial(c, "")
		return err
	}, false},
	{"workload", func(_ *testing.T, w *environment, set func(*oauth.Client)) error {
		c := w.Client()
		c.Interaction, c.Grant = nil, &oauth.Workload{
			Assertion: func(context.Context, string) (string, error) { return "jwt", nil }}
		set(c)
		_, err := w.Dial(c, "")
		return err
	}, false},
	{"enterprise", func(_ *testing.T, w *environment, set func(*oauth.Client)) error {
		w.grantsAt("/exchange")
		c := w.Client()
		c.Registrations = []oauth.Registration{{Issuer: w.AS.URL, ClientID: clientID,
			ClientSecret: oauthtest.Secret + "ours"}}
		c.Interaction, c.Grant = nil, &oauth.Enterprise{
			Registration: oauth.Registration{Issuer: idp, ClientID: "at-idp"}, TokenEndpoint: w.AS.URL + "/exchange",
			Subject: func(context.Context) (string, error) { return oauthtest.Secret + "identity", nil }}
		set(c)
		_, err := w.Dial(c, "")
		return err
	}, false},
	{"token exchange", func(t *testing.T, w *environment, set func(*oauth.Client)) error {
		w.ServeAS = oauthtest.Only("/exchange", func(rw http.ResponseWriter, r *http.Request) {
			r.ParseForm()
			w.Mu.Lock()
			w.Forms = append(w.Forms, r.PostForm)
			w.Issued++
			body := map[string]any{"access_token": fmt.Sprintf("%saccess-%d", oauthtest.Secret, w.Issued),
				"token_type":        "Bearer",
				"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
			w.Mu.Unlock()
			status := http.StatusOK
			if w.OnToken(r.PostForm, body); body["error"] != nil {
				status = http.StatusBadRequest
			}
			w.JSON(rw, status, body)
		})
		all := exchanging(w, oauth.TokenExchange{})
		clients := &callers.Clients{New: func(who principal.Principal) *oauth.Client {
			c := all.New(who)
			set(c)
			return c
		}}
		return callAs(t, w, clients, asCaller(t, "ada"))
	}, false},
}

// rejectedOn returns the error of a path without NoResource.
func rejectedOn(t *testing.T, path int, code, description string) error {
	w := newEnvironment(t)
	w.RejectResource(code, description)
	err := loginPaths[path].do(t, w, func(*oauth.Client) {})
	if n := w.Count("as GET /authorize") + w.Count("as POST /token") + w.Count("as POST /exchange"); err != nil && n > 2 {
		t.Errorf("%s: %d requests after a rejection: it was tried again", loginPaths[path].name, n)
	}
	return err
}

// Rule O17: NoResource applies to every request of a login, and is stored for later requests. No request leaves out the
// resource without it.
func TestNoResourceReachesEveryPath(t *testing.T) {
	for i, path := range loginPaths {
		t.Run(path.name, func(t *testing.T) {
			w := newEnvironment(t)
			w.RejectResource("invalid_request", notSupported)
			must.Do(t, path.do(t, w, func(c *oauth.Client) { c.NoResource = true }))
			named := slices.DeleteFunc(append(slices.Clone(w.Queries), w.Forms...), func(v url.Values) bool {
				// The identity provider is another server, whose grant names the resource.
				return !v.Has("resource") || strings.HasSuffix(v.Get("requested_token_type"), ":id-jag")
			})
			must.CheckThat(t, len(named) == 0 && len(w.Forms) != 0, "requests with a resource: %v", named)
			err := rejectedOn(t, i, "invalid_request", notSupported)
			must.CheckThat(t, errors.Is(err, oauth.ErrResource) && strings.Contains(err.Error(), "AADSTS901002") &&
				strings.Contains(err.Error(), "NoResource"), "without the setting: %v", err)
		})
	}
}

func TestErrorsAboutTheResourceAreRecognized(t *testing.T) {
	for _, tc := range []struct {
		code, description string
		want              bool
	}{
		{"invalid_target", "AADSTS9010010: The resource parameter provided in the request doesn't match with the " +
			"requested scopes.", true},
		{"invalid_request", "AADSTS9010010: no match", true},
		{"invalid_scope", "AADSTS9010010: no match", true},
		{"server_error", notSupported, true},
		{"invalid_target", "", true},
		{"invalid_resource", "", true},
		{"invalid_request", "Parameter not allowed for this message type: resource", true},
		{"invalid_request", "Unsupported parameter 'Resource'", true},
		{"invalid_request", "The resource owner must log in", false},
		{"invalid_request", "resource_metadata", false},
		{"invalid_request", "AADSTS900144: The request body must contain the following parameter: 'scope'.", false},
		{"access_denied", "the user denied access to the resource", false},
		{"invalid_scope", "no such resource scope", false},
	} {
		for path := range 2 { // first the authorization endpoint, then the token endpoint with client credentials
			if path == 1 {
				path = 6
			}
			if err := rejectedOn(t, path, tc.code, tc.description); err == nil || errors.Is(err,
				oauth.ErrResource) != tc.want {
				t.Errorf("%s, %s %q: %v", loginPaths[path].name, tc.code, tc.description, err)
			}
		}
	}
}

// Rule O17: AssumePKCE allows logins at a server whose metadata does not list S256, and these use S256. It is stored with them.
func TestAssumePKCEReachesEveryPath(t *testing.T) {
	for _, path := range loginPaths {
		if !path.code {
			continue
		}
		for _, methods := range [][]string{nil, {}, {"plain"}} {
			for _, set := range []bool{true, false} {
				w := newEnvironment(t)
				w.OnIssuer = func(m map[string]any) {
					m["code_challenge_methods_supported"] = methods
					if methods == nil {
						delete(m, "code_challenge_methods_supported")
					}
				}
				err := path.do(t, w, func(c *oauth.Client) { c.AssumePKCE = set })
				switch {
				case set && (err != nil || w.Queries[0].Get("code_challenge_method") != "S256"):
					t.Errorf("%s with %q: %v, %v", path.name, methods, err, w.Queries)
				case !set && (!errors.Is(err, oauth.ErrNoPKCE) || !strings.Contains(err.Error(), "AssumePKCE") ||
					len(w.Queries) > 0):
					t.Errorf("%s with %q, without the setting: %v, %v", path.name, methods, err, w.Queries)
				}
			}
		}
	}
}

// Rule O17: the settings belong to a login at one authorization server, until its end.
func TestSettingsEndWithTheLogin(t *testing.T) {
	w, other := newEnvironment(t), newEnvironment(t)
	store := new(tokenstore.Memory)
	c := withStore(w, store, w.User())
	c.NoResource, c.AssumePKCE = true, true
	must.Do(t, c.Login(t.Context(), w.URL()))
	status := must.Get(c.Status(t.Context(), w.URL()))(t)
	must.CheckThat(t, status.NoResource && status.AssumePKCE, "status %+v", status)

	w.OnResource = func(m map[string]any) { m["authorization_servers"] = []string{other.AS.URL} }
	oauth.ObserveDials(c, func(string) {})
	elsewhere := &oauth.Client{Store: store, Interaction: w.User()}
	must.Do(t, elsewhere.Login(t.Context(), w.URL()))
	must.CheckEqual(t, other.Queries[0].Get("resource"), w.URL(), "at another authorization server: resource")

	w.OnResource = nil
	must.Do(t, c.Login(t.Context(), w.URL())) // with the settings again
	must.Do(t, withStore(w, store, nil).Logout(t.Context(), w.URL()))
	must.Do(t, withStore(w, store, w.User()).Login(t.Context(), w.URL()))
	must.CheckEqual(t, w.Queries[2].Get("resource"), w.URL(), "after Logout: resource")
}

// An expiry of the secret that is not a date does not end a registration; one that is a date counts.
func TestExpiryOfARegistrationIsReadAsServersSendIt(t *testing.T) {
	future := time.Now().Add(time.Hour).Unix()
	for text, counts := range map[string]bool{
		"0": false, `"0"`: false, "null": false, "-1": false, "0.5": false, `""`: false, `"never"`: false,
		`"2030-01-01T00:00:00Z"`: false, "true": false, "{}": false, "[]": false, "1e400": false,
		"3600": false, "1000000000": false, // a lifetime, and a date in the past
		fmt.Sprint(future * 1000): false, // milliseconds
		fmt.Sprint(future):        true, fmt.Sprintf("%q", fmt.Sprint(future)): true,
		fmt.Sprintf("%d.5", future): true, fmt.Sprintf("%d.0e0", future): true,
	} {
		w := newEnvironment(t)
		w.ServeAS = oauthtest.Only("/register", func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusCreated)
			fmt.Fprintf(rw, `{"client_id":"client","client_secret":"%sclient","client_secret_expires_at":%s}`,
				oauthtest.Secret, text)
		})
		store := new(tokenstore.Memory)
		w.Lifetime = 0
		c := withStore(w, store, w.User())
		if err := c.Login(t.Context(), w.URL()); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		w.Lifetime = 3600
		h, err := authorize(withStore(w, store, nil), w.URL())
		must.CheckThat(t, h != "" && err == nil, "%s: %q, %v", text, h, err) // refreshes the token
		stored := must.Get(store.Load(t.Context(), "client "+w.AS.URL))(t)
		must.CheckEqual(t, strings.Contains(string(stored), `"expires"`), counts, text, string(stored))
	}
}

// The token endpoint receives the credentials for the method that the server registered, whichever method was
// requested.
func TestAuthenticationMethodIsTheRegisteredOne(t *testing.T) {
	const basic, post, none, unknown = "basic", "post", "none", "not supported"
	for _, tc := range []struct {
		registered, secret string
		supported          []string // methods in the metadata
		want               string
	}{
		{`"client_secret_post"`, oauthtest.Secret + "c", []string{"none"}, post},
		{`"client_secret_post"`, oauthtest.Secret + "c", []string{"client_secret_basic"}, post},
		{`"client_secret_basic"`, oauthtest.Secret + "c", []string{"none", "client_secret_post"}, basic},
		{`"none"`, "", []string{"client_secret_basic"}, none},
		{`"none"`, oauthtest.Secret + "c", []string{"client_secret_basic"}, none},
		{`null`, oauthtest.Secret + "c", []string{"client_secret_post"}, post},
		{`null`, oauthtest.Secret + "c", nil, basic},
		{`""`, "", []string{"client_secret_basic"}, none},
		{`"client_secret_basic"`, "", []string{"none"}, none},
		{`"client_secret_post"`, "", []string{"none"}, none},
		{`"private_key_jwt"`, oauthtest.Secret + "c", []string{"none"}, unknown},
		{`"tls_client_auth"`, oauthtest.Secret + "c", []string{"none"}, unknown},
		{`"private_key_jwt"`, "", []string{"none"}, none},
	} {
		w := newEnvironment(t)
		w.OnIssuer = func(m map[string]any) { m["token_endpoint_auth_methods_supported"] = tc.supported }
		var used []string
		w.ServeAS = func(rw http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case "/register":
				rw.WriteHeader(http.StatusCreated)
				fmt.Fprintf(rw, `{"client_id":"client","client_secret":%q,"token_endpoint_auth_method":%s}`, tc.secret,
					tc.registered)
				return true
			case "/token":
				r.ParseForm()
				_, password, isBasic := r.BasicAuth()
				switch {
				case isBasic && password == tc.secret && !r.PostForm.Has("client_secret"):
					used = append(used, basic)
				case r.PostForm.Get("client_secret") == tc.secret && r.PostForm.Has("client_secret"):
					used = append(used, post)
				case r.PostForm.Get("client_id") == "client" && !r.PostForm.Has("client_secret") && !isBasic:
					used = append(used, none)
				}
				w.Token(rw, r)
				return true
			}
			return false
		}
		w.Lifetime = 0
		store := new(tokenstore.Memory)
		err := withStore(w, store, w.User()).Login(t.Context(), w.URL())
		if tc.want == unknown {
			must.CheckThat(t, errors.Is(err, oauth.ErrRegistration) &&
				strings.Contains(err.Error(), strings.Trim(tc.registered, `"`)) && w.Count("as GET /authorize") <= 0,
				"%+v: %v", tc, err)
			continue
		}
		if err == nil {
			_, err = authorize(withStore(w, store, nil), w.URL()) // refreshes the token
		}
		want := []string{tc.want, tc.want}
		must.CheckThat(t, err == nil && slices.Equal(used, want), "%+v: %v, used %q", tc, err, used)
	}
}
