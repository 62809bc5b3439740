package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/store"
)

// Web is an [Interaction] for programs on a web server, such as an MCP server that logs its
// users in to another server. It is an http.Handler for two pages: the first redirects the user's
// browser to the authorization page, and the second receives the redirect. With Store, any replica of
// the program may serve them, while the replica that began the login waits for the redirect.
//
// A login belongs to a user, and to the browser that has opened the first page last. For all
// other users and browsers it does not exist. Web accepts each redirect once. A user may have 16
// logins at a time. The PKCE verifier stays in the memory of the replica that began the login,
// which alone exchanges the authorization code; if the replica ends, the user must begin again.
//
// A Web is safe for concurrent use and must not be copied. Its fields must not be changed after
// the first use.
type Web struct {
	// URL is the https URL of ServeHTTP without a slash at its end, such as
	// "https://mcp.example.com/login": the handler must be mounted at its path and all paths
	// below it. All replicas must have the same URL. Http is allowed on the loopback interface.
	// The redirect URI is URL + "/callback".
	URL string
	// Open shows the user a URL below URL, for instance with server.ElicitURL. The URL contains
	// nothing that authorizes the user.
	Open func(ctx context.Context, url string) error
	// User returns the user who needs the login, such as the key of the principal of the call
	// that ctx belongs to. An error ends the login.
	User func(ctx context.Context) (user string, err error)
	// Visitor returns the user of the browser, by the program's own login. It must return the
	// same text as User for the same user. If the user is not logged in, Visitor writes a
	// response and returns false. Its cookies must have SameSite=Lax or None, because the
	// redirect comes from another site.
	Visitor func(w http.ResponseWriter, r *http.Request) (user string, ok bool)

	// Store stores the logins that wait for the user. All replicas must share it. Nil means the
	// memory of this process.
	Store store.Store
	// Keys encrypt the logins in Store. Each key must have at least 32 random bytes. The first key
	// encrypts and all keys decrypt. All replicas need the same keys. Store requires at least one.
	Keys [][]byte
	// Timeout is how long to wait for the user, at most 10 minutes; 0 means 5 minutes.
	Timeout time.Duration

	once sync.Once
	err  error
	base *url.URL
	kv   store.Store // encrypts the logins
}

const (
	maxWebTimeout = 10 * time.Minute
	maxWebLogins  = 16                     // of one user
	webStartPath  = "/start/"              // followed by the id of the login
	webPoll       = 250 * time.Millisecond // time between two reads of a login
	webGrace      = 5 * time.Second        // for operations after the context of a login has ended
)

// webLogin is a login that waits for the user. It is stored under the user and a digest of the state.
type webLogin struct {
	Page     string    `json:"page,omitzero"`     // URL of the authorization page, until the redirect
	Browser  string    `json:"browser,omitzero"`  // digest of the cookie of the browser that opened the first page last
	Redirect string    `json:"redirect,omitzero"` // query of the redirect
	Expires  time.Time `json:"expires"`
}

// Check returns nil, or an error that names a field with an invalid value and states what the value
// must be. Begin returns the same error, and ServeHTTP answers with status 500.
func (w *Web) Check() error {
	w.once.Do(func() { w.err = w.build() })
	return w.err
}

func (w *Web) build() (err error) {
	if err := checkRedirectURI(w.URL); err != nil {
		return fmt.Errorf("oauth: Web.URL: %w", err)
	}
	w.base, err = url.Parse(w.URL)
	switch {
	case err != nil || w.base.RawQuery != "" || w.base.Path == "" || strings.HasSuffix(w.base.Path, "/"):
		return errors.New("oauth: Web.URL must have a path, no slash at its end, and no query")
	case w.Open == nil || w.User == nil || w.Visitor == nil:
		return errors.New("oauth: Web.Open, Web.User and Web.Visitor must be set")
	case w.Store != nil && len(w.Keys) == 0:
		return errors.New("oauth: Web.Keys must have a key if Web.Store is set")
	case w.Timeout < 0 || w.Timeout > maxWebTimeout:
		return fmt.Errorf("oauth: Web.Timeout must be 0 to %v", maxWebTimeout)
	}
	seals, err := seal.New(w.Keys...)
	if err != nil {
		return fmt.Errorf("oauth: Web.Keys: %w", err)
	}
	if w.kv = w.Store; w.kv == nil {
		w.kv = store.NewMemory()
	}
	w.kv = seals.Store(w.kv, slog.Default())
	return nil
}

// Begin implements [Interaction].
func (w *Web) Begin(ctx context.Context, _ string) (Flow, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	user, err := w.User(ctx)
	if err == nil && user == "" {
		err = errors.New("Web.User returned no user")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInteraction, err)
	}
	return &webFlow{w, user}, nil
}

// webFlow is a flow of a user.
type webFlow struct {
	web  *Web
	user string
}

func (f *webFlow) RedirectURI() string { return f.web.URL + redirectPath }

func (f *webFlow) Close() error { return nil }

func (f *webFlow) Authorize(ctx context.Context, page string) (redirect string, err error) {
	u, err := url.Parse(page)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInsecureURL, err)
	}
	w, timeout := f.web, f.web.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	waiting, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("%w: the user has not logged in within %v", ErrInteraction, timeout))
	defer cancel()
	id := digest.Of(u.Query().Get("state"))
	defer w.remove(ctx, f.user, id) // also if create fails: it may have stored a part
	if err := w.create(waiting, f.user, id, &webLogin{Page: page, Expires: time.Now().Add(timeout)}); err != nil {
		return "", err
	}
	if err := w.Open(waiting, w.URL+webStartPath+id); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInteraction, err)
	}
	ticker := time.NewTicker(webPoll)
	defer ticker.Stop()
	for {
		login, _, err := w.load(waiting, f.user, id)
		switch {
		case err == nil && login.Redirect != "":
			return login.Redirect, nil
		case errors.Is(err, store.ErrNotFound):
			return "", fmt.Errorf("%w: the store has lost the login", ErrInteraction)
		}
		select {
		case <-ticker.C: // a store that fails may recover
		case <-waiting.Done():
			return "", errors.Join(context.Cause(waiting), err)
		}
	}
}

func loginSet(user string) string { return "login/" + digest.Of(user) }

func loginKey(user, id string) string { return loginSet(user) + "/" + id }

// create stores a login unless the user has too many.
func (w *Web) create(ctx context.Context, user, id string, login *webLogin) error {
	err := w.kv.Add(ctx, loginSet(user), id, time.Until(login.Expires), maxWebLogins)
	if errors.Is(err, store.ErrFull) {
		return fmt.Errorf("%w: the user has %d logins already: complete one, or wait until one expires",
			ErrTooManyAttempts, maxWebLogins)
	}
	if err == nil {
		err = w.save(ctx, user, id, login, store.PutOptions{IfAbsent: true})
	}
	if err != nil {
		return fmt.Errorf("cannot store the login: %w", err)
	}
	return nil
}

// remove deletes a login that has ended. If it fails, the login expires.
func (w *Web) remove(ctx context.Context, user, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), webGrace)
	defer cancel()
	_ = w.kv.Delete(ctx, loginKey(user, id))
	_ = w.kv.Remove(ctx, loginSet(user), id)
}

// save writes a login for the rest of its life.
func (w *Web) save(ctx context.Context, user, id string, login *webLogin, opt store.PutOptions) error {
	if opt.TTL = time.Until(login.Expires); opt.TTL <= 0 {
		return store.ErrNotFound
	}
	raw, err := json.Marshal(login)
	if err != nil {
		return err
	}
	_, err = w.kv.Put(ctx, loginKey(user, id), raw, opt)
	return err
}

// load reads a login and its version. The error is store.ErrNotFound if it does not exist, has
// expired or cannot be decrypted.
func (w *Web) load(ctx context.Context, user, id string) (*webLogin, uint64, error) {
	if len(id) != digest.Len {
		return nil, 0, store.ErrNotFound
	}
	item, err := w.kv.Get(ctx, loginKey(user, id))
	if err != nil {
		return nil, 0, err
	}
	login := new(webLogin)
	if err := json.Unmarshal(item.Value, login); err != nil || !time.Now().Before(login.Expires) {
		return nil, 0, store.ErrNotFound
	}
	return login, item.Version, nil
}

// webStoreTimeout bounds the store operations of a page.
const webStoreTimeout = 5 * time.Second

// ServeHTTP serves the page that redirects to the authorization page, and the redirect URI.
func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if err := w.Check(); err != nil {
		writePage(rw, http.StatusInternalServerError, "Not available", "Logins are not configured correctly.")
		return
	}
	path, below := strings.CutPrefix(r.URL.Path, w.base.Path)
	id, isStart := strings.CutPrefix(path, webStartPath)
	if !below || r.Method != http.MethodGet || !isStart && path != redirectPath {
		writePage(rw, http.StatusNotFound, "Page not found", "This address only completes logins.")
		return
	}
	user, ok := w.Visitor(rw, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), webStoreTimeout)
	defer cancel()
	var err error
	if isStart {
		err = w.serveStart(ctx, rw, r, user, id)
	} else {
		err = w.serveRedirect(ctx, rw, r, user)
	}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict):
		writePage(rw, http.StatusBadRequest, "Login not recognized",
			"This login was not started by you in this browser, or it has already ended. Start again in the program "+
				"that needs it.")
	default:
		writePage(rw, http.StatusServiceUnavailable, "Not available",
			"The login cannot be continued at the moment. Try again.")
	}
}

// serveStart binds a login to the browser, which it redirects to the authorization page. The
// cookies of browsers that opened the page before become invalid.
func (w *Web) serveStart(ctx context.Context, rw http.ResponseWriter, r *http.Request, user, id string) error {
	login, version, err := w.load(ctx, user, id)
	if err != nil {
		return err
	}
	if login.Redirect != "" {
		return store.ErrNotFound
	}
	cookie := rand.Text()
	login.Browser = digest.Of(cookie)
	if err := w.save(ctx, user, id, login, store.PutOptions{IfVersion: version}); err != nil {
		return err
	}
	setPageHeaders(rw.Header())
	http.SetCookie(rw, w.cookie(id, cookie, int(time.Until(login.Expires)/time.Second)+1))
	http.Redirect(rw, r, login.Page, http.StatusSeeOther)
	return nil
}

// serveRedirect hands the redirect over to the replica that waits for it, once.
func (w *Web) serveRedirect(ctx context.Context, rw http.ResponseWriter, r *http.Request, user string) error {
	response, err := parseAuthorizationResponse(r.URL.RawQuery)
	if err != nil || response.state == "" {
		return store.ErrNotFound
	}
	id := digest.Of(response.state)
	login, version, err := w.load(ctx, user, id)
	if err != nil {
		return err
	}
	if login.Redirect != "" || !hasCookie(r, w.cookie(id, "", 0).Name, login.Browser) {
		return store.ErrNotFound
	}
	login.Page, login.Browser, login.Redirect = "", "", "?"+r.URL.RawQuery
	if err := w.save(ctx, user, id, login, store.PutOptions{IfVersion: version}); err != nil {
		return err
	}
	http.SetCookie(rw, w.cookie(id, "", -1))
	if response.error != "" {
		writePage(rw, http.StatusOK, "Login failed", "You can close this window. The program shows the reason.")
	} else {
		writePage(rw, http.StatusOK, "Login complete", "You can close this window and return to the program.")
	}
	return nil
}

// cookie marks the browser that has opened the first page of a login. Each login has its own, so
// that a user can have two.
func (w *Web) cookie(id, value string, lifetime int) *http.Cookie {
	return newCookie(w.base, "login_"+id[:22], value, lifetime)
}

// newCookie returns a cookie for the pages below base. Other hosts cannot set a cookie with the prefix __Host-,
// which requires https. The lifetime is in seconds.
func newCookie(base *url.URL, name, value string, lifetime int) *http.Cookie {
	c := &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: lifetime,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, // Strict would omit it in the cross-site redirect
	}
	if base.Scheme == "https" {
		c.Name, c.Secure = "__Host-"+c.Name, true
	}
	return c
}

// setPageHeaders sets the headers of all pages: they run no scripts, cannot be framed and are not
// stored, and their URLs are not passed on.
func setPageHeaders(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// writePage writes a page with a title and a text, which must be constants.
func writePage(w http.ResponseWriter, status int, title, text string) {
	setPageHeaders(w.Header())
	w.WriteHeader(status)
	_, _ = io.WriteString(w, htmlPage(title, text))
}

// htmlPage returns a page with a title and a text, which must be constants.
func htmlPage(title, text string) string { return htmlDocument(title, "<p>"+text+"</p>") }

// htmlDocument returns a page with a title and a body, which must be HTML.
func htmlDocument(title, body string) string {
	return `<!doctype html><html lang="en"><meta charset="utf-8"><title>` + title + `</title>
<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem;color-scheme:light dark}</style>
<h1>` + title + `</h1>` + body + `</html>`
}
