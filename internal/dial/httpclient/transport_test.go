package httpclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
)

// distant is a connection over a network: the client learns later that the server has closed it, and its system accepts
// bytes until then.
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
func serveIdle(t *testing.T, timeout time.Duration, announced string, watch func(net.Conn, http.ConnState)) http.RoundTripper {
	t.Helper()
	n := &network{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{IdleTimeout: timeout, ConnState: watch, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.ReadAll(resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func TestIdleConnectionsAreClosedBeforeTheServerClosesThem(t *testing.T) {
	for announced, want := range map[string]time.Duration{
		"": 4 * time.Second, "timeout=5": 4 * time.Second, "timeout=3, max=100": 2 * time.Second, "max=100, Timeout = 2": time.Second,
		"timeout=1": 500 * time.Millisecond, "timeout=0": 0,
		// The limit is never raised, and other values mean nothing.
		"timeout=600": 4 * time.Second, "timeout=-1": 4 * time.Second, "timeout=x": 4 * time.Second, "timeout": 4 * time.Second,
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
					if err := post(t, tr); err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					<-closed
					if got := time.Since(began); got != want && (i > 0 || got != 0) {
						t.Errorf("closed after %v, want %v", got, want)
					}
				}
			})
		})
	}
}

// Servers close connections after five seconds, or as they announce. No request that is sent around that time is lost.
func TestNoRequestIsLostOnIdleConnections(t *testing.T) {
	for announced, timeout := range map[string]time.Duration{"": 5 * time.Second, "timeout=5": 5 * time.Second, "timeout=2": 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var opened atomic.Int64
			tr := serveIdle(t, timeout, announced, func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					opened.Add(1)
				}
			})
			for pause := timeout - 1500*time.Millisecond; pause < timeout+time.Second; pause += 10 * time.Millisecond {
				if err := post(t, tr); err != nil {
					t.Errorf("timeout %v, %q, after %v: %v", timeout, announced, pause, err)
				}
				time.Sleep(pause)
			}
			if n := opened.Load(); n > 220 {
				t.Errorf("%d connections for 250 requests, so none was used again", n)
			}
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
			if _, err := c.call(t.Context(), &outbound.Request{Method: mcp.MethodListTools}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.call(t.Context(), &outbound.Request{Method: mcp.MethodCallTool}); err == nil {
				t.Error("a lost call has a result")
			}
			if all := p.asked(); len(all) != 2 {
				t.Errorf("the server has received %q", all)
			}
			if r, _ := p.request(1); r.Header.Get(name) != "a" {
				t.Errorf("headers %v", r.Header)
			}
		})
	}
}

// A poster sends the request that http.Client would send, with the features of the client's
// http.Client.
func TestPosterSendsWhatAnHTTPClientSends(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes"})
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		_, cookieErr := r.Cookie("seen")
		_, _ = io.WriteString(w, strings.Join([]string{r.Method, r.URL.String(), r.Host, string(body), r.Header.Get("X-Fixed"), user, password}, " "))
		if cookieErr == nil {
			_, _ = io.WriteString(w, " cookie")
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url    string
		client *http.Client
		want   string
	}{
		"direct":    {server.URL + "/mcp?a=b", &http.Client{}, "POST /mcp?a=b " + host + " body fixed  "},
		"password":  {"http://ada:secret@" + host + "/mcp", &http.Client{}, "POST /mcp " + host + " body fixed ada secret"},
		"cookies":   {server.URL + "/mcp", &http.Client{Jar: jar}, "POST /mcp " + host + " body fixed   cookie"},
		"a timeout": {server.URL + "/mcp", &http.Client{Timeout: time.Minute}, "POST /mcp " + host + " body fixed  "},
	} {
		o := &Options{URL: c.url, Header: http.Header{"x-fixed": {"fixed"}}, HTTP: c.client}
		p, err := newPoster(o, o.newHTTP())
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for range 2 { // the second request has the cookie
			req := p.request(t.Context(), []byte("body"))
			resp, err := p.do(req)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			got = string(body)
			req.URL.Path = "/changed" // an authorizer may do so: the next request has its own URL
			req.Header.Set("X-Fixed", "changed")
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
