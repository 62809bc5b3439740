package callers_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/callers"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// A token that has expired is refreshed once, although both replicas need it at the same time.
func TestReplicasRefreshALoginOnce(t *testing.T) {
	b := newBrokers(t)
	b.w.Lifetime = 0
	b.browser("ada").logIn(b.front.URL + "/login/start/one")
	b.w.Lifetime = 3600
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() { must.Check(t, b.call(i%2, "ada", "one")) })
	}
	calls.Wait()
	refreshed := 0
	for _, form := range b.w.Forms {
		if form.Get("grant_type") == "refresh_token" {
			refreshed++
		}
	}
	must.CheckEqual(t, refreshed, 1)
}

// A login whose token was revoked must be given again. Until then the calls ask for it.
func TestRevokedLoginsMustBeGivenAgain(t *testing.T) {
	b := newBrokers(t)
	ada := b.browser("ada")
	ada.logIn(b.front.URL + "/login/start/one")
	must.Do(t, b.call(0, "ada", "one"))
	b.w.RevokeAll()
	b.all = nil
	b.addReplica() // a replica does not ask again right after it has received a token
	b.addReplica()
	b.w.Mu.Lock()
	clear(b.w.Refresh)
	b.w.Mu.Unlock()
	for replica := range b.all {
		_, done := b.required(b.call(replica, "ada", "one"))
		must.CheckThat(t, !done, "the login is done")
	}
	start, _ := b.required(b.call(0, "ada", "one"))
	ada.logIn(start)
	for replica := range b.all {
		must.Check(t, b.call(replica, "ada", "one"), replica)
	}
}

// Rule O13: a login that lacks scopes must be given again, with these scopes and the previous ones.
func TestLoginIsGivenAgainWithMoreScopes(t *testing.T) {
	b := newBrokers(t)
	var enough atomic.Bool
	b.w.Scope, b.w.Lifetime = "first", 0
	b.w.Authenticated = func(rw http.ResponseWriter, _ *http.Request) bool {
		if enough.Load() {
			return false
		}
		b.w.Challenge(rw, http.StatusForbidden, "Bearer", "more", "insufficient_scope")
		return true
	}
	ada := b.browser("ada")
	ada.logIn(b.front.URL + "/login/start/one")
	needed := b.call(0, "ada", "one")
	enough.Store(true)
	must.Check(t, b.call(1, "ada", "one")) // refreshes the token
	start, done := b.required(needed)
	must.CheckThat(t, !done, "the login is done")
	ada.logIn(start)
	must.Check(t, b.call(1, "ada", "one"))
	var scopes []string
	for _, q := range b.w.Queries {
		scopes = append(scopes, q.Get("scope"))
	}
	want := []string{"first", "first more"}
	must.CheckEqual(t, fmt.Sprint(scopes), fmt.Sprint(want), scopes, want)
}

// A user can have at most 16 pending logins at a time.
func TestPendingLoginsAreBounded(t *testing.T) {
	b := newBrokers(t)
	start := b.front.URL + "/login/start/one"
	ada := b.browser("ada")
	ada.signIn(start)
	for range 16 {
		ada.consent(start)
	}
	status, body, _ := ada.do(http.MethodPost, start, nil)
	must.CheckThat(t, status == http.StatusBadGateway && strings.Contains(body, "Login failed"), "%d %s", status, body)
	bob := b.browser("bob")
	bob.logIn(start)
	must.CheckContains(t, b.w.Log.String(), "has 16 logins already")
}

// The user of a browser is identified by a token for the program itself, from the issuer that the browser was
// sent to.
func TestBrokerVerifiesTheTokenOfTheBrowser(t *testing.T) {
	for name, change := range map[string]func(*auth.Info){
		"":                 func(*auth.Info) {},
		"another audience": func(i *auth.Info) { i.Audience = []string{"https://other.example/mcp"} },
		"no audience":      func(i *auth.Info) { i.Audience = nil },
		"another issuer": func(i *auth.Info) {
			i.Principal, _ = principal.New("https://other.example", "ada", "")
		},
		"bound to a key":                     func(i *auth.Info) { i.KeyThumbprint = "thumbprint" },
		"an audience of the resource":        func(i *auth.Info) { i.Audience = []string{"mcp"} },
		"another audience than the resource": func(*auth.Info) {}, // the URI is not among the audiences
	} {
		b := newBrokers(t)
		for _, one := range b.all {
			if strings.HasSuffix(name, "the resource") {
				one.Resource.Audiences = []string{"mcp"}
			}
			verifier := one.Resource.Verifier
			one.Resource.Verifier = auth.VerifierFunc(func(ctx context.Context, token string) (*auth.Info, error) {
				info, err := verifier.Verify(ctx, token)
				if err == nil {
					change(info)
				}
				return info, err
			})
		}
		start := b.front.URL + "/login/start/one"
		ada := b.browser("ada")
		_, _, page := ada.do(http.MethodGet, start, nil)
		redirect := must.Get((&logintest.Browser{User: "ada"}).Authorize(t.Context(), page))(t)
		q, _ := url.Parse(page)
		must.CheckThat(t, q.Query().Get("resource") == b.front.URL+"/mcp" &&
			q.Query().Get("redirect_uri") == b.front.URL+"/login/callback", "authorization request %s", page)
		status, body, location := ada.do(http.MethodGet, redirect, nil)
		must.CheckEqual(t, status == http.StatusSeeOther && location == start,
			name == "" || name == "an audience of the resource", name, status, location, body)
	}
}

// If there are several issuers, the user of the browser chooses one.
func TestBrowserChoosesAnIssuer(t *testing.T) {
	b := newBrokers(t)
	for _, one := range b.all {
		one.Resource.Issuers = append(one.Resource.Issuers, "https://other.example")
	}
	_, body, _ := b.browser("").do(http.MethodGet, b.front.URL+"/login/start/one", nil)
	_, link, found := strings.Cut(body, `<a href="`)
	link, _, _ = strings.Cut(link, `"`)
	must.That(t, found && strings.Contains(body, "https://other.example"), "%v", body)
	if status, body, location := b.browser("").do(http.MethodGet, link, nil); status != http.StatusSeeOther ||
		!strings.HasPrefix(location, b.issuer.URL()) {
		t.Errorf("%d %q %s", status, location, body)
	}
}

func TestBrokerSettingsAreChecked(t *testing.T) {
	valid := func() *callers.Broker {
		return &callers.Broker{
			URL: "https://mcp.example/login", Server: func(string) string {
				return ""
			}, New: func() *oauth.Client { return nil },
			Resource: &auth.ProtectedResource{URI: "https://mcp.example/mcp", Issuers: []string{"https://as.example"},
				Verifier: auth.VerifierFunc(nil)},
		}
	}
	must.Do(t, valid().Check())
	for want, change := range map[string]func(*callers.Broker){
		"must begin with https":    func(b *callers.Broker) { b.URL = "http://mcp.example/login" },
		"no slash at its end":      func(b *callers.Broker) { b.URL = "https://mcp.example/login/" },
		"must have a path":         func(b *callers.Broker) { b.URL = "https://mcp.example" },
		"must be set":              func(b *callers.Broker) { b.Resource = nil },
		"field Issuers is empty":   func(b *callers.Broker) { b.Resource.Issuers = nil },
		"Broker.Audience":          func(b *callers.Broker) { b.Resource.URI = "" },
		"Keys must have a key":     func(b *callers.Broker) { b.Store = store.NewMemory() },
		"at least 32 random bytes": func(b *callers.Broker) { b.Keys = [][]byte{[]byte("short")} },
	} {
		b := valid()
		change(b)
		must.CheckFails(t, b.Check(), want)
		_, authErr := b.Authorizer("one")(principal.Local)
		must.CheckThat(t, authErr != nil, "%q: an authorizer for a Broker that is not valid", want)
	}
	for _, who := range []principal.Principal{principal.Anonymous, principal.Local} {
		must.CheckIs(t, must.Err(valid().Authorizer("one")(who)), callers.ErrNoCaller, who)
	}
}

// The lock of a token excludes other replicas while its owner has it, and expires when the owner has ended.
func TestLockOfATokenExcludesReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := store.NewMemory()
		a, b := callers.NewBrokerStore(kv, "ada", "one"), callers.NewBrokerStore(kv, "ada", "one")
		unlock, err := a.Lock(t.Context(), "token")
		must.Do(t, err)
		for other, s := range map[string]oauth.TokenStore{"another user": callers.NewBrokerStore(kv, "bob", "one"),
			"another key": a} {
			key := map[bool]string{true: "token 2", false: "token"}[other == "another key"]
			free, err := s.Lock(t.Context(), key)
			must.Do(t, err, other)
			free()
		}
		locked := make(chan func(), 1)
		go func() {
			unlock, err := b.Lock(t.Context(), "token")
			must.Check(t, err)
			locked <- unlock
		}()
		time.Sleep(10 * time.Minute) // the owner renews the lock
		select {
		case <-locked:
			t.Fatal("two owners")
		default:
		}
		unlock()
		(<-locked)()
		time.Sleep(time.Second)

		waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must.Do(t, must.Err(kv.Put(t.Context(), callers.LockKey(a, "token"), []byte("ended"),
			store.PutOptions{TTL: 15 * time.Second, IfAbsent: true})))
		begin := time.Now()
		unlock, err = b.Lock(waiting, "token")
		took := time.Since(begin)
		must.That(t, err == nil && took >= 14*time.Second && took <= 16*time.Second, "after %v: %v", took, err)
		unlock()
	})
}

// Logins are kept for 90 days after their last use.
func TestUnusedLoginsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := store.NewMemory()
		s := callers.NewBrokerStore(kv, "ada", "one")
		must.Do(t, s.Save(t.Context(), "token", []byte("value")))
		for _, used := range []bool{true, true, false} {
			time.Sleep(map[bool]time.Duration{true: 80, false: 91}[used] * 24 * time.Hour)
			value := must.Get(s.Load(t.Context(), "token"))(t)
			must.CheckEqual(t, (value != nil), used, value)
		}
	})
}

// A server can require that tokens are bound to a key. All replicas then use the same key.
func TestLoginsCanBeBoundToAKey(t *testing.T) {
	b := newBrokers(t)
	upstream := must.Get(devissuer.Start(devissuer.Config{Users: []string{"ada"}}))(t)
	defer upstream.Close()
	binding := logintest.NewProxy()
	defer binding.Close()
	b.proxy = binding.Of
	s := &server.Server{Name: "bound", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(ctx context.Context, _ struct {
		Name string `json:"name"`
	}) (string, error) {
		info := auth.FromContext(ctx)
		if info.KeyThumbprint == "" || info.Principal.Subject() != "ada" {
			return "", fmt.Errorf("the caller is %v", info)
		}
		return "Hello, Ada", nil
	})
	up := httptest.NewUnstartedServer(s)
	b.server = "http://" + up.Listener.Addr().String() + "/mcp"
	s.Auth = jwt.Protect(&auth.ProtectedResource{URI: b.server, Issuers: []string{upstream.URL()}, RequireDPoP: true,
		Verifier: binding.Verifier(&jwt.Verifier{Issuers: []string{upstream.URL()}})})
	up.Start()
	defer up.Close()
	defer s.Shutdown(context.Background())
	start, _ := b.required(b.call(0, "ada", "one"))
	ada := b.browser("ada")
	ada.signIn(start)
	_, _, page := ada.do(http.MethodPost, start, nil)
	redirect := must.Get((&logintest.Browser{}).Authorize(t.Context(), page))(t)
	status, body, _ := ada.do(http.MethodGet, redirect, nil)
	must.Equal(t, status, http.StatusOK, body)
	for replica := range b.all {
		must.Check(t, b.call(replica, "ada", "one"), replica)
	}
}

// The tokens of the callers that have been inactive for the longest time are forgotten.
func TestTokensOfCallersAreBounded(t *testing.T) {
	var made []string
	clients := &callers.Clients{New: func(caller principal.Principal) *oauth.Client {
		made = append(made, caller.Subject())
		return &oauth.Client{}
	}}
	use := func(subject string) {
		a := must.Get(clients.Authorizer(must.Get(principal.New("https://callers.example", subject, ""))(t)))(t)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://mcp.example/mcp", nil)
		must.Do(t, a.Authorize(r, "https://mcp.example/mcp"))
	}
	for i := range callers.MaxClients {
		use(fmt.Sprint(i))
	}
	for _, subject := range []string{"0", "new", "0", "1"} {
		use(subject)
	}
	got := made[callers.MaxClients:]
	must.CheckEqual(t, fmt.Sprint(got), "[new 1]", "new clients", got)
}

// The callers of a Broker log in with the settings of New, at any replica. Logins at the issuers have separate
// settings.
func TestBrokerLogsInWithTheSettingsOfTheServer(t *testing.T) {
	for _, set := range []bool{true, false} {
		b := newBrokers(t)
		b.w.RejectResource("invalid_request", "AADSTS901002: The 'resource' request parameter is not supported.")
		b.w.OnIssuer = func(m map[string]any) { delete(m, "code_challenge_methods_supported") }
		b.w.Lifetime = 0
		for _, one := range b.all {
			plain := one.New
			one.SignIn = plain
			one.New = func() *oauth.Client {
				c := plain()
				c.NoResource, c.AssumePKCE = set, set
				return c
			}
		}
		ada, start := b.browser("ada"), b.front.URL+"/login/start/one"
		if !set {
			ada.signIn(start)
			status, _, _ := ada.do(http.MethodPost, start, nil)
			must.CheckEqual(t, fmt.Sprint(status, b.reports), "502 [ada one false]", "without the settings")
			must.CheckContains(t, b.w.Log.String(), "AssumePKCE")
			continue
		}
		ada.logIn(start)
		b.w.Lifetime = 3600
		must.Check(t, b.call(1, "ada", "one")) // refreshes the token
		for _, v := range append(b.w.Queries, b.w.Forms...) {
			must.CheckThat(t, !v.Has("resource"), "a request names the resource: %v", v)
		}
		must.CheckEqual(t, len(b.w.Forms), 2)
	}
}

// At an issuer that rejects the parameter resource, users sign in with the scopes of the program.
func TestBrokerSignsInWithoutResource(t *testing.T) {
	b := newBrokers(t)
	for _, one := range b.all {
		plain := one.New
		one.Resource.Scopes = []string{"api://program/mcp"}
		one.SignIn = func() *oauth.Client {
			c := plain()
			c.NoResource = true
			return c
		}
	}
	_, _, page := b.browser("ada").do(http.MethodGet, b.front.URL+"/login/start/one", nil)
	q := must.Get(url.Parse(page))(t).Query()
	must.CheckThat(t, !q.Has("resource") && q.Get("scope") == "api://program/mcp", "the page of the issuer is %s", page)
}
