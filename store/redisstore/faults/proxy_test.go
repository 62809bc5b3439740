//go:build integration && unix

package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/internal/faulttest"
)

// proxy sends every request to the next replica in turn. It knows nothing of sessions and does not repeat a request that
// a replica has received. A request that cannot reach any replica gets status 502.
type proxy struct {
	url       string
	transport *http.Transport

	mu      sync.Mutex
	targets []string // addresses of replicas; "" for one that gets no requests
	next    int
	pending map[string]int       // the requests without a response, by target
	streams map[*stream]struct{} // bodies of the event streams in progress
}

func newProxy(t testing.TB) *proxy {
	p := &proxy{
		// A connection that a replica closes must not look like a lost request.
		transport: &http.Transport{DisableKeepAlives: true},
		pending:   make(map[string]int), streams: make(map[*stream]struct{}),
	}
	endpoint := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme = "http" },
		Transport:     p,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error {
			if r.Header.Get("Content-Type") == "text/event-stream" {
				r.Body = p.track(r.Body, userOf(r.Request))
			}
			return nil
		},
	})
	p.url = endpoint.URL
	t.Cleanup(func() {
		endpoint.CloseClientConnections()
		endpoint.Close()
	})
	return p
}

// RoundTrip sends a request to the next replica that accepts a connection.
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	// The whole body is read first. Otherwise the server of the proxy closes it with the beginning of the response, and the
	// transport, which may not have read its end yet, then breaks the connection to the replica.
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	err := errors.New("no replica is up")
	for _, target := range p.turn() {
		out := r.Clone(r.Context())
		out.URL.Host = target
		out.Body = io.NopCloser(bytes.NewReader(body))
		var response *http.Response
		if !p.begin(target) {
			continue
		}
		response, err = p.transport.RoundTrip(out)
		p.done(target)
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" { // otherwise nothing was sent, and another replica may serve the request
			return response, err
		}
	}
	return nil, err
}

// set sets the address of a replica, or "" if it is down.
func (p *proxy) set(replica int, addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.targets) <= replica {
		p.targets = append(p.targets, "")
	}
	p.targets[replica] = addr
}

// turn returns the replicas that get requests, beginning with the next one.
func (p *proxy) turn() (up []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	for i := range p.targets {
		if target := p.targets[(p.next+i)%len(p.targets)]; target != "" {
			up = append(up, target)
		}
	}
	return up
}

// begin counts a request to a target. It reports false if the target gets no requests any more.
func (p *proxy) begin(target string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.targets, target) {
		return false
	}
	p.pending[target]++
	return true
}

// done ends what begin has begun, when the target has begun to respond.
func (p *proxy) done(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[target]--
}

// drain takes a replica out of the turn, and waits until it has begun to respond to all requests that it got.
func (p *proxy) drain(t testing.TB, replica int) {
	t.Helper()
	p.mu.Lock()
	target := p.targets[replica]
	p.targets[replica] = ""
	p.mu.Unlock()
	faulttest.Wait(t, "the replica has no new requests", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if n := p.pending[target]; n > 0 {
			return fmt.Errorf("%d requests have no response", n)
		}
		return nil
	})
}

// cut ends all event streams of a user in the middle, and returns their number.
func (p *proxy) cut(user string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.streams {
		if s.user == user {
			s.cut()
			n++
		}
	}
	return n
}

// userOf returns the user who has sent a request.
func userOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// stream is the body of an event stream that can be cut.
type stream struct {
	io.ReadCloser
	proxy *proxy
	user  string
	once  sync.Once
	ended chan struct{}
}

func (p *proxy) track(body io.ReadCloser, user string) *stream {
	s := &stream{ReadCloser: body, proxy: p, user: user, ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[s] = struct{}{}
	return s
}

var errCut = errors.New("the proxy has cut the connection")

func (s *stream) cut() { s.once.Do(func() { close(s.ended); s.ReadCloser.Close() }) }

func (s *stream) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	select {
	case <-s.ended:
		return 0, errCut
	default:
		return n, err
	}
}

func (s *stream) Close() error {
	s.proxy.mu.Lock()
	delete(s.proxy.streams, s)
	s.proxy.mu.Unlock()
	return s.ReadCloser.Close()
}
