package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Loopback is an Interaction that opens the user's browser, and listens on 127.0.0.1
// for it to come back (RFC 8252, section 7.3). The zero value works on a machine with
// a browser.
type Loopback struct {
	// Open shows a URL to the user; nil: [OpenBrowser]. For a user at another machine
	// see [ShowURL].
	Open func(ctx context.Context, url string) error
	// Port to listen on; 0: one that is free, or the one of the time before.
	Port int
	// Timeout is how long to wait for the user; 0: 5 minutes.
	Timeout time.Duration
}

// ShowURL is an Open that writes the URL where the user can read it. A browser at
// another machine gets back here through a tunnel to the Port of the Loopback.
func ShowURL(w io.Writer) func(context.Context, string) error {
	return func(_ context.Context, url string) error {
		_, err := fmt.Fprintf(w, "To log in, open this address in a browser:\n\n  %s\n\n", url)
		return err
	}
}

const (
	callbackPath  = "/callback"
	defaultVisit  = 5 * time.Minute
	pageTimeout   = 5 * time.Second
	maxPageHeader = 48 << 10
)

// Begin implements Interaction.
func (l *Loopback) Begin(_ context.Context, previous string) (Visit, error) {
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
	v := &visit{settings: l, redirect: "http://" + listener.Addr().String() + callbackPath, answer: make(chan string, 1)}
	v.server = &http.Server{
		Handler:           v,
		ReadHeaderTimeout: pageTimeout,
		WriteTimeout:      pageTimeout,
		IdleTimeout:       pageTimeout,
		MaxHeaderBytes:    maxPageHeader,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	v.serving.Go(func() { v.server.Serve(listener) })
	return v, nil
}

type visit struct {
	settings *Loopback
	redirect string
	server   *http.Server
	serving  sync.WaitGroup

	mu     sync.Mutex
	state  string      // that the answer has to have; empty: none is expected
	answer chan string // capacity 1
}

func (v *visit) RedirectURI() string { return v.redirect }

func (v *visit) Authorize(ctx context.Context, to string) (string, error) {
	u, err := url.Parse(to)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInsecureURL, err)
	}
	v.mu.Lock()
	v.state = u.Query().Get("state")
	v.mu.Unlock()
	open, limit := v.settings.Open, v.settings.Timeout
	if open == nil {
		open = OpenBrowser
	}
	if limit <= 0 {
		limit = defaultVisit
	}
	if err := open(ctx, to); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInteraction, err)
	}
	patience := time.NewTimer(limit)
	defer patience.Stop()
	select {
	case callback := <-v.answer:
		return callback, nil
	case <-patience.C:
		return "", fmt.Errorf("%w: the browser has not come back within %v", ErrInteraction, limit)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// ServeHTTP takes one answer, and only the one that belongs to the request: other
// programs and pages can get here too, and must not be able to end the visit.
func (v *visit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if "http://"+r.Host+callbackPath != v.redirect || r.URL.Path != callbackPath || r.Method != http.MethodGet {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, page("There is nothing here", "This address only takes the answer to a login."))
		return
	}
	if !v.take(r.URL.RawQuery) {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, page("This answer was not expected", "It belongs to no login that is under way. Start again from the program."))
		return
	}
	io.WriteString(w, page("Done here", "Go back to the program; this window can be closed."))
}

// take hands on an answer if it is the first with the right state.
func (v *visit) take(query string) bool {
	c, err := parseCallback(query)
	if err != nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state == "" || c.state != v.state {
		return false
	}
	v.state = "" // once
	v.answer <- query
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
	v.serving.Wait()
	return err
}

// page has nothing in it that came from outside.
func page(title, text string) string {
	return `<!doctype html><html lang="en"><meta charset="utf-8"><title>` + title + `</title>
<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem;color-scheme:light dark}</style>
<h1>` + title + `</h1><p>` + text + `</p></html>`
}
