package httpclient

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/mcp"
)

// Rules U3, R6: logs and errors contain neither the session id nor secrets of the URL or headers.
func TestSecretsAreNotLogged(t *testing.T) {
	const token, query = "the-secret-token", "the-secret-query"
	var logged syncbuffer.Buffer
	answers := []func(w http.ResponseWriter, body string){
		func(w http.ResponseWriter, _ string) { http.Error(w, "no", http.StatusInternalServerError) },
		func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ string) {
			w.Header().Set("Location", "http://other/?"+query)
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, _ string) { writeJSON(w, `{"jsonrpc":"2.0","id":4711,"result":{}}`) },
		func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNotFound) },
	}
	turn := 0
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if !handshake(w, r, body) && !noStream(w, r) {
			answers[turn](w, body)
		}
	})
	o := p.options(t)
	o.URL += "?key=" + query
	o.Header = http.Header{"Authorization": {"Bearer " + token}}
	o.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := newLegacy(t, o)
	var text strings.Builder
	for turn = range answers {
		_, err := list(t.Context(), c)
		fmt.Fprintln(&text, err)
	}
	p.net.Close()
	c.http.CloseIdleConnections()
	_, err := newModernError(t, o)
	fmt.Fprintln(&text, err)
	c.Close()
	for _, secret := range []string{theSession, token, query} {
		if all := logged.String() + text.String(); strings.Contains(all, secret) {
			t.Errorf("%q is in: %s", secret, all)
		}
	}
}

func newModernError(t *testing.T, o Options) (string, error) {
	return list(t.Context(), newModern(t, o))
}

func TestFailedConnectionIsErrNotSent(t *testing.T) {
	p := newPeer(t, nil)
	p.net.Close()
	_, err := list(t.Context(), newModern(t, p.options(t)))
	if !errors.Is(err, call.ErrNotSent) || !errors.Is(err, call.ErrConnectionLost) {
		t.Errorf("%v", err)
	}
}

func TestRedirectsWithinTheOriginAreFollowed(t *testing.T) {
	for name, tc := range map[string]struct {
		status, hops int
		ok           bool
	}{
		"one":                     {http.StatusTemporaryRedirect, 1, true},
		"three":                   {http.StatusPermanentRedirect, 3, true},
		"four":                    {http.StatusTemporaryRedirect, 4, false},
		"that lose the body, 301": {http.StatusMovedPermanently, 1, false},
		"that lose the body, 302": {http.StatusFound, 1, false},
		"that lose the body, 303": {http.StatusSeeOther, 1, false},
	} {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			n, _ := strconv.Atoi(r.URL.Query().Get("n"))
			if n < tc.hops {
				w.Header().Set("Location", "/mcp/"+strconv.Itoa(n+1)+"?n="+strconv.Itoa(n+1))
				w.WriteHeader(tc.status)
				return
			}
			if r.Header.Get("Authorization") != "Bearer t" || r.Header.Get("Mcp-Method") != mcp.MethodListTools {
				t.Errorf("%s: headers %v", name, r.Header)
			}
			writeJSON(w, resultOf(body))
		})
		o := p.options(t)
		o.Header = http.Header{"Authorization": {"Bearer t"}}
		_, err := list(t.Context(), newModern(t, o))
		var status *call.StatusError
		if tc.ok && err != nil || !tc.ok && (!errors.As(err, &status) || status.Status != tc.status) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The client sends no POST, GET or DELETE request to another origin, whatever the server
// answers.
// Rules U3, U8.
func TestRedirectsToAnotherOriginAreNotFollowed(t *testing.T) {
	sentinel := newPeer(t, func(_ http.ResponseWriter, r *http.Request, body string) {
		t.Errorf("another origin received: %s %s %v %s", r.Method, r.URL, r.Header, body)
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"http://other/mcp", "//other/mcp", "https://server/mcp", "http://server:8080/mcp", "http://user@other/mcp", "http://server.other/mcp"} {
			p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
				if methodOf(body) == mcp.MethodInitialize || methodOf(body) == mcp.NotificationInitialized {
					handshake(w, r, body)
					return
				}
				w.Header().Set("Location", location)
				w.WriteHeader(status)
			})
			o := p.options(t)
			home := o.HTTP.Transport
			o.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Scheme == "http" && r.URL.Host == "server" {
					return home.RoundTrip(r)
				}
				return sentinel.http.Transport.RoundTrip(r)
			})}
			o.Header = http.Header{"Authorization": {"Bearer t"}}
			c := newLegacy(t, o)
			var statusErr *call.StatusError
			if _, err := list(t.Context(), c); !errors.As(err, &statusErr) || statusErr.Status != status {
				t.Errorf("%d to %s: %v", status, location, err)
			}
			c.Close()
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
