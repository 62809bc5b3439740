package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
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
		all := logged.String() + text.String()
		must.CheckThat(t, !strings.Contains(all, secret), "%q is in: %s", secret, all)
	}
}

func newModernError(t *testing.T, o Options) (string, error) {
	return list(t.Context(), newModern(t, o))
}

func TestFailedConnectionIsErrNotSent(t *testing.T) {
	p := newPeer(t, nil)
	p.net.Close()
	_, err := list(t.Context(), newModern(t, p.options(t)))
	must.CheckIs(t, err, call.ErrNotSent)
	must.CheckIs(t, err, call.ErrConnectionLost)
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
			must.CheckEqual(t, r.Header.Get("Authorization"), "Bearer t", name, r.Header)
			must.CheckEqual(t, r.Header.Get("Mcp-Method"), mcp.MethodListTools, name, r.Header)
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

// The client sends no POST, GET or DELETE request to another origin, whatever the server answers.
// Rules U3, U8.
func TestRedirectsToAnotherOriginAreNotFollowed(t *testing.T) {
	sentinel := newPeer(t, func(_ http.ResponseWriter, r *http.Request, body string) {
		t.Errorf("another origin received: %s %s %v %s", r.Method, r.URL, r.Header, body)
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"http://other/mcp", "//other/mcp", "https://server/mcp",
			"http://server:8080/mcp",
			"http://user@other/mcp", "http://server.other/mcp"} {
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

// passport is an Authorizer that returns one token after the other.
type passport struct {
	mu   sync.Mutex
	good int
	err  error
}

func (p *passport) Authorize(req *http.Request, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.good > 0 {
		req.Header.Set("Authorization", "Bearer "+strings.Repeat("x", p.good))
	}
	return nil
}

func (p *passport) Reauthorize(req *http.Request, _ string, _ *http.Response) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.good++
	return p.err == nil, p.err
}

func authorizing(url string, p *passport) *http.Client {
	o := Options{URL: url, Auth: p}
	c := o.newHTTP()
	c.Transport = &http.Transport{DisableKeepAlives: true}
	o.authorize(c, nil)
	return c
}

// Rule U7: a rejected request is sent again with its body and other credentials, a limited
// number of times. DELETE is not sent again.
func TestRejectedRequestIsSentAgain(t *testing.T) {
	for _, tc := range []struct {
		method string
		wants  string // the token that is valid
		sent   int
		status int
	}{
		{http.MethodPost, "Bearer xx", 3, 200},
		{http.MethodGet, "Bearer x", 2, 200},
		{http.MethodPost, "never", 1 + maxReauthorizations, 401},
		{http.MethodDelete, "Bearer x", 1, 401},
	} {
		sent := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent++
			body := make([]byte, 10)
			if n, _ := r.Body.Read(body); string(body[:n]) != "body" && r.Method == http.MethodPost {
				t.Errorf("attempt %d has the body %q", sent, body[:n])
			}
			if r.Header.Get("Authorization") != tc.wants {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
		defer s.Close()
		c := authorizing(s.URL, &passport{})
		req, _ := http.NewRequest(tc.method, s.URL, nil)
		if tc.method == http.MethodPost {
			req, _ = http.NewRequest(tc.method, s.URL, strings.NewReader("body"))
		}
		resp := must.Get(c.Do(req))(t)
		resp.Body.Close()
		must.CheckEqual(t, sent, tc.sent, tc.method, tc.wants)
		must.CheckEqual(t, resp.StatusCode, tc.status, tc.method, tc.wants)
		must.CheckEqual(t, req.Header.Get("Authorization"), "")
	}
}

// Rule U8: a request that is redirected to another origin carries no credentials.
func TestCredentialsDoNotFollowRedirects(t *testing.T) {
	var got []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	c := authorizing(s.URL, &passport{good: 1})
	c.CheckRedirect = nil // even if redirects were followed
	resp := must.Get(c.Get(s.URL))(t)
	resp.Body.Close()
	must.CheckThat(t, slices.Equal(got, []string{""}), "the other origin received %q", got)
}

func TestFailedAuthorizationIsErrUnauthorized(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	declined := errors.New("declined")
	_, err := authorizing(s.URL, &passport{err: declined}).Get(s.URL)
	err = sendError(t.Context(), err)
	must.That(t, errors.Is(err, call.ErrUnauthorized) && errors.Is(err, declined) &&
		!errors.Is(err, call.ErrConnectionLost), "%v", err)
}

// distant is a connection over a network: the client learns late that the server has closed it, and until then its
// operating system accepts bytes.
type distant struct{ net.Conn }

const distance = 50 * time.Millisecond

func (d distant) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if err == io.EOF {
		time.Sleep(distance)
	}
	return n, err
}

func (d distant) Write(p []byte) (int, error) {
	n, err := d.Conn.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		return len(p), nil
	}
	return n, err
}

// serveIdle serves HTTP in memory and closes connections that are idle for timeout. It returns a client of
// NewTransport. Connections to the server and their states are passed to watch.
func serveIdle(t *testing.T, timeout time.Duration, announced string,
	watch func(net.Conn, http.ConnState)) http.RoundTripper {
	t.Helper()
	n := &network{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{IdleTimeout: timeout, ConnState: watch,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if announced != "" {
				w.Header().Set("Keep-Alive", announced)
			}
			_, _ = io.WriteString(w, "ok")
		})}
	go func() { _ = s.Serve(n) }()
	tr := NewTransport().(*transport)
	own := tr.current.Load()
	own.Proxy, own.DialContext = nil, func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := n.dial(ctx, network, address)
		return distant{c}, err
	}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		s.Close()
	})
	return tr
}

// post sends a POST request and reads the response.
func post(t *testing.T, tr http.RoundTripper) error {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server/", strings.NewReader("{}"))
	must.Do(t, err)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.ReadAll(resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func TestIdleConnectionsAreClosedBeforeTheServerClosesThem(t *testing.T) {
	for announced, want := range map[string]time.Duration{
		"": 4 * time.Second, "timeout=5": 4 * time.Second, "timeout=3, max=100": 2 * time.Second,
		"max=100, Timeout = 2": time.Second,
		"timeout=1":            500 * time.Millisecond, "timeout=0": 0,
		// The limit is never raised, and invalid values are ignored.
		"timeout=600": 4 * time.Second, "timeout=-1": 4 * time.Second, "timeout=x": 4 * time.Second,
		"timeout":                      4 * time.Second,
		"timeout=99999999999999999999": 4 * time.Second, "time=1": 4 * time.Second,
	} {
		t.Run(announced, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed := make(chan struct{}, 3)
				tr := serveIdle(t, time.Minute, announced, func(_ net.Conn, s http.ConnState) {
					if s == http.StateClosed {
						closed <- struct{}{}
					}
				})
				for i := range 2 { // the connection that brings a new limit is closed at once
					must.Do(t, post(t, tr))
					began := time.Now()
					<-closed
					got := time.Since(began)
					must.CheckThat(t, got == want || i <= 0 && got == 0, "closed after %v, want %v", got, want)
				}
			})
		})
	}
}

// Servers close connections after five seconds, or as they announce. No request that is sent around that time is lost.
func TestNoRequestIsLostOnIdleConnections(t *testing.T) {
	for announced, timeout := range map[string]time.Duration{"": 5 * time.Second, "timeout=5": 5 * time.Second,
		"timeout=2": 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var opened atomic.Int64
			tr := serveIdle(t, timeout, announced, func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					opened.Add(1)
				}
			})
			for pause := timeout - 1500*time.Millisecond; pause < timeout+time.Second; pause += 10 * time.Millisecond {
				must.Check(t, post(t, tr), timeout, announced, pause)
				time.Sleep(pause)
			}
			n := opened.Load()
			must.CheckThat(t, n <= 220, "%d connections for 250 requests, so none was used again", n)
		})
	}
}

// A request whose connection breaks after it was sent may have run. An idempotency key must not repeat it.
func TestRequestsWithIdempotencyKeysAreNotRepeated(t *testing.T) {
	for _, name := range []string{"Idempotency-Key", "x-idempotency-key"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, body string) {
				if methodOf(body) == mcp.MethodCallTool {
					panic(http.ErrAbortHandler)
				}
				writeJSON(w, resultOf(body))
			})
			o := p.options(t)
			o.Header = http.Header{name: {"a"}}
			c := newModern(t, o)
			must.Get(c.call(t.Context(), &outbound.Request{Method: mcp.MethodListTools}))(t)
			_, err := c.call(t.Context(), &outbound.Request{Method: mcp.MethodCallTool})
			must.CheckThat(t, err != nil, "a lost call has a result")
			all := p.asked()
			must.CheckEqual(t, len(all), 2, "the server has received", all)
			r, _ := p.request(1)
			must.CheckThat(t, r.Header.Get(name) == "a", "headers %v", r.Header)
		})
	}
}

// A poster sends the request that http.Client would send, with the features of the http.Client.
func TestPosterSendsWhatAnHTTPClientSends(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes"})
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		_, cookieErr := r.Cookie("seen")
		_, _ = io.WriteString(w, strings.Join([]string{r.Method, r.URL.String(), r.Host, string(body),
			r.Header.Get("X-Fixed"), user, password}, " "))
		if cookieErr == nil {
			_, _ = io.WriteString(w, " cookie")
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	jar := must.Get(cookiejar.New(nil))(t)
	for name, c := range map[string]struct {
		url    string
		client *http.Client
		want   string
	}{
		"direct": {server.URL + "/mcp?a=b", &http.Client{}, "POST /mcp?a=b " + host + " body fixed  "},
		"password": {"http://ada:secret@" + host + "/mcp", &http.Client{},
			"POST /mcp " + host + " body fixed ada secret"},
		"cookies":   {server.URL + "/mcp", &http.Client{Jar: jar}, "POST /mcp " + host + " body fixed   cookie"},
		"a timeout": {server.URL + "/mcp", &http.Client{Timeout: time.Minute}, "POST /mcp " + host + " body fixed  "},
	} {
		o := &Options{URL: c.url, Header: http.Header{"x-fixed": {"fixed"}}, HTTP: c.client}
		p := must.Get(newPoster(o, o.newHTTP()))(t)
		got := ""
		for range 2 { // the second request carries the cookie
			req := p.request(t.Context(), []byte("body"))
			resp, err := p.do(req)
			must.Do(t, err, name)
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			must.Do(t, err)
			got = string(body)
			req.URL.Path = "/changed" // an authorizer may do so; the next request gets its own URL
			req.Header.Set("X-Fixed", "changed")
		}
		must.CheckEqual(t, got, c.want, name)
	}
	http.DefaultClient.CloseIdleConnections()
}
