package browser

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/internal/authresponse"
	"github.com/parley-mcp/parley/auth/oauth/internal/webpage"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// Loopback is an [oauth.Interaction] that opens the user's browser and receives the redirect
// on the loopback interface (RFC 8252, section 7.3). The zero value works on a machine with a
// browser.
//
// Loopback first opens its own page, which sets a cookie and redirects the browser to the authorization page. This page
// only works for the first browser that opens it, and Loopback accepts the redirect only with the cookie, so that no
// other browser can complete the flow. It rejects other requests with an error page and continues to wait.
type Loopback struct {
	// Open opens a URL of the loopback interface in the user's browser; nil: [Open]. Its
	// ctx is done when the flow ends. See also [ShowURL].
	Open func(ctx context.Context, url string) error
	// Paste, if set, is for users whose browser runs on another machine, where the
	// redirect to the loopback interface fails. It shows the authorization page at url to the user, and
	// returns the URL that the browser was redirected to. It runs after Open, while the
	// listener waits; its ctx is cancelled when the listener receives the redirect. If the
	// URL belongs to another flow, Paste is called again, at most five times in all. An
	// error ends the flow.
	Paste func(ctx context.Context, url string) (redirect string, err error)
	// RedirectURI is the address to listen on, for authorization servers that accept registered redirect URIs only: an
	// http URL with a host of the loopback interface, such as "http://localhost:3118/callback". Without a port,
	// Loopback uses the port of the previous flow if it is free, or any free one. Empty means the redirect URI of the
	// registration, with another port if that one is not free, or "http://127.0.0.1/callback".
	RedirectURI string
	// Timeout is how long to wait for the user; 0 means 5 minutes.
	Timeout time.Duration
}

const (
	startPath      = "/login/" // followed by a random text
	redirectPath   = "/callback"
	defaultTimeout = 5 * time.Minute
	pageTimeout    = 5 * time.Second
	maxPageHeader  = 48 << 10
	maxPastes      = 5
)

// Begin implements [oauth.Interaction].
func (l *Loopback) Begin(_ context.Context, previous string) (oauth.Flow, error) {
	u, ports, err := l.address(previous)
	if err != nil {
		return nil, err
	}
	var listeners []net.Listener
	for _, port := range ports {
		if listeners, err = listenLoopback(u.Hostname(), port); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: cannot listen for the redirect: %w", oauth.ErrInteraction, err)
	}
	_, port, _ := net.SplitHostPort(listeners[0].Addr().String())
	f := &loopbackFlow{
		config: l, uri: l.RedirectURI, path: u.EscapedPath(), port: port, start: startPath + rand.Text(),
		timeout:  l.Timeout,
		redirect: make(chan string, 1), failed: make(chan error, 1),
	}
	u.Host = net.JoinHostPort(u.Hostname(), port)
	if len(ports) > 1 || ports[0] == anyPort { // else RedirectURI is used as it is registered
		f.uri = u.String()
	}
	if f.host = u.Host; port == "80" { // browsers leave it out
		f.host = strings.TrimSuffix(f.host, ":80")
	}
	if f.path == "" {
		f.path = "/"
	}
	if f.timeout <= 0 {
		f.timeout = defaultTimeout
	}
	f.server = &http.Server{
		Handler:           f,
		ReadHeaderTimeout: pageTimeout,
		WriteTimeout:      pageTimeout,
		IdleTimeout:       pageTimeout,
		MaxHeaderBytes:    maxPageHeader,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	for _, listener := range listeners {
		f.running.Go(func() { f.server.Serve(listener) })
	}
	return f, nil
}

const anyPort = "0"

// address returns the redirect URI of a flow, and the ports to try. previous is the redirect URI that was registered
// before.
func (l *Loopback) address(previous string) (u *url.URL, ports []string, err error) {
	if l.RedirectURI != "" {
		if u, err = parseLoopback(l.RedirectURI); err != nil {
			return nil, nil, err
		}
		if u.Port() != "" {
			return u, []string{u.Port()}, nil
		}
	}
	registered, err := parseLoopback(previous)
	switch {
	case err != nil && u == nil:
		u = &url.URL{Scheme: "http", Host: "127.0.0.1", Path: redirectPath}
	case err != nil, u != nil && (u.Hostname() != registered.Hostname() || u.EscapedPath() != registered.EscapedPath()):
	case registered.Port() != "":
		return registered, []string{registered.Port(), anyPort}, nil
	default:
		u = registered
	}
	return u, []string{anyPort}, nil
}

// parseLoopback parses a redirect URI for which Loopback can listen.
func parseLoopback(uri string) (*url.URL, error) {
	u, err := httpurl.Parse(uri)
	if err != nil {
		return nil, fmt.Errorf("redirect URI: %w", err)
	}
	if u.Scheme != "http" || !httpurl.IsLoopback(u.Hostname()) || u.RawQuery != "" ||
		strings.HasPrefix(u.Path, startPath) {
		return nil,
			fmt.Errorf("redirect URI: %w: it must be like http://localhost:3118/callback, with a host of the "+
				"loopback interface", httpurl.ErrInsecure)
	}
	return u, nil
}

// listenLoopback listens on a port of a host of the loopback interface. A browser can use either address of localhost,
// so no other program may listen on the second one.
func listenLoopback(host, port string) ([]net.Listener, error) {
	if !strings.EqualFold(host, "localhost") {
		one, err := net.Listen("tcp", net.JoinHostPort(host, port))
		return []net.Listener{one}, err
	}
	v4, err := net.Listen("tcp4", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	_, port, _ = net.SplitHostPort(v4.Addr().String())
	v6, err := net.Listen("tcp6", "[::1]:"+port)
	if err == nil {
		return []net.Listener{v4, v6}, nil
	}
	if free, errFree := net.Listen("tcp6", "[::1]:"+anyPort); errFree == nil {
		free.Close()
		v4.Close()
		return nil, err
	}
	return []net.Listener{v4}, nil // the machine has no IPv6
}

// loopbackFlow is a flow with an HTTP server on the loopback interface.
type loopbackFlow struct {
	config  *Loopback
	uri     string // redirect URI
	path    string // path of the redirect URI
	port    string // port of the listeners
	host    string // expected Host header of requests
	start   string // path of the page that redirects to the authorization page
	timeout time.Duration
	server  *http.Server
	running sync.WaitGroup

	mu      sync.Mutex
	page    string // URL of the authorization page
	state   string // state of the expected response; empty if none is expected
	browser string // digest of the cookie of the browser that has opened start; empty: none

	redirect chan string // capacity 1
	failed   chan error  // capacity 1; receives the error of Paste
}

func (f *loopbackFlow) RedirectURI() string { return f.uri }

func (f *loopbackFlow) Authorize(ctx context.Context, page string) (string, error) {
	u, err := url.Parse(page)
	if err != nil {
		return "", fmt.Errorf("%w: %w", httpurl.ErrInsecure, err)
	}
	f.mu.Lock()
	f.page, f.state = page, u.Query().Get("state")
	f.mu.Unlock()
	open := f.config.Open
	if open == nil {
		open = Open
	}
	opened, done := context.WithCancel(ctx)
	defer done()
	if err := open(opened, "http://"+f.host+f.start); err != nil {
		return "", fmt.Errorf("%w: %w", oauth.ErrInteraction, err)
	}
	if f.config.Paste != nil {
		pasteCtx, cancel := context.WithCancel(ctx)
		var pasting sync.WaitGroup
		pasting.Go(func() { f.paste(pasteCtx, page) })
		defer pasting.Wait()
		defer cancel()
	}
	timer := time.NewTimer(f.timeout)
	defer timer.Stop()
	select {
	case redirect := <-f.redirect:
		return redirect, nil
	case err := <-f.failed:
		return "", err
	case <-timer.C:
		return "", fmt.Errorf("%w: the user has not logged in within %v", oauth.ErrInteraction, f.timeout)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// paste gets the redirect from Loopback.Paste.
func (f *loopbackFlow) paste(ctx context.Context, page string) {
	for range maxPastes {
		redirect, err := f.config.Paste(ctx, page)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.failed <- err
			return
		case f.accept(redirect, func(string) bool { return true }):
			return
		}
	}
	f.failed <- fmt.Errorf("%w: the pasted URL belongs to another login (%d attempts)", authresponse.ErrState,
		maxPastes)
}

// ServeHTTP serves the start page and the redirect URI. Other programs and web pages can
// send requests here, too, and must not be able to complete or end the flow.
func (f *loopbackFlow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	webpage.SetHeaders(h)
	switch {
	case !strings.EqualFold(r.Host, f.host) || r.Method != http.MethodGet:
	case r.Header.Get("Sec-Purpose") != "": // a prefetch, not the user
	case subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(f.start)) == 1:
		page, cookie, other := f.begin(r)
		if other {
			webpage.Write(w, http.StatusForbidden, "Login started elsewhere",
				"This address works in the first browser that opens it. If that was not yours, end the login in the "+
					"program, and start it again.")
			return
		}
		if page != "" {
			f.setCookies(w, cookie, int(f.timeout/time.Second))
			h.Set("Location", page)
			w.WriteHeader(http.StatusSeeOther)
			return
		}
	case r.URL.EscapedPath() == f.path:
		if !f.accept(r.URL.RawQuery, func(browser string) bool {
			return webpage.CookieOf(r, f.cookieName(), browser) != ""
		}) {
			webpage.Write(w, http.StatusBadRequest, "Login not recognized",
				"This login was not started in this browser, or it has already ended. If a program is waiting for a "+
					"login, open the address that it shows.")
			return
		}
		f.setCookies(w, "", -1)
		title, text := "Login complete", "You can close this window and return to the program."
		if r.URL.Query().Has("error") {
			title, text = "Login failed", "You can close this window. The program shows the reason."
		}
		webpage.Write(w, http.StatusOK, title, text)
		return
	}
	webpage.Write(w, http.StatusNotFound, "Page not found", "This address only completes logins.")
}

// setCookies marks the browser that has opened the start page, for that page and for the redirect. Cookies are shared
// by all ports, so the name contains the port: two flows may run at the same time.
func (f *loopbackFlow) setCookies(w http.ResponseWriter, value string, lifetime int) {
	for _, path := range []string{f.path, f.start} {
		http.SetCookie(w, &http.Cookie{
			Name: f.cookieName(), Value: value, Path: path, MaxAge: lifetime,
			HttpOnly: true, SameSite: http.SameSiteLaxMode, // Strict would omit it in the cross-site redirect
		})
	}
}

func (f *loopbackFlow) cookieName() string { return "login_" + f.port }

// begin returns the URL of the authorization page and a cookie for the first browser that opens the start page, even if
// it opens the page again. other reports that r comes from another browser.
func (f *loopbackFlow) begin(r *http.Request) (page, cookie string, other bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == "" {
		return "", "", false
	}
	if f.browser == "" {
		cookie = rand.Text()
		f.browser = digest.Of(cookie)
	} else if cookie = webpage.CookieOf(r, f.cookieName(), f.browser); cookie == "" {
		return "", "", true
	}
	return f.page, cookie, false
}

// accept delivers the first redirect with the right state from the right browser. It
// reports whether it did.
func (f *loopbackFlow) accept(redirect string, from func(browser string) bool) bool {
	r, err := authresponse.Parse(redirect)
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == "" || subtle.ConstantTimeCompare([]byte(r.State), []byte(f.state)) != 1 || !from(f.browser) {
		return false
	}
	f.state = "" // accept each state once
	f.redirect <- redirect
	return true
}

// Close waits until the browser has received the last page, for at most a second.
func (f *loopbackFlow) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := f.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = f.server.Close()
	}
	f.running.Wait()
	return err
}
