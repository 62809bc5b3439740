package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
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
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

type userKey struct{}

// ofUser returns a context of a call of a user.
func ofUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// newWeb returns a replica of a program. The user of a browser is in the header X-User.
func newWeb(url string, kv store.Store) *oauth.Web {
	w := &oauth.Web{
		URL: url,
		User: func(ctx context.Context) (string, error) {
			user, _ := ctx.Value(userKey{}).(string)
			return user, nil
		},
		Visitor: func(w http.ResponseWriter, r *http.Request) (string, bool) {
			user := r.Header.Get("X-User")
			if user == "" {
				http.Error(w, "log in first", http.StatusUnauthorized)
			}
			return user, user != ""
		},
		Store: kv,
	}
	if kv != nil {
		w.Keys = [][]byte{make([]byte, 32)}
	}
	return w
}

// roundRobin sends each request to the next handler, and records which handler gets it.
type roundRobin struct {
	handlers []http.Handler

	mu    sync.Mutex
	next  int
	paths []string // for each handler in turn
}

func (r *roundRobin) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	h := r.handlers[r.next%len(r.handlers)]
	r.next++
	r.paths = append(r.paths, req.URL.Path)
	r.mu.Unlock()
	h.ServeHTTP(rw, req)
}

// userTransport is the transport of a browser whose user is logged in at the program.
type userTransport string

func (v userTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req.Header.Set("X-User", string(v))
	return http.DefaultTransport.RoundTrip(req)
}

// A user logs in although the first page and the redirect reach other replicas than the one that
// needs the login.
func TestLoginIsCompletedByOtherReplicas(t *testing.T) {
	issuer := must.Get(devissuer.Start(devissuer.Config{Users: []string{"ada"}}))(t)
	defer issuer.Close()
	s := &server.Server{Name: "upstream", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ struct{}) (string, error) {
		return auth.FromContext(ctx).Principal.Subject(), nil
	})
	upstream := httptest.NewUnstartedServer(s)
	s.Auth = jwt.Protect(&auth.ProtectedResource{URI: "http://" + upstream.Listener.Addr().String() + "/mcp",
		Issuers: []string{issuer.URL()}})
	upstream.Start()
	defer upstream.Close()
	defer s.Shutdown(context.Background())

	shared := store.NewMemory()
	front := &roundRobin{}
	proxy := httptest.NewServer(front)
	defer proxy.Close()
	for range 2 { // the replica that needs the login receives no page
		front.handlers = append(front.handlers, newWeb(proxy.URL+"/login", shared))
	}
	waiting := newWeb(proxy.URL+"/login", shared)
	var browsing sync.WaitGroup
	defer browsing.Wait()
	waiting.Open = func(ctx context.Context, url string) error {
		browsing.Go(func() {
			b := &logintest.Browser{User: "ada", Transport: userTransport("ada")}
			if text, err := b.LogIn(context.WithoutCancel(ctx), url); err != nil ||
				!strings.Contains(text, "Login complete") {
				t.Errorf("%s, %v", text, err)
			}
		})
		return nil
	}
	for _, h := range front.handlers {
		h.(*oauth.Web).Open = waiting.Open
	}
	d := client.Dialer{Auth: &oauth.Client{Interaction: waiting}}
	c := must.Get(d.Dial(ofUser(t.Context(), "ada"), client.URL(s.Auth.URI)))(t)
	defer c.Close()
	who := must.Get(client.CallTool[string](t.Context(), c, "whoami", struct{}{}))(t)
	must.CheckEqual(t, who, "ada")
	if len(front.paths) != 2 || !strings.HasPrefix(front.paths[0], "/login/start/") ||
		front.paths[1] != "/login/callback" {
		t.Errorf("requests: %q", front.paths)
	}
	if left, err := shared.List(t.Context(), "login/"+digest.Of("ada"), "", 10); err != nil || len(left) != 0 {
		t.Errorf("the store still has %v, %v", left, err)
	}
}

// webBrowser is the browser of a user.
type webBrowser struct {
	*browser
	user string
}

// webLogins starts replicas and returns browsers of users, and a function that begins a login and
// returns the URL of its first page and its outcome.
type webLogins struct {
	t   *testing.T
	url string
	all []*oauth.Web
	kv  store.Store
}

const webPage = "https://as.example/authorize?state="

func newWebLogins(t *testing.T, kv store.Store) *webLogins {
	l := &webLogins{t: t, kv: kv}
	front := &roundRobin{}
	proxy := httptest.NewServer(front)
	t.Cleanup(proxy.Close)
	l.url = proxy.URL + "/login"
	for range 2 {
		w := newWeb(l.url, kv)
		l.all = append(l.all, w)
		front.handlers = append(front.handlers, w)
		w.Open = func(context.Context, string) error { return nil }
	}
	return l
}

func (l *webLogins) browser(user string) webBrowser {
	b := newBrowser(l.t)
	b.c.Transport = userTransport(user)
	return webBrowser{b, user}
}

type webOutcome struct {
	redirect string
	err      error
}

// begin begins a login of a user and returns the URL of its first page.
func (l *webLogins) begin(ctx context.Context, user, state string) (start string, outcome <-chan webOutcome) {
	l.t.Helper()
	w := newWeb(l.url, l.kv)
	opened, ended := make(chan string, 1), make(chan webOutcome, 1)
	w.Open = func(_ context.Context, url string) error { opened <- url; return nil }
	flow := must.Get(w.Begin(ofUser(ctx, user), ""))(l.t)
	must.CheckEqual(l.t, flow.RedirectURI(), l.url+"/callback")
	go func() {
		redirect, err := flow.Authorize(ctx, webPage+state)
		ended <- webOutcome{redirect, err}
	}()
	select {
	case start = <-opened:
	case o := <-ended:
		l.t.Fatalf("%v", o.err)
	}
	return start, ended
}

// Rule O8: a login exists for the user who began it, in the browser that opened its first page last,
// and once. All other requests get the page of a login that does not exist.
func TestWebLoginsBelongToUserAndBrowser(t *testing.T) {
	l := newWebLogins(t, store.NewMemory())
	ctx, cancel := context.WithCancel(t.Context())
	start, outcome := l.begin(ctx, "ada", "her-state")
	other, abandoned := l.begin(ctx, "eve", "eves-state")
	ada, eve, second := l.browser("ada"), l.browser("eve"), l.browser("ada")
	callback := l.url + "/callback?code=the-code&state="

	missing, unknown, _ := ada.get(l.url+"/start/"+strings.Repeat("A", 43), "")
	denied := func(what string, b webBrowser, url string) {
		t.Helper()
		if status, body, location := b.get(url, ""); status != missing || status != http.StatusBadRequest ||
			body != unknown || location != "" {
			t.Errorf("%s: %d %s %s", what, status, body, location)
		}
	}
	denied("another user opens the page", eve, start)
	denied("a user is sent to the login of another one", ada, other)
	denied("no login", ada, l.url+"/start/")
	denied("a callback before the page was opened", ada, callback+"her-state")
	for _, b := range []webBrowser{second, ada} { // the last one counts
		if status, _, location := b.get(start, ""); status != http.StatusSeeOther || location != webPage+"her-state" {
			t.Fatalf("%d %s", status, location)
		}
	}
	denied("a callback in an earlier browser", second, callback+"her-state")
	denied("a callback in a browser without the cookie", l.browser("ada"), callback+"her-state")
	denied("a callback of another user", webBrowser{&browser{t,
		http.Client{Jar: ada.c.Jar, Transport: userTransport("eve"), CheckRedirect: ada.c.CheckRedirect}}, "eve"},
		callback+"her-state")
	denied("another state", ada, callback+"eves-state")
	denied("no state", ada, l.url+"/callback?code=the-code")
	denied("two states", ada, callback+"her-state&state=her-state")
	select {
	case o := <-outcome:
		t.Fatalf("the login ended: %v", o)
	default:
	}
	if status, body, _ := ada.get(callback+"her-state", ""); status != http.StatusOK ||
		!strings.Contains(body, "Login complete") {
		t.Errorf("%d %s", status, body)
	}
	denied("a callback again", ada, callback+"her-state")
	denied("the page again", ada, start)
	if o := <-outcome; o.err != nil || o.redirect != "?code=the-code&state=her-state" {
		t.Errorf("%v", o)
	}
	denied("a callback after the login", ada, callback+"her-state")
	cancel()
	if o := <-abandoned; !errors.Is(o.err, context.Canceled) {
		t.Errorf("%v", o)
	}
	denied("the page of a login that was cancelled", eve, other)

	if status, body, _ := (&webBrowser{newBrowser(t), ""}).get(start, ""); status != http.StatusUnauthorized ||
		strings.TrimSpace(body) != "log in first" {
		t.Errorf("a browser without user: %d %s", status, body)
	}
	if status, _, _ := ada.get(l.url+"/other", ""); status != http.StatusNotFound {
		t.Errorf("another path: %d", status)
	}
}

// gatedKV lets reads that began while the gate is closed return when it opens.
type gatedKV struct {
	store.Store
	mu    sync.Mutex
	gate  chan struct{} // nil: open
	reads chan struct{} // receives a value for each read at the closed gate
}

func (k *gatedKV) Get(ctx context.Context, key string) (store.Item, error) {
	item, err := k.Store.Get(ctx, key)
	k.mu.Lock()
	gate := k.gate
	k.mu.Unlock()
	if gate != nil {
		k.reads <- struct{}{}
		<-gate
	}
	return item, err
}

// Of concurrent redirects one is accepted, whatever replicas they reach.
func TestWebAcceptsARedirectOnce(t *testing.T) {
	const redirects = 4
	kv := &gatedKV{Store: store.NewMemory(), reads: make(chan struct{}, 100)}
	l := newWebLogins(t, kv)
	start, outcome := l.begin(t.Context(), "ada", "the-state")
	b := l.browser("ada")
	b.get(start, "")
	gate := make(chan struct{})
	kv.mu.Lock()
	kv.gate = gate
	kv.mu.Unlock()
	var accepted atomic.Int32
	var requesting sync.WaitGroup
	for range redirects {
		requesting.Go(func() {
			if status, _, _ := b.get(l.url+"/callback?code=c&state=the-state", ""); status == http.StatusOK {
				accepted.Add(1)
			}
		})
	}
	for range redirects + 1 { // the replica that waits reads, too
		<-kv.reads
	}
	kv.mu.Lock()
	kv.gate = nil
	kv.mu.Unlock()
	close(gate)
	requesting.Wait()
	if o := <-outcome; o.err != nil || accepted.Load() != 1 {
		t.Errorf("%d accepted, %v", accepted.Load(), o)
	}
}

// recordedKV records what is written.
type recordedKV struct {
	store.Store
	mu  sync.Mutex
	all []string
}

func (k *recordedKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	k.mu.Lock()
	k.all = append(k.all, key, string(value))
	k.mu.Unlock()
	if opt.TTL > 10*time.Minute {
		return 0, errors.New("the TTL exceeds ten minutes")
	}
	return k.Store.Put(ctx, key, value, opt)
}

// The store has neither the state nor the code in plain text.
func TestStoredWebLoginsAreEncrypted(t *testing.T) {
	kv := &recordedKV{Store: store.NewMemory()}
	l := newWebLogins(t, kv)
	start, outcome := l.begin(t.Context(), "ada", "canary-state")
	b := l.browser("ada")
	b.get(start, "")
	b.get(l.url+"/callback?code=canary-code&state=canary-state", "")
	if o := <-outcome; o.err != nil {
		t.Fatal(o.err)
	}
	if all := strings.Join(kv.all, "\n"); strings.Contains(all, "canary") || strings.Contains(all, "as.example") ||
		len(kv.all) != 6 {
		t.Errorf("%d: %q", len(kv.all), all)
	}
	if strings.Contains(start, "canary") {
		t.Errorf("%s", start)
	}
}

func TestWebLoginsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb("http://127.0.0.1/login", nil)
		w.Open = func(context.Context, string) error { return nil }
		w.Timeout = time.Minute
		login := func(user string, state string) error {
			flow := must.Get(w.Begin(ofUser(t.Context(), user), ""))(t)
			defer flow.Close()
			_, err := flow.Authorize(t.Context(), webPage+state)
			return err
		}
		var waiting sync.WaitGroup
		for i := range 16 {
			waiting.Go(func() {
				began := time.Now()
				if err := login("ada", string(rune('a'+i))); !errors.Is(err, oauth.ErrInteraction) ||
					time.Since(began) != time.Minute {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		}
		synctest.Wait()
		must.CheckIs(t, login("ada", "one more"), oauth.ErrTooManyAttempts)
		waiting.Go(func() {
			must.CheckIs(t, login("bob", "a"), oauth.ErrInteraction)
		})
		waiting.Wait()
		must.CheckIs(t, login("ada", "later"), oauth.ErrInteraction)
	})
}

// readOnlyKV fails to store values.
type readOnlyKV struct{ store.Store }

func (readOnlyKV) Put(context.Context, string, []byte, store.PutOptions) (uint64, error) {
	return 0, errors.New("no memory left")
}

// A login that cannot be stored must not count for the limit of its user.
func TestWebLoginThatCannotBeStoredIsRemoved(t *testing.T) {
	w := newWeb("http://127.0.0.1/login", readOnlyKV{store.NewMemory()})
	w.Open = func(context.Context, string) error { return nil }
	for i := range 20 {
		flow := must.Get(w.Begin(ofUser(t.Context(), "ada"), ""))(t)
		if _, err := flow.Authorize(t.Context(), webPage+string(rune('a'+i))); err == nil ||
			errors.Is(err, oauth.ErrTooManyAttempts) {
			t.Fatalf("attempt %d: %v", i, err)
		}
	}
}

func TestWebChecksItsFields(t *testing.T) {
	for want, change := range map[string]func(*oauth.Web){
		"Web.URL: redirect URI":        func(w *oauth.Web) { w.URL = "http://example.com/login" },
		"Web.URL must have a path":     func(w *oauth.Web) { w.URL = "https://example.com/login/" },
		"Web.Open, Web.User and":       func(w *oauth.Web) { w.Visitor = nil },
		"Web.Keys must have a key":     func(w *oauth.Web) { w.Store = store.NewMemory() },
		"Web.Keys: key 0 has 5 bytes":  func(w *oauth.Web) { w.Keys = [][]byte{[]byte("short")} },
		"Web.Timeout must be 0 to 10m": func(w *oauth.Web) { w.Timeout = time.Hour },
	} {
		w := newWeb("https://example.com/login", nil)
		w.Open = func(context.Context, string) error { return nil }
		change(w)
		if err := w.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := w.Begin(t.Context(), ""); err == nil {
			t.Errorf("%s: Begin returned no error", want)
		}
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/login/callback", nil))
		must.CheckEqual(t, answer.Code, http.StatusInternalServerError, want)
	}
	w := newWeb("https://example.com/login", nil)
	w.Open = func(context.Context, string) error { return nil }
	if _, err := w.Begin(t.Context(), ""); !errors.Is(err, oauth.ErrInteraction) {
		t.Errorf("without a user: %v", err)
	}
}

// Over https, another host of the domain cannot set the cookie.
func TestCookieOfAWebLogin(t *testing.T) {
	for url, want := range map[string][]string{
		"https://example.com/login":   {"__Host-login_", "Secure"},
		"http://127.0.0.1:8080/login": {"login_"},
	} {
		w := newWeb(url, nil)
		opened := make(chan string, 1)
		w.Open = func(_ context.Context, url string) error { opened <- url; return nil }
		ctx, cancel := context.WithCancel(t.Context())
		flow := must.Get(w.Begin(ofUser(ctx, "ada"), ""))(t)
		ended := make(chan struct{})
		go func() {
			_, _ = flow.Authorize(ctx, webPage+"s")
			close(ended)
		}()
		request := httptest.NewRequest(http.MethodGet, <-opened, nil)
		request.Header.Set("X-User", "ada")
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, request)
		cookie := answer.Header().Get("Set-Cookie")
		parts := strings.Split(cookie, "; ")
		if !strings.HasPrefix(cookie, want[0]) || slices.Contains(parts, "Secure") != (len(want) > 1) ||
			!slices.Contains(parts, "HttpOnly") ||
			!slices.Contains(parts, "SameSite=Lax") || !slices.Contains(parts, "Path=/") ||
			!slices.Contains(parts, "Max-Age=300") {
			t.Errorf("%s", cookie)
		}
		cancel()
		<-ended
	}
}
