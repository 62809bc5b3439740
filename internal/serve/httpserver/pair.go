package httpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// pairParameter is the query parameter of the POST endpoint that names the event stream.
const pairParameter = "sessionId"

// Limits of open pairs. Each client has one, with an open connection.
const (
	maxPairs           = 10_000
	maxPairsPerAddress = 1_000
	maxPairInflight    = 128              // requests in flight, if Legacy has no limit
	pairHandshake      = 30 * time.Second // time-out of the handshake
)

// pair is one HTTP+SSE pair of 2024-11-05: an event stream for the server's messages and
// an endpoint for the client's. The session lasts as long as the stream.
type pair struct {
	id      string
	address string
	who     principal.Principal
	stream  *eventStream
	ctx     context.Context
	drain   chan struct{} // closed when the server shuts down
	slots   chan struct{}
	expiry  *expiry // of the token with the latest expiry
	running sync.WaitGroup

	session *legacy.Session

	handshake chan struct{} // capacity 1: holds a value while a message of the handshake is served
	ready     atomic.Bool   // the handshake is complete

	mu     sync.Mutex // not locked while handlers run or the stream is written
	closed bool       // new requests are rejected
}

// pairs is the registry of open pairs. The zero value is ready for use. It is safe for concurrent use.
type pairs struct {
	mu        sync.Mutex
	draining  bool
	byID      map[string]*pair
	addresses map[string]int
}

// add registers x. It reports false if a limit is reached or the server shuts down.
func (p *pairs) add(x *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining || len(p.byID) >= maxPairs || p.addresses[x.address] >= maxPairsPerAddress {
		return false
	}
	if p.byID == nil {
		p.byID, p.addresses = make(map[string]*pair), make(map[string]int)
	}
	p.byID[x.id] = x
	p.addresses[x.address]++
	return true
}

func (p *pairs) remove(x *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byID, x.id)
	if p.addresses[x.address]--; p.addresses[x.address] == 0 {
		delete(p.addresses, x.address)
	}
}

// get returns the pair with this id and principal, or nil.
func (p *pairs) get(id string, who principal.Principal) *pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.byID[id]; x != nil && x.who == who {
		return x
	}
	return nil
}

// beginDrain ends each pair after its requests in flight, and makes add reject new pairs.
func (p *pairs) beginDrain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining {
		return
	}
	p.draining = true
	for _, x := range p.byID {
		close(x.drain)
	}
}

// openPair serves the event stream of a pair. The first event is the endpoint (2024-11-05, basic/transports, HTTP with
// SSE). It is a path without a host, so the client can see that it has the same origin.
func (s *Server) openPair(w http.ResponseWriter, r *http.Request, e *response) {
	var random [16]byte
	rand.Read(random[:])
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	e.stream.ctx, e.stream.broken = ctx, cancelFunc(cancel)
	s.calls.watch(&e.tracked, &e.stream, false)
	x := &pair{
		id:        base64.RawURLEncoding.EncodeToString(random[:]),
		address:   addressOf(r),
		who:       principalOf(r),
		stream:    &e.stream,
		ctx:       ctx,
		drain:     make(chan struct{}),
		handshake: make(chan struct{}, 1),
		slots:     make(chan struct{}, cmp.Or(s.Legacy.MaxInflight, maxPairInflight)),
		expiry:    expiryOf(r),
	}
	defer x.expiry.stop()
	x.session = s.Legacy.NewSession(x.who)
	x.session.Source, x.session.Address = x.id, x.address
	if !s.pairs.add(x) {
		s.rejectSession(w, r, jsonrpc.ID{}, legacy.ErrTooManySessions)
		return
	}
	// Subscribe before the client knows the endpoint: it can use it at once.
	notifications := x.session.Notifications()
	defer notifications.Close()
	_ = x.stream.write(ctx, func(dst []byte) []byte {
		return httpcodec.AppendEvent(dst, "endpoint", []byte(pathOf(r)+"?"+pairParameter+"="+x.id))
	})
	x.run(s, notifications)
	s.pairs.remove(x)
	x.end()
	cancel(errStreamClosed)
	x.running.Wait()
}

// run sends notifications and keep-alives until the pair must end: the client disconnects, does not answer pings or
// does not complete the handshake in time, the token expires, or the server shuts down and all requests have finished.
func (x *pair) run(s *Server, notifications *legacy.NotificationQueue) {
	tick := time.NewTicker(s.KeepAlive)
	defer tick.Stop()
	handshake := time.NewTimer(pairHandshake)
	defer handshake.Stop()
	pinger := x.session.NewPinger(s.KeepAlive)
	drain := x.drain
	var answered chan struct{}
	for {
		select {
		case <-tick.C:
			if s.sendKeepAlive(x.ctx, x.ready.Load(), &pinger, x.stream) != nil {
				return
			}
		case <-notifications.Wake():
			if writeNotifications(x.stream, notifications) != nil {
				return
			}
		case <-x.expiry.expired():
			return
		case <-handshake.C:
			if !x.ready.Load() {
				return
			}
		case <-drain:
			drain = nil
			x.close()
			x.session.EndInput() // the server accepts no more messages, so the answers cannot arrive
			answered = make(chan struct{})
			go func() {
				x.running.Wait()
				close(answered)
			}()
		case <-answered:
			return
		case <-x.ctx.Done():
			return
		}
	}
}

// begin counts one more request. It reports false if the pair has ended.
func (x *pair) begin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || x.ctx.Err() != nil {
		return false
	}
	x.running.Add(1)
	return true
}

// close makes begin reject new requests.
func (x *pair) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
}

// inHandshake calls f while no other message of the handshake is served. It reports false if the pair ends first.
func (x *pair) inHandshake(f func()) bool {
	select {
	case x.handshake <- struct{}{}:
	case <-x.ctx.Done():
		return false
	}
	defer func() {
		x.ready.Store(x.session.Initialized())
		<-x.handshake
	}()
	f()
	return true
}

// notify passes a notification to the session.
func (x *pair) notify(m *jsonrpc.Message) {
	if x.ready.Load() {
		x.session.ReceiveNotification(m)
		return
	}
	x.inHandshake(func() { x.session.ReceiveNotification(m) })
}

// end cancels the requests in flight and waits until queued events are sent.
func (x *pair) end() {
	x.close()
	x.session.Close()
	x.stream.end()
}

// postToPair serves one message for a pair. The response goes to the event stream.
func (s *Server) postToPair(w http.ResponseWriter, r *http.Request, id string, m *jsonrpc.Message) {
	x := s.pairs.get(id, principalOf(r))
	if x == nil {
		rejectUnknownPair(w, m)
		return
	}
	x.expiry.extend(r)
	switch m.Kind {
	case jsonrpc.Notification:
		x.notify(m)
		if x.ready.Load() {
			x.session.ServeNotification(r.Context(), rpc.Sender{}, m, revision.Class{})
		}
	case jsonrpc.Response:
		x.session.ReceiveResponse(m)
	case jsonrpc.Request:
		var c *rpc.Call
		if !x.inOrder(m) {
			c, _ = x.session.NewCall(rpc.Sender{}, m, revision.Class{}) // startRequest reports the error
		}
		if !s.authorize(w, r, m.ID, cmp.Or(c, x.handshakeCall(m))) {
			return
		}
		switch ok, open := x.startRequest(withCaller(x.ctx, r), m, c); {
		case !open:
			rejectUnknownPair(w, m)
			return
		case !ok:
			s.rejectOverload(w, r, http.StatusTooManyRequests, m.ID, rpc.ErrTooManyInFlight)
			return
		}
	}
	respondEmpty(w, http.StatusAccepted)
}

// rejectUnknownPair rejects a message for a pair that this process does not have: its event stream has ended, or
// another replica has it.
func rejectUnknownPair(w http.ResponseWriter, m *jsonrpc.Message) {
	id := m.ID
	if m.Kind == jsonrpc.Response {
		id = jsonrpc.ID{}
	}
	reject(w, http.StatusNotFound, id,
		&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "session not found: open a new event stream"})
}

// handshakeCall returns the call of a request for which the session has none. It is only to be authorized.
func (x *pair) handshakeCall(m *jsonrpc.Message) *rpc.Call {
	return &rpc.Call{Call: *call.New(call.Description{
		Method: m.Method, ID: m.ID, Params: &m.Params, Revision: mcp.V20241105, Principal: x.who, Source: x.id,
	})}
}

// inOrder reports whether m must be served before the next message is read, because that depends on the handshake.
func (x *pair) inOrder(m *jsonrpc.Message) bool {
	return !x.ready.Load() || m.Method == mcp.MethodInitialize
}

// startRequest starts to serve a request. C is its call, or nil. ok is false if too many requests are in flight,
// open is false if the pair has ended.
func (x *pair) startRequest(ctx context.Context, m *jsonrpc.Message, c *rpc.Call) (ok, open bool) {
	if !x.begin() {
		return false, false
	}
	if x.inOrder(m) { // if the queue is full, only this client waits
		defer x.running.Done()
		var out []byte
		serve := func() { x.session.Serve(ctx, &out, m, x.stream) }
		if !x.inHandshake(func() { rpc.Isolate(serve) }) { // the response is for another connection
			return false, false
		}
		_ = x.stream.Write(x.ctx, out)
		return true, true
	}
	select {
	case x.slots <- struct{}{}:
	default:
		x.running.Done()
		return false, true
	}
	// Before the client receives the status of this request and sends the next: a cancellation must find the request.
	var fault *jsonrpc.Error
	if c == nil {
		c, fault = x.session.NewCall(rpc.Sender{}, m, revision.Class{})
	}
	if fault == nil {
		fault = x.session.Begin(ctx, c, x.stream)
	}
	go x.serve(func(out *[]byte) {
		if fault != nil {
			*out = jsonrpc.AppendError(*out, m.ID, fault, false)
			return
		}
		x.session.AppendReply(out, c)
	})
	return true, true
}

// serve calls f and sends the response that f appends, even if f calls runtime.Goexit.
func (x *pair) serve(f func(out *[]byte)) {
	var out []byte
	defer func() {
		if len(out) > 0 {
			_ = x.stream.Write(x.ctx, out)
		}
		<-x.slots
		x.running.Done()
	}()
	f(&out)
}

// writeNotifications sends the queued notifications on the event stream of a pair.
func writeNotifications(stream *eventStream, notifications *legacy.NotificationQueue) error {
	for _, notification := range notifications.Take() {
		if err := stream.Write(stream.ctx, notification); err != nil {
			return err
		}
	}
	return nil
}

// pathOf returns the path of the request as the client sent it. r.URL.Path may differ,
// because handlers such as http.StripPrefix change it.
func pathOf(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = r.URL.EscapedPath()
	}
	return "/" + encodePath(strings.TrimLeft(path, "/")) // a reference that starts with two slashes names another host
}

// encodePath percent-encodes the bytes that must not occur in the path of a URL (RFC 3986, section 3.3). It keeps
// slashes and existing encodings. Browsers read a backslash as a slash, so "/\host" would name another host.
func encodePath(path string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(path) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.IndexByte("-._~!$&'()*+,;=:@/%", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
