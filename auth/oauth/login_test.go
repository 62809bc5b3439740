package oauth_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/internal/oauthtest"
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
)

// Login gets the challenge of the server and uses it.
func TestLoginUsesTheChallenge(t *testing.T) {
	w := newEnvironment(t)
	w.Scope, w.ChallengeURL = "tools admin", "/elsewhere"
	wellKnown := w.ResourcePath
	w.ServeMCP = func(rw http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case wellKnown: // must not be used
			http.NotFound(rw, r)
			return true
		case "/elsewhere":
			w.JSON(rw, http.StatusOK, map[string]any{"resource": w.URL(), "authorization_servers": []string{w.AS.URL}})
			return true
		}
		return false
	}
	c := w.Client()
	must.Do(t, c.Login(t.Context(), w.URL(), "files"))
	got := strings.Fields(w.Queries[len(w.Queries)-1].Get("scope"))
	must.CheckThat(t, slices.Equal(got, []string{"tools", "admin", "files"}), "scopes %q", got)
	must.Do(t, c.Login(t.Context(), w.URL(), "more"))
	if got := strings.Fields(w.Queries[len(w.Queries)-1].Get("scope")); !slices.Equal(got,
		[]string{"tools", "admin", "files", "more"}) {
		t.Errorf("second login: scopes %q", got)
	}
}

func TestLoginFailsWithoutAuthorization(t *testing.T) {
	w := newEnvironment(t)
	open := true
	w.ChallengeURL = ""
	w.ServeMCP = func(rw http.ResponseWriter, r *http.Request) bool {
		if open && r.URL.Path == w.Path {
			rw.WriteHeader(http.StatusBadRequest) // like a ping without session
			return true
		}
		if r.URL.Path != w.Path {
			http.NotFound(rw, r)
			return true
		}
		return false
	}
	c := w.Client()
	err := c.Login(t.Context(), w.URL())
	must.CheckThat(t, errors.Is(err, oauth.ErrDiscovery) && strings.Contains(err.Error(), "without a token"), "%v", err)
	open = false // the default endpoints of 2025-03-26 are tried
	if err := w.Client().Login(t.Context(), w.URL()); !errors.Is(err, oauth.ErrDiscovery) ||
		!strings.Contains(err.Error(), "API key") {
		t.Error(err)
	}
}

// waitingUser returns an Interaction whose user stays at the authorization page until the test continues.
func (w *environment) waitingUser() (i oauth.Interaction, atPage, proceed chan struct{}) {
	atPage, proceed = make(chan struct{}, 8), make(chan struct{})
	return &logintest.Interaction{RedirectURI: "http://localhost:3000/callback",
		Open: func(ctx context.Context, url string) (string, error) {
			atPage <- struct{}{}
			select {
			case <-proceed:
				return oauthtest.OpenPage(ctx, url)
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}}, atPage, proceed
}

// While the user is at an authorization page, requests of this process and others use the stored token and renew it,
// a request that needs a login fails at once, and another login succeeds. The login that ends last is stored.
func TestNoRequestWaitsForTheUserOfALogin(t *testing.T) {
	w := newEnvironment(t)
	store := &tokenstore.Memory{}
	loggedIn := w.expired(store)
	waiting, other, alone := w.Client(), w.Client(), w.Client()
	waiting.Store, other.Store, alone.Store, alone.Interaction = store, store, store, nil
	var atPage, proceed chan struct{}
	waiting.Interaction, atPage, proceed = w.waitingUser()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a wait for the user fails the test
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- waiting.Login(ctx, w.URL()) }()
	<-atPage

	first := token(ctx, t, loggedIn, w.URL()) // renews the token
	for name, c := range map[string]*oauth.Client{"that logs in": waiting, "of another process": alone} {
		if got := token(ctx, t, c, w.URL()); got != first || got == "" {
			t.Errorf("a request of the Client %s has the token %q, not %q", name, got, first)
		}
	}
	n := w.Count("as POST /token")
	must.CheckEqual(t, n, 2, "token requests", n-1)
	w.Scope = "tools admin"
	w.RevokeAll()
	stranger := w.Client()
	stranger.Interaction, stranger.Store = nil, store
	must.Do(t, stranger.Logout(ctx, w.URL()))
	if _, err := w.Dial(stranger, ""); !errors.Is(err, oauth.ErrInteraction) || ctx.Err() != nil {
		t.Errorf("a request that requires a login: %v", err)
	}
	must.Do(t, other.Login(ctx, w.URL()))
	second := token(ctx, t, other, w.URL())
	close(proceed)
	must.Do(t, <-ended)
	next := w.Client()
	next.Store = store
	if got, last := token(ctx, t, next, w.URL()), token(ctx, t, waiting, w.URL()); got != last || got == second {
		t.Errorf("the stored token is %q, the one of the last login %q", got, last)
	}
}

// token returns the Authorization header of a request.
func token(ctx context.Context, t *testing.T, c *oauth.Client, server string) string {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, server, nil))(t)
	must.Do(t, c.Authorize(req, server))
	return req.Header.Get("Authorization")
}

// A login that the user requests again, for example because the page of the first one was closed, does not wait for
// the first one. A request waits for it, instead of opening another page.
func TestLoginsOfOneClientDoNotWaitForEachOther(t *testing.T) {
	w := newEnvironment(t)
	c := w.Client()
	var atPage, proceed chan struct{}
	c.Interaction, atPage, proceed = w.waitingUser()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 3)
	for range 2 {
		go func() { ended <- c.Login(ctx, w.URL()) }()
	}
	for range 2 {
		select {
		case <-atPage:
		case <-ctx.Done():
			t.Fatal("the second login waits for the first one")
		}
	}
	go func() { _, err := w.Dial(c, ""); ended <- err }()
	close(proceed)
	for range 3 {
		must.Check(t, <-ended)
	}
	must.CheckEqual(t, w.Count("as GET /authorize"), 2)
}

func TestStatusDescribesTheLogin(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			w := newEnvironment(t)
			w.OnToken = func(_ url.Values, body map[string]any) {
				body["access_token"] = oauthtest.Secret + "access-1.eyJzdWIiOiJhZGEifQ.x" // {"sub":"ada"}
				body["scope"] = "tools files"
			}
			c := w.Client()
			c.Store = store
			if s, err := c.Status(t.Context(), w.URL()); s != nil || err != nil {
				t.Fatalf("before the login: %+v, %v", s, err)
			}
			must.Do(t, c.Login(t.Context(), w.URL()))
			other := &oauth.Client{Store: store}
			s, err := other.Status(t.Context(), strings.ToUpper(w.URL()[:4])+w.URL()[4:])
			must.That(t, err == nil && s != nil, "%+v, %v", s, err)
			must.CheckThat(t, s.Issuer == w.AS.URL && s.Subject == "ada" &&
				slices.Equal(s.Scopes, []string{"tools", "files"}) && s.Renewable && !s.Bound &&
				time.Until(s.Expires) >= 59*time.Minute, "%+v", s)
			servers, err := other.Servers(t.Context())
			must.CheckThat(t, err == nil && slices.Equal(servers, []string{w.URL()}), "%q, %v", servers, err)
			must.Do(t, other.Logout(t.Context(), w.URL()))
			if s, err := c.Status(t.Context(), w.URL()); s != nil || err != nil {
				t.Errorf("after the logout: %+v, %v", s, err)
			}
		})
	}
}

func TestServersNeedsAStoreWithKeys(t *testing.T) {
	c := &oauth.Client{Store: struct{ oauth.TokenStore }{&tokenstore.Memory{}}}
	must.CheckIs(t, must.Err(c.Servers(t.Context())), errors.ErrUnsupported)
}

// Without Interaction the error contains the authorization request.
func TestInteractionErrorContainsTheRequest(t *testing.T) {
	w := newEnvironment(t)
	c := w.Client()
	c.Interaction = nil
	for n := range 5 { // these do not count as attempts
		w.Scope = "tools " + strings.Repeat("x", n+1) // another scope, so that no remembered failure matches
		_, err := w.Dial(c, "")
		var needed *oauth.InteractionError
		must.That(t, errors.As(err, &needed) && errors.Is(err, oauth.ErrInteraction) &&
			errors.Is(err, call.ErrUnauthorized) && strings.Contains(err.Error(), "Interaction"), "%v", err)
		r := needed.Request
		must.CheckThat(t, r.Server == w.URL() && r.Issuer == w.AS.URL &&
			slices.Equal(r.Scopes, strings.Fields(w.Scope)) && r.Previous == nil, "%+v", r)
	}
}

// A process without Interaction uses the login of another process.
func TestLoginOfAnotherProcessIsUsed(t *testing.T) {
	w := newEnvironment(t)
	store := &tokenstore.Memory{}
	alone, user := w.Client(), w.Client()
	alone.Store, user.Store, alone.Interaction = store, store, nil
	for range 2 { // the second dial uses the remembered failure
		must.Is(t, must.Err(w.Dial(alone, "")), oauth.ErrInteraction)
	}
	must.Do(t, user.Login(t.Context(), w.URL()))
	must.Check(t, must.Err(w.Dial(alone, "")))
}

// echoes returns texts that a server may make of a request.
func echoes(r *http.Request, body string) map[string]string {
	form, _ := url.ParseQuery(body)
	var values []string
	for _, v := range form {
		values = append(values, v...)
	}
	id, password, _ := r.BasicAuth()
	values = append(values, id, password)
	all := map[string]string{"body": body, "values": fmt.Sprint(values, r.URL, r.Header),
		"lower case": strings.ToLower(body)}
	for _, v := range values {
		all["shortened values"] += " " + v[:min(len(v), 12)] + "… " + v[min(len(v), 9):]
	}
	for i, v := range values {
		values[i] = base64.StdEncoding.EncodeToString([]byte(v)) + " " +
			base64.RawURLEncoding.EncodeToString([]byte(v)) + " " + url.PathEscape(v)
	}
	all["encoded values"] = strings.Join(values, " ")
	all["divided values"] = strings.ReplaceAll(all["values"], "3cr", "3\u200bc\nr")
	return all
}

// Rule R6: no error and no log message contains a secret, whatever the authorization server makes of it.
func TestErrorsHaveNoSecretsOfTheRequest(t *testing.T) {
	respond := map[string]func(w *environment, rw http.ResponseWriter, echo string){
		"error_description": func(w *environment, rw http.ResponseWriter, echo string) {
			w.JSON(rw, http.StatusBadRequest, map[string]any{"error": "invalid_request", "error_description": echo})
		},
		"error": func(w *environment, rw http.ResponseWriter, echo string) {
			w.JSON(rw, http.StatusUnauthorized, map[string]any{"error": echo})
		},
		"text": func(w *environment, rw http.ResponseWriter, echo string) {
			http.Error(rw, echo, http.StatusInternalServerError)
		},
		"JSON with status 200": func(w *environment, rw http.ResponseWriter, echo string) {
			w.JSON(rw, http.StatusOK, map[string]any{"access_token": 7, "token_type": echo, "echo": echo})
		},
		"token_type": func(w *environment, rw http.ResponseWriter, echo string) {
			w.JSON(rw, http.StatusOK, map[string]any{"access_token": oauthtest.Secret + "new",
				"token_type":    oauthtest.Secret + "new",
				"refresh_token": oauthtest.Secret + "next"})
		},
		"invalid token": func(w *environment, rw http.ResponseWriter, echo string) {
			w.JSON(rw, http.StatusOK, map[string]any{"access_token": oauthtest.Secret + "\n", "token_type": "Bearer"})
		},
		"not JSON": func(w *environment, rw http.ResponseWriter, echo string) { _, _ = io.WriteString(rw, `{"`+echo) },
		"duplicate": func(w *environment, rw http.ResponseWriter, echo string) {
			fmt.Fprintf(rw, `{"error":%q,"error":%[1]q,"access_token":%[1]q,"access_token":%[1]q}`, echo)
		},
		"redirect": func(w *environment, rw http.ResponseWriter, echo string) {
			rw.Header().Set("Location", "http://"+oauthtest.Secret+"user@%zz/?"+echo)
			rw.WriteHeader(http.StatusTemporaryRedirect)
		},
		"malformed response": func(w *environment, rw http.ResponseWriter, echo string) {
			conn, out, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				w.t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(out, "HTTP/1.1 %s\r\n\r\n", strings.ReplaceAll(echo, "\n", ""))
			out.Flush()
		},
		"cut": func(w *environment, rw http.ResponseWriter, echo string) { panic(http.ErrAbortHandler) },
	}
	for name, f := range respond {
		repeated := []string{"values"}
		if name == "error_description" {
			repeated = append(repeated, "body", "encoded values", "divided values", "shortened values", "lower case")
		}
		for _, echo := range repeated {
			for _, method := range []string{"client_secret_basic", "client_secret_post"} {
				t.Run(name+"/"+echo+"/"+method, func(t *testing.T) {
					w := newEnvironment(t)
					w.AS.Config.ErrorLog = nil
					c := w.Client()
					steps := oauthtest.Record(c)
					c.Registrations = []oauth.Registration{{Issuer: w.AS.URL, ClientID: "client",
						ClientSecret: oauthtest.Secret + "a+b/c d=%", Method: method}}
					var mu sync.Mutex
					var sent []string // secrets without the prefix
					w.ServeAS = oauthtest.Only("/token", func(rw http.ResponseWriter, r *http.Request) {
						body, _ := io.ReadAll(r.Body)
						form, _ := url.ParseQuery(string(body))
						mu.Lock()
						sent = append(sent, form.Get("code_verifier"))
						mu.Unlock()
						f(w, rw, echoes(r, string(body))[echo])
					})
					_, err := w.Dial(c, "")
					mu.Lock()
					defer mu.Unlock()
					must.That(t, err != nil && len(sent) != 0, "%v after %d requests", err, len(sent))
					text := err.Error() + fmt.Sprint(*steps)
					for _, s := range append(sent, oauthtest.Secret, oauthtest.Secret+"a", "a+b/c", "a%2Bb",
						base64.StdEncoding.EncodeToString([]byte(oauthtest.Secret))[:9]) {
						must.CheckThat(t, !strings.Contains(text, s), "the error or the trace contains %q: %s", s, text)
					}
				})
			}
		}
	}
}

// Rule R6: nor does an error contain a secret of an earlier request, which a server can repeat later.
func TestErrorsHaveNoSecretsOfEarlierRequests(t *testing.T) {
	w := newEnvironment(t)
	c := w.Client()
	steps := oauthtest.Record(c)
	var earlier string
	w.ServeAS = oauthtest.Only("/token", func(rw http.ResponseWriter, r *http.Request) {
		earlier = cmp.Or(earlier, r.FormValue("code_verifier"))
		w.JSON(rw, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "x " + earlier})
	})
	for _, by := range []string{"the token endpoint", "the token endpoint, later", "the authorization endpoint"} {
		if by == "the authorization endpoint" {
			w.OnAuthorize = func(_, redirect url.Values) {
				redirect.Set("error", "access_denied")
				redirect.Set("error_description", "x "+earlier)
			}
		}
		d := client.Dialer{Auth: c, Logger: slog.New(slog.DiscardHandler)}
		// A failure is remembered per URL of a server, so use another URL.
		_, err := d.Dial(t.Context(), client.URL(w.URL()+"?"+url.QueryEscape(by)))
		must.That(t, err != nil && earlier != "", "%s: %v", by, err)
		if text := err.Error() + fmt.Sprint(*steps); strings.Contains(text, earlier) {
			t.Errorf("%s: the error or the trace contains a secret: %s", by, text)
		}
	}
}

// Rule R6: the same for the authorization endpoint, whose response comes with a redirect.
func TestErrorsHaveNoSecretsOfTheAuthorizationRequest(t *testing.T) {
	for name, change := range map[string]func(q, redirect url.Values){
		"error_description": func(q, redirect url.Values) {
			redirect.Set("error", "access_denied")
			redirect.Set("error_description", "you sent "+q.Get("state")+" "+q.Encode())
		},
		"error":       func(q, redirect url.Values) { redirect.Set("error", q.Get("state")) },
		"wrong state": func(q, redirect url.Values) { redirect.Set("state", oauthtest.Secret+"state") },
		"wrong iss":   func(q, redirect url.Values) { redirect.Set("iss", "https://"+oauthtest.Secret+"@example.com/") },
		"repeated":    func(q, redirect url.Values) { redirect.Add("code", oauthtest.Secret+"second") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnvironment(t)
			var state string
			w.OnAuthorize = func(q, redirect url.Values) {
				state = q.Get("state")
				change(q, redirect)
			}
			c := w.Client()
			steps := oauthtest.Record(c)
			_, err := w.Dial(c, "")
			must.That(t, err != nil && state != "", "%v", err)
			text := err.Error() + fmt.Sprint(*steps)
			must.CheckThat(t, !strings.Contains(text, state) && !strings.Contains(text, oauthtest.Secret),
				"the error or the trace contains a secret: %s", text)
		})
	}
}

// Rule R6: the proxy's user information is a secret.
func TestErrorsHaveNoSecretsOfTheProxy(t *testing.T) {
	for _, proxy := range []string{"http://" + oauthtest.Secret + "user:" + oauthtest.Secret + "password@127.0.0.1:1",
		"socks5://" + oauthtest.Secret + "user:" + oauthtest.Secret + "@127.0.0.1:1"} {
		w := newEnvironment(t)
		c := &oauth.Client{Interaction: w.User()}
		proxyURL := must.Get(url.Parse(proxy))(t)
		c.Proxy = http.ProxyURL(proxyURL)
		err := c.Login(context.Background(), w.URL())
		must.CheckThat(t, err != nil && !strings.Contains(err.Error(), oauthtest.Secret), "%s: %v", proxy, err)
	}
}

// A program with web pages begins a login in one process and finishes it in another one with the same store.
func TestPendingLoginsAreFinishedByAnyProcess(t *testing.T) {
	for _, issuer := range []string{"", "configured"} {
		w := newEnvironment(t)
		if issuer != "" { // then nobody asks about it
			issuer = w.AS.URL
			w.ServeMCP = func(rw http.ResponseWriter, r *http.Request) bool {
				must.CheckThat(t, r.URL.Path != w.ResourcePath && r.Header.Get("Authorization") != "",
					"request to the server: %s %s", r.Method, r.URL)
				return false
			}
		}
		store := new(tokenstore.Memory)
		process := func() *oauth.Client {
			c := withStore(w, store, nil)
			c.Issuer = issuer
			return c
		}
		const redirectURI = "https://program.example/callback"
		p := must.Get(process().BeginLogin(t.Context(), w.URL(), redirectURI, "more"))(t)
		must.Do(t, store.Save(t.Context(), "client "+w.AS.URL, nil)) // another login has registered again
		redirect := must.Get(oauthtest.OpenPage(t.Context(), p.URL))(t)
		query := must.Get(url.Parse(redirect))(t).Query()
		must.That(t, query.Get("state") == p.State && strings.HasPrefix(redirect, redirectURI) &&
			strings.Contains(w.Queries[0].Get("scope"), "more") && !strings.Contains(p.URL, string(p.Secret)),
			"%+v leads to %s", p, redirect)
		stored := new(oauth.PendingLogin)
		must.Do(t, json.Unmarshal(must.Get(json.Marshal(p))(t), stored))
		for name, wrong := range map[string]struct {
			p        oauth.PendingLogin
			redirect string
		}{
			"another state": {*stored, strings.Replace(redirect, "state=", "state=x", 1)},
			"no secret":     {oauth.PendingLogin{State: p.State}, redirect},
		} {
			token, err := process().FinishLogin(t.Context(), w.URL(), &wrong.p, wrong.redirect)
			must.CheckThat(t, err != nil && errors.Is(err, oauth.ErrState), "%s: %v, %v", name, token, err)
		}
		token := must.Get(process().FinishLogin(t.Context(), w.URL(), stored, redirect))(t)
		must.CheckEqual(t, must.Get(authorize(process(), w.URL()))(t), token.TokenType+" "+token.AccessToken)
		must.CheckIs(t, must.Err(process().BeginLogin(t.Context(), w.URL(), "http://program.example/callback")),
			oauth.ErrInsecureURL, "redirect URI without TLS")
	}
}
