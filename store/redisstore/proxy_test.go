//go:build integration

package redisstore

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy forwards connections to a server. It delays and drops answers, counts round trips and
// cuts connections.
type proxy struct {
	addr   string
	to     string
	delay  atomic.Int64 // nanoseconds before each part of an answer
	drop   atomic.Bool  // close the connection instead of forwarding an answer
	trips  atomic.Int64
	opened atomic.Int64

	mu          sync.Mutex
	connections map[net.Conn]struct{}
	rejects     bool
	ended       chan struct{}
	running     sync.WaitGroup
}

// newProxy starts a proxy that ends with the test.
func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), to: to, connections: make(map[net.Conn]struct{}), ended: make(chan struct{})}
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		close(p.ended)
		_ = l.Close()
		p.cut(true)
		p.running.Wait()
	})
	return p
}

// cut closes all connections. If reject is set, new ones are closed at once.
func (p *proxy) cut(reject bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rejects = reject
	for c := range p.connections {
		_ = c.Close()
	}
	clear(p.connections)
}

func (p *proxy) allow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rejects = false
}

func (p *proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.rejects {
		p.connections[c] = struct{}{}
	}
	return !p.rejects
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.add(client) || !p.add(server) {
		return
	}
	p.opened.Add(1)
	var asked atomic.Bool // the client waits for an answer
	var copying sync.WaitGroup
	copying.Go(func() {
		defer server.Close()
		forward(server, client, func() bool {
			if !asked.Swap(true) {
				p.trips.Add(1)
			}
			return true
		})
	})
	forward(client, server, func() bool {
		asked.Store(false)
		return p.pause() && !p.drop.Load()
	})
	client.Close()
	copying.Wait()
}

// pause waits for the delay. It returns false if the proxy has ended.
func (p *proxy) pause() bool {
	delay := time.Duration(p.delay.Load())
	if delay == 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ended:
		return false
	}
}

// forward copies until an error. before is called before each write.
func forward(to io.Writer, from io.Reader, before func() bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !before() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
