// Package http1 sends requests over HTTP/1.1 connections without TLS.
//
// [http.Transport] has two goroutines for each connection. They serve large bodies in both directions at once, proxies,
// TLS and HTTP/2. For a small request, most of the client's time is spent on these goroutines waking each other. Here the
// goroutine of the caller writes the request and reads the response. Everything that needs more is left to an
// http.Transport.
package http1

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Transport is an http.RoundTripper that sends small requests without TLS, and leaves others to an http.Transport. It does not
// request compressed responses. It is safe for concurrent use.
//
// An idle connection that the server has closed stays in the Transport until the next request or until its time-out.
type Transport struct {
	base *http.Transport
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	// unusable is set when a connection cannot tell whether the server has closed it, such as one of a dialer with its
	// own kind of connection.
	unusable atomic.Bool

	mu      sync.Mutex
	idle    map[string][]*connection // by address; the last one was used last
	sweeper *time.Timer              // calls sweep; nil if no connection has to be closed
	closing bool                     // CloseIdleConnections was called after the last request
}

// New returns a Transport with the settings of base, which must not change afterwards. It returns base itself if a setting
// needs it for all requests, and on systems where a connection cannot tell whether the server has closed it.
func New(base *http.Transport) http.RoundTripper {
	hasHTTP1 := base.Protocols == nil || base.Protocols.HTTP1() && !base.Protocols.UnencryptedHTTP2()
	//lint:ignore SA1019 programs may still set Dial
	if !canPeek || !hasHTTP1 || base.Dial != nil || base.DisableKeepAlives || base.MaxConnsPerHost > 0 || base.ResponseHeaderTimeout > 0 ||
		base.MaxIdleConnsPerHost <= 0 || base.MaxResponseHeaderBytes <= 0 {
		return base
	}
	t := &Transport{base: base, dial: base.DialContext, idle: make(map[string][]*connection)}
	if t.dial == nil {
		t.dial = new(net.Dialer).DialContext
	}
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.canSend(req) {
		return t.base.RoundTrip(req)
	}
	if req.Context().Err() != nil {
		closeBody(req)
		return nil, context.Cause(req.Context())
	}
	resp, err := t.send(req, addressOf(req.URL))
	if err != nil && req.Context().Err() != nil {
		err = context.Cause(req.Context())
	}
	return resp, err
}

// send sends a request over an idle connection or a new one.
func (t *Transport) send(req *http.Request, address string) (*http.Response, error) {
	for c := t.take(address); c != nil; c = t.take(address) {
		resp, err := c.exchange(req)
		if err == nil || !c.mayRepeat(req, err) {
			return resp, err
		}
		if req, err = again(req); err != nil {
			return nil, err
		}
	}
	conn, err := t.dial(req.Context(), "tcp", address)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	c := newConnection(t, address, conn)
	if c == nil { // send it with the base from now on
		t.unusable.Store(true)
		conn.Close()
		return t.base.RoundTrip(req)
	}
	return c.exchange(req)
}

// take returns an idle connection that the server has not closed, or nil.
func (t *Transport) take(address string) *connection {
	for {
		t.mu.Lock()
		t.closing = false
		all := t.idle[address]
		if len(all) == 0 {
			t.mu.Unlock()
			return nil
		}
		c := all[len(all)-1]
		all[len(all)-1] = nil
		t.idle[address] = all[:len(all)-1]
		t.mu.Unlock()
		if c.isOpen() {
			return c
		}
		c.conn.Close()
	}
}

// put keeps an idle connection for the next request, or closes it.
func (t *Transport) put(c *connection) {
	c.since = time.Now()
	t.mu.Lock()
	all := t.idle[c.address]
	keep := len(all) < t.base.MaxIdleConnsPerHost && !t.closing
	if keep {
		t.idle[c.address] = append(all, c)
		if timeout := t.base.IdleConnTimeout; timeout > 0 && t.sweeper == nil {
			t.sweeper = time.AfterFunc(timeout, t.sweep)
		}
	}
	t.mu.Unlock()
	if !keep {
		c.conn.Close()
	}
}

// sweep closes connections that have been idle for the time-out, and runs again when others will have been.
func (t *Transport) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweeper = nil
	next, now := t.base.IdleConnTimeout, time.Now()
	for address, all := range t.idle {
		old := 0
		for old < len(all) && now.Sub(all[old].since) >= t.base.IdleConnTimeout { // the first ones have been idle longest
			all[old].conn.Close()
			old++
		}
		if all = slices.Delete(all, 0, old); len(all) == 0 {
			delete(t.idle, address)
			continue
		}
		t.idle[address] = all
		next = min(next, t.base.IdleConnTimeout-now.Sub(all[0].since))
	}
	if len(t.idle) > 0 {
		t.sweeper = time.AfterFunc(next, t.sweep)
	}
}

// CloseIdleConnections closes the connections that are not in use, and those in use when their responses end.
// [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	idle := t.idle
	t.idle, t.closing = make(map[string][]*connection), true
	if t.sweeper != nil {
		t.sweeper.Stop()
		t.sweeper = nil
	}
	t.mu.Unlock()
	for _, all := range idle {
		for _, c := range all {
			c.conn.Close()
		}
	}
	t.base.CloseIdleConnections()
}
