package oauth_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/callers"
	"github.com/parley-mcp/parley/auth/oauth/internal/oauthtest"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
)

// callerOf returns a principal of the issuer of callers.
func callerOf(t testing.TB, subject string) principal.Principal {
	who := must.Get(principal.New("https://callers.example", subject, ""))(t)
	return who
}

// asCaller returns the context of a request that was authorized with the token "caller-SUBJECT SCOPES".
func asCaller(t testing.TB, subject string, scopes ...string) context.Context {
	p := &auth.ProtectedResource{URI: "https://gateway.example/mcp", Issuers: []string{"https://callers.example"},
		Verifier: auth.VerifierFunc(func(context.Context, string) (*auth.Info, error) {
			return &auth.Info{Principal: callerOf(t, subject), Scopes: scopes,
				Audience: []string{"https://gateway.example/mcp"}}, nil
		})}
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://gateway.example/mcp", nil))(t)
	r.Header.Set("Authorization", "Bearer "+callerToken(subject, scopes...))
	info := must.Get(p.Authenticate(make(http.Header), r))(t)
	return auth.NewContext(t.Context(), info)
}

func callerToken(subject string, scopes ...string) string {
	return oauthtest.Secret + "caller-" + subject + strings.Join(scopes, "")
}

// exchanges makes the authorization server of w exchange the tokens of callers at /exchange.
func exchanges(w *environment, change func(body map[string]any)) {
	w.ServeAS = oauthtest.Only("/exchange", func(rw http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		w.Mu.Lock()
		w.Issued++
		access := fmt.Sprintf("%saccess-%d", oauthtest.Secret, w.Issued)
		w.Forms, w.Valid[access] = append(w.Forms, r.PostForm), w.URL()
		lifetime := w.Lifetime
		w.Mu.Unlock()
		body := map[string]any{
			"access_token": access, "token_type": "Bearer", "expires_in": lifetime,
			"refresh_token":     oauthtest.Secret + "refresh",
			"issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
		}
		if change != nil {
			change(body)
		}
		status := http.StatusOK
		if body["error"] != nil {
			status = http.StatusBadRequest
		}
		w.JSON(rw, status, body)
	})
}

// dialAs connects to the server for a caller.
func dialAs(t *testing.T, w *environment, clients *callers.Clients, subject string) *client.Client {
	t.Helper()
	a := must.Get(clients.Authorizer(callerOf(t, subject)))(t)
	c := must.Get((&client.Dialer{Auth: a}).Dial(asCaller(t, subject), client.URL(w.URL())))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// exchanging returns the clients of callers whose tokens are exchanged at w.
func exchanging(w *environment, g oauth.TokenExchange) *callers.Clients {
	return &callers.Clients{New: func(principal.Principal) *oauth.Client {
		c, grant := w.Client(), g
		grant.TokenEndpoint, grant.Registration.ClientID = w.AS.URL+"/exchange", "gateway"
		c.Interaction, c.Grant = nil, &grant
		return c
	}}
}

// callAs calls a tool in the context of a caller, over a new connection.
func callAs(t *testing.T, w *environment, clients *callers.Clients, ctx context.Context) error {
	t.Helper()
	a, err := clients.Authorizer(auth.FromContext(ctx).Principal)
	if err != nil {
		return err
	}
	d := client.Dialer{Auth: a}
	c, err := d.Dial(ctx, client.URL(w.URL()))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.CallTool(ctx, "greet", map[string]string{"name": "Ada"})
	return err
}

// Rules P8, R3: the token of a caller is sent only to the configured token endpoint; the environment checks that no
// other server receives it. The metadata of the MCP server is not requested.
func TestTokenExchangeNeedsNoMetadata(t *testing.T) {
	for audience, want := range map[string]string{"": "resource", "the-server": "audience"} {
		w := newEnvironment(t)
		exchanges(w, nil)
		clients := exchanging(w, oauth.TokenExchange{Audience: audience, Scopes: []string{"more"}})
		must.Do(t, callAs(t, w, clients, asCaller(t, "ada")))
		must.That(t, len(w.Forms) == 1 && len(w.Paths("mcp"))+len(w.Paths("as")) == 0,
			"requests: %v, %v", w.Forms, w.Seen)
		form := w.Forms[0]
		value := map[string]string{"resource": w.URL(), "audience": audience}[want]
		must.CheckThat(t, form.Get("subject_token") == callerToken("ada") &&
			form.Get("subject_token_type") == "urn:ietf:params:oauth:token-type:access_token" &&
			form.Get("grant_type") == "urn:ietf:params:oauth:grant-type:token-exchange" &&
			form.Get("scope") == "more" && form.Get(want) == value && len(form["resource"])+len(form["audience"]) == 1,
			"request: %v", form)
	}
}

// Concurrent requests of a caller share one exchange. Each caller and each set of scopes gets a separate token.
func TestCallersDoNotShareExchangedTokens(t *testing.T) {
	w := newEnvironment(t)
	exchanges(w, nil)
	clients := exchanging(w, oauth.TokenExchange{})
	var calls sync.WaitGroup
	for _, subject := range []string{"ada", "bob"} {
		for _, scopes := range [][]string{nil, {"read"}, {"read", "write"}, {"write", "read"}} {
			ctx := asCaller(t, subject, scopes...)
			for range 5 {
				calls.Go(func() { must.Check(t, callAs(t, w, clients, ctx), subject, scopes) })
			}
		}
	}
	calls.Wait()
	seen := make(map[string]int)
	for _, form := range w.Forms {
		seen[strings.ReplaceAll(form.Get("subject_token"), "writeread", "readwrite")]++
	}
	must.CheckEqual(t, len(seen), 6)
	must.CheckEqual(t, len(w.Forms), 6)
}

// A request of one caller is not sent on the connection of another caller.
func TestAuthorizerOfACallerRejectsOtherCallers(t *testing.T) {
	w := newEnvironment(t)
	exchanges(w, nil)
	clients := exchanging(w, oauth.TokenExchange{})
	c := dialAs(t, w, clients, "ada")
	before := len(w.Seen)
	if _, err := c.CallTool(asCaller(t, "bob"), "greet", map[string]string{"name": "Bob"}); !errors.Is(err,
		callers.ErrNoCaller) || len(w.Seen) != before {
		t.Errorf("%v; requests %v", err, w.Seen[before:])
	}
	for _, who := range []principal.Principal{principal.Anonymous, principal.Local} {
		must.CheckIs(t, must.Err(clients.Authorizer(who)), callers.ErrNoCaller, who)
	}
}

// An expired token is replaced by exchanging the token that authorized the caller's current request, not with a
// refresh token. Without such a token, the request is rejected.
func TestExpiredTokensAreExchangedAgain(t *testing.T) {
	w := newEnvironment(t)
	w.Lifetime = 0
	exchanges(w, nil)
	clients := exchanging(w, oauth.TokenExchange{})
	c := dialAs(t, w, clients, "ada")
	before := len(w.Forms)
	must.Get(c.CallTool(asCaller(t, "ada"), "greet", map[string]string{"name": "Ada"}))(t)
	if len(w.Forms) != before+1 || w.Forms[before].Get("grant_type") == "refresh_token" {
		t.Errorf("token requests %v", w.Forms[before:])
	}
	sent := len(w.Seen)
	for range 5 {
		_, err := c.CallTool(t.Context(), "greet", map[string]string{"name": "Ada"})
		must.CheckThat(t, err != nil && errors.Is(err, oauth.ErrInteraction) &&
			strings.Contains(err.Error(), "no access token of a caller") &&
			strings.Contains(err.Error(), "if another process has taken over a task, call its tool again"),
			"a request without a caller: %v", err)
	}
	if len(w.Seen) != sent {
		t.Errorf("requests without a caller: %v", w.Seen[sent:])
	}
	must.Check(t, must.Err(c.CallTool(asCaller(t, "ada"), "greet", map[string]string{"name": "Ada"})))
}

func TestInvalidExchangesAreErrors(t *testing.T) {
	for name, change := range map[string]func(body map[string]any){
		"no issued_token_type": func(b map[string]any) { delete(b, "issued_token_type") },
		"another issued_token_type": func(b map[string]any) {
			b["issued_token_type"] = "urn:ietf:params:oauth:token-type:id-jag"
		},
		"another token_type": func(b map[string]any) { b["token_type"] = "N_A" },
		"no token":           func(b map[string]any) { delete(b, "access_token") },
		"error": func(b map[string]any) {
			b["error"], b["error_description"] = "invalid_target",
				"you sent "+callerToken("ada")+" "+base64.StdEncoding.EncodeToString([]byte(callerToken("ada")))
		},
	} {
		w := newEnvironment(t)
		exchanges(w, change)
		err := callAs(t, w, exchanging(w, oauth.TokenExchange{}), asCaller(t, "ada"))
		must.CheckThat(t, err != nil && !strings.Contains(err.Error(), oauthtest.Secret) &&
			!strings.Contains(err.Error(), base64.StdEncoding.EncodeToString([]byte(oauthtest.Secret))[:9]) &&
			strings.Contains(err.Error(), "token"), "%s: %v", name, err)
		must.CheckThat(t, w.Count("mcp POST "+w.Path) <= 0, "%s: the request was sent", name)
	}
}

// Rule O12: the configured endpoint may have a private address but must be https, unless it is on the loopback
// interface.
func TestTokenExchangeRequiresASecureEndpoint(t *testing.T) {
	w := newEnvironment(t)
	for _, endpoint := range []string{"http://sts.example/token", "ftp://127.0.0.1/token",
		"https://user@sts.example/token", ""} {
		clients := &callers.Clients{New: func(principal.Principal) *oauth.Client {
			return &oauth.Client{Grant: &oauth.TokenExchange{TokenEndpoint: endpoint}}
		}}
		must.CheckIs(t, callAs(t, w, clients, asCaller(t, "ada")), oauth.ErrInsecureURL, endpoint)
	}
}

// At the authorization server of the exchange, the program authenticates with the method that it is registered
// for.
func TestTokenExchangeUsesTheRegisteredMethod(t *testing.T) {
	for method, secret := range map[string]string{"": "", "client_secret_post": oauthtest.Secret + "exchange"} {
		w := newEnvironment(t)
		exchanges(w, nil)
		registered := oauth.Registration{ClientSecret: oauthtest.Secret + "exchange", Method: method}
		clients := exchanging(w, oauth.TokenExchange{Registration: registered})
		must.Do(t, callAs(t, w, clients, asCaller(t, "ada")))
		must.CheckEqual(t, w.Forms[0].Get("client_secret"), secret, method)
	}
}

// Rule O16: the identity provider exchanges the token of the caller for a grant, for each caller.
func TestEnterpriseGrantOfEachCaller(t *testing.T) {
	w := newEnvironment(t)
	w.grantsAt("/exchange")
	clients := &callers.Clients{New: func(principal.Principal) *oauth.Client {
		c := w.Client()
		c.Registrations = []oauth.Registration{{Issuer: w.AS.URL, ClientID: clientID,
			ClientSecret: oauthtest.Secret + "ours"}}
		c.Interaction, c.Grant = nil, &oauth.Enterprise{Registration: oauth.Registration{Issuer: idp, ClientID: "at-idp"},
			TokenEndpoint: w.AS.URL + "/exchange"}
		return c
	}}
	for _, subject := range []string{"ada", "bob", "ada"} {
		must.Do(t, callAs(t, w, clients, asCaller(t, subject)), subject)
	}
	var grants []string
	for _, form := range w.Forms {
		if form.Get("subject_token") != "" {
			grants = append(grants, form.Get("subject_token")+" "+form.Get("subject_token_type"))
		} else {
			_, claims, _ := strings.Cut(form.Get("assertion"), ".")
			raw, _ := base64.RawURLEncoding.DecodeString(strings.TrimSuffix(claims, ".c2ln"))
			grants = append(grants, fmt.Sprint(strings.Contains(string(raw), callerToken("ada")),
				strings.Contains(string(raw), callerToken("bob"))))
		}
	}
	const access = " urn:ietf:params:oauth:token-type:access_token"
	want := []string{callerToken("ada") + access, "true false", callerToken("bob") + access, "false true"}
	must.CheckEqual(t, fmt.Sprint(grants), fmt.Sprint(want), "token requests", grants, want)
}

// Requests that belong to no caller are not sent, and do not count as attempts to get a token.
func TestRequestsWithoutACallerAreNotSent(t *testing.T) {
	w := newEnvironment(t)
	exchanges(w, nil)
	clients := exchanging(w, oauth.TokenExchange{})
	a := must.Get(clients.Authorizer(callerOf(t, "ada")))(t)
	for range 5 {
		if c, err := (&client.Dialer{Auth: a}).Dial(t.Context(), client.URL(w.URL())); !errors.Is(err,
			oauth.ErrInteraction) || len(w.Seen) > 0 {
			t.Fatalf("%v, %v, requests %v", c, err, w.Seen)
		}
	}
	must.Check(t, callAs(t, w, clients, asCaller(t, "ada")))
}
