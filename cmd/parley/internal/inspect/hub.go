package inspect

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/mcp"
)

// hub has the state of the page. Its mutex is taken after those of the log and of the servers.
type hub struct {
	ctx        context.Context // ends with the inspector
	now        func() time.Time
	log        *log
	transport  http.RoundTripper
	exchanges  atomic.Int64 // of all connections over HTTP
	record     func(server string, e traffic.Event)
	background sync.WaitGroup
	hello      hello
	revision   mcp.Revision // of connections, unless the page chooses another one
	add        func(ctx context.Context, url string) (Server, error)

	mu           sync.Mutex
	servers      []*server
	version      uint64 // incremented by each change of a call
	calls        []*call
	dropped      int // calls that trim has dropped so far
	lastCall     uint64
	running      int
	questions    []*question
	lastQuestion uint64
	logins       map[string]*loginState // by the names of the servers
	listeners    map[chan struct{}]bool // of the open pages
}

func newHub(ctx context.Context, now func() time.Time) *hub {
	h := &hub{ctx: ctx, now: now, record: func(string, traffic.Event) {}, logins: make(map[string]*loginState), listeners: make(map[chan struct{}]bool)}
	h.log = &log{now: now, pending: make(map[pendingKey]*entry), wake: h.wake}
	h.transport = httpclient.NewTransport()
	return h
}

// touch records that a call has changed. It is called with mu held.
func (h *hub) touch(c *call) {
	h.version++
	c.Version = h.version
}

// wake tells the open pages that the state has changed. It is called without mu.
func (h *hub) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for listener := range h.listeners {
		select {
		case listener <- struct{}{}:
		default:
		}
	}
}

// listen returns a channel that receives after changes, and a function that ends this.
func (h *hub) listen() (changed <-chan struct{}, end func()) {
	listener := make(chan struct{}, 1)
	listener <- struct{}{}
	h.mu.Lock()
	h.listeners[listener] = true
	h.mu.Unlock()
	return listener, func() {
		h.mu.Lock()
		delete(h.listeners, listener)
		h.mu.Unlock()
	}
}

// server returns the server with a name, or nil.
func (h *hub) server(name string) *server {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.servers {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// allServers returns the servers in the order of the page.
func (h *hub) allServers() []*server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*server(nil), h.servers...)
}

// callsAfter returns copies of the calls that have changed after a version, and the current version.
func (h *hub) callsAfter(version uint64) (calls []call, current uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if c.Version > version {
			copied := *c
			copied.Steps = append([]step{}, c.Steps...)
			calls = append(calls, copied)
		}
	}
	return calls, h.version
}

// close closes the connections and waits for the calls. The context of the hub has ended.
func (h *hub) close() {
	for _, s := range h.allServers() {
		s.disconnect()
	}
	h.background.Wait()
	(&http.Client{Transport: h.transport}).CloseIdleConnections()
}
