package oauth

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
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/digest"
)

// Loopback is an Interaction that opens the user's browser, and listens on 127.0.0.1
// for it to come back (RFC 8252, section 7.3). The zero value works on a machine with
// a browser.
//
// The browser is first led to the listener itself, which marks it with a cookie and
// sends it on to the authorization server. An answer that another browser brings is
// refused with a page that says so, and the login goes on: nobody can log a user in
// with an answer of their own.
type Loopback struct {
	// Open shows a URL to the user; nil: [OpenBrowser]. It is one of the listener's. See
	// [ShowURL].
	Open func(ctx context.Context, url string) error
	// Paste, if set, is for a user whose browser is at another machine and cannot come
	// back here: it shows them url, and returns the address at which they end up. It is
	// called after Open, while the listener waits, and ctx ends when that has got an
	// answer. What it returns need not be what another browser could not know: who pastes
	// it is the user. What belongs to another login is asked for again, at most five
	// times. Its error ends the login.
	Paste func(ctx context.Context, url string) (callback string, err error)
	// Port to listen on; 0: one that is free, or the one of the time before.
	Port int
	// Timeout is how long to wait for the user; 0: 5 minutes.
	Timeout time.Duration
}

// ShowURL is an Open that writes the URL where the user can read it. A browser at
// another machine gets here through a tunnel to the Port of the Loopback.
func ShowURL(w io.Writer) func(context.Context, string) error {
	return func(_ context.Context, url string) error {
		_, err := fmt.Fprintf(w, "To log in, open this address in a browser:\n\n  %s\n\n", url)
		return err
	}
}

const (
	startPath     = "/login/" // and what nobody can guess
	callbackPath  = "/callback"
	defaultVisit  = 5 * time.Minute
	pageTimeout   = 5 * time.Second
	maxPageHeader = 48 << 10
	maxPastes     = 5
)

// Begin implements Interaction.
func (l *Loopback) Begin(_ context.Context, previous string) (Flow, error) {
	ports := []string{fmt.Sprint(l.Port)}
	if u, err := url.Parse(previous); err == nil && l.Port == 0 && u.Host == "127.0.0.1:"+u.Port() {
		ports = []string{u.Port(), "0"}
	}
	var listener net.Listener
	var err error
	for _, port := range ports {
		if listener, err = net.Listen("tcp4", "127.0.0.1:"+port); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: cannot listen for the browser: %w", ErrInteraction, err)
	}
	v := &visit{
		settings: l, host: listener.Addr().String(), start: startPath + rand.Text(), patience: l.Timeout,
		answer: make(chan string, 1), failed: make(chan error, 1),
	}
	if v.patience <= 0 {
		v.patience = defaultVisit
	}
	v.server = &http.Server{
		Handler:           v,
		ReadHeaderTimeout: pageTimeout,
		WriteTimeout:      pageTimeout,
		IdleTimeout:       pageTimeout,
		MaxHeaderBytes:    maxPageHeader,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	v.running.Go(func() { v.server.Serve(listener) })
	return v, nil
}

type visit struct {
	settings *Loopback
	host     string // where it listens
	start    string // path of the page to begin at
	patience time.Duration
	server   *http.Server
	running  sync.WaitGroup

	mu      sync.Mutex
	target  string // of the authorization server
	state   string // that the answer has to have; empty: none is expected
	browser string // digest of the cookie of the browser that has begun last; empty: none has

	answer chan string // capacity 1
	failed chan error  // capacity 1, of Paste
}

func (v *visit) RedirectURI() string { return "http://" + v.host + callbackPath }

func (v *visit) Authorize(ctx context.Context, to string) (string, error) {
	u, err := url.Parse(to)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInsecureURL, err)
	}
	v.mu.Lock()
	v.target, v.state = to, u.Query().Get("state")
	v.mu.Unlock()
	open := v.settings.Open
	if open == nil {
		open = OpenBrowser
	}
	if err := open(ctx, "http://"+v.host+v.start); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInteraction, err)
	}
	if v.settings.Paste != nil {
		pasting, done := context.WithCancel(ctx)
		var reading sync.WaitGroup
		reading.Go(func() { v.paste(pasting, to) })
		defer reading.Wait()
		defer done()
	}
	patience := time.NewTimer(v.patience)
	defer patience.Stop()
	select {
	case callback := <-v.answer:
		return callback, nil
	case err := <-v.failed:
		return "", err
	case <-patience.C:
		return "", fmt.Errorf("%w: the browser has not come back within %v", ErrInteraction, v.patience)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// paste takes what the user brings by hand.
func (v *visit) paste(ctx context.Context, to string) {
	for range maxPastes {
		callback, err := v.settings.Paste(ctx, to)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			v.failed <- err
			return
		case v.take(callback, func(string) bool { return true }):
			return
		}
	}
	v.failed <- fmt.Errorf("%w: what was pasted belongs to another login, %d times", ErrState, maxPastes)
}

// ServeHTTP takes one answer, and only the one that belongs to the request and comes in
// the browser that was sent out with it: other programs and pages can get here too, and
// must not be able to end the visit.
func (v *visit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case r.Host != v.host || r.Method != http.MethodGet:
	case subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(v.start)) == 1:
		if target, cookie := v.begin(); target != "" {
			http.SetCookie(w, v.cookie(cookie, int(v.patience/time.Second)))
			h.Set("Location", target)
			w.WriteHeader(http.StatusSeeOther)
			return
		}
	case r.URL.Path == callbackPath:
		if !v.take(r.URL.RawQuery, func(browser string) bool { return isMarked(r, v.cookie("", 0).Name, browser) }) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, page("This answer was not expected", "It belongs to no login that was begun in this browser. If a program waits for one, open the address that it has shown."))
			return
		}
		http.SetCookie(w, v.cookie("", -1))
		io.WriteString(w, page("Done here", "Go back to the program; this window can be closed."))
		return
	}
	w.WriteHeader(http.StatusNotFound)
	io.WriteString(w, page("There is nothing here", "This address only takes the answer to a login."))
}

// cookie marks the browser in which the login has begun. Cookies do not know ports, so
// that the port is in its name: two logins may be under way.
func (v *visit) cookie(value string, lifetime int) *http.Cookie {
	_, port, _ := net.SplitHostPort(v.host)
	return &http.Cookie{
		Name: "login_" + port, Value: value, Path: callbackPath, MaxAge: lifetime,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, // the answer comes by a link of another site
	}
}

// begin lets a browser begin, which takes the place of one that has before.
func (v *visit) begin() (target, cookie string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state == "" {
		return "", ""
	}
	cookie = rand.Text()
	v.browser = digest.Of(cookie)
	return v.target, cookie
}

// isMarked reports whether a request has the cookie of a browser. There may be another
// of the same name, for a longer path, that somebody else has set.
func isMarked(r *http.Request, name, browser string) bool {
	for _, c := range r.CookiesNamed(name) {
		if browser != "" && subtle.ConstantTimeCompare([]byte(digest.Of(c.Value)), []byte(browser)) == 1 {
			return true
		}
	}
	return false
}

// take hands on an answer if it is the first with the right state, from the right browser.
func (v *visit) take(answer string, from func(browser string) bool) bool {
	c, err := parseCallback(answer)
	if err != nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state == "" || subtle.ConstantTimeCompare([]byte(c.state), []byte(v.state)) != 1 || !from(v.browser) {
		return false
	}
	v.state = "" // once
	v.answer <- answer
	return true
}

// Close lets the last page get to the browser.
func (v *visit) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := v.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = v.server.Close()
	}
	v.running.Wait()
	return err
}

// page has nothing in it that came from outside.
func page(title, text string) string {
	return `<!doctype html><html lang="en"><meta charset="utf-8"><title>` + title + `</title>
<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem;color-scheme:light dark}</style>
<h1>` + title + `</h1><p>` + text + `</p></html>`
}
