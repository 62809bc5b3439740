//go:build integration && unix

package faults

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
)

// proxy sends every request to the next replica in turn. It knows nothing of sessions and does not repeat a request that
// a replica has received. A request that cannot reach any replica gets status 502.
type proxy struct {
	url       string
	transport *http.Transport

	mu      sync.Mutex
	targets []string // addresses of replicas; "" for one that is down
	next    int
	streams map[*stream]struct{} // bodies of the event streams in progress
}

func newProxy(t testing.TB) *proxy {
	p := &proxy{streams: make(map[*stream]struct{})}
	dialer := new(net.Dialer)
	p.transport = &http.Transport{
		DisableKeepAlives: true, // a connection that a replica closes must not look like a lost request
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			// Nothing was sent yet, so another replica may serve the request.
			err := errors.New("no replica is up")
			for _, target := range p.turn() {
				var connection net.Conn
				if connection, err = dialer.DialContext(ctx, network, target); err == nil {
					return connection, nil
				}
			}
			return nil, err
		},
	}
	endpoint := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host
		},
		Transport:     p.transport,
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
		p.transport.CloseIdleConnections()
	})
	return p
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

// turn returns the replicas that are up, beginning with the next one.
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
