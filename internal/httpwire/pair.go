package httpwire

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// pairParameter names, in the query of the URL to post to, the stream on which
// the answers come.
const pairParameter = "sessionId"

// Bounds on open pairs. They are connections: there is one for each client.
const (
	maxPairs           = 10_000
	maxPairsPerAddress = 1_000
	maxPairInflight    = 128              // unless there is a limit for sessions
	pairHandshake      = 30 * time.Second // for a client to begin its session
)

// pair is the transport of 2024-11-05: an event stream that carries all that the
// server says, and an endpoint to post to. It is one session for as long as the
// stream is open.
type pair struct {
	id      string
	address string
	who     principal.Principal
	stream  *eventStream
	ctx     context.Context
	drain   chan struct{} // closed when the server shuts down
	slots   chan struct{}
	expiry  *expiry // of the newest token that a request of the pair has come with
	running sync.WaitGroup

	mu      sync.Mutex // orders the handshake and the end; not held while handlers run
	closed  bool       // nothing more is begun
	session *legacy.Session
}

type pairs struct {
	mu        sync.Mutex
	draining  bool
	byID      map[string]*pair
	addresses map[string]int
}

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

func (p *pairs) get(id string, who principal.Principal) *pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.byID[id]; x != nil && x.who == who {
		return x
	}
	return nil
}

// beginDrain has each pair end when what it has in flight is answered, and lets no
// other begin.
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

// openPair serves the event stream. Its first event tells where to post
// (2024-11-05, basic/transports, HTTP with SSE): the same path, so that the
// client can see that it is the same origin.
func (s *Server) openPair(w http.ResponseWriter, r *http.Request) {
	var random [16]byte
	rand.Read(random[:])
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	f := &trackedRequest{cancel: cancelFunc(cancel)}
	s.calls.watch(f, s.KeepAlive)
	defer s.calls.forget(f)
	x := &pair{
		id:      base64.RawURLEncoding.EncodeToString(random[:]),
		address: addressOf(r),
		who:     s.principalOf(r),
		stream:  &eventStream{w: w, ctx: ctx, broken: cancelFunc(cancel)},
		ctx:     ctx,
		drain:   make(chan struct{}),
		slots:   make(chan struct{}, cmp.Or(s.Legacy.MaxInflight, maxPairInflight)),
		expiry:  s.expiryOf(r),
	}
	defer x.expiry.stop()
	x.session = s.Legacy.NewSession(x.who)
	x.session.Source = x.id
	if !s.pairs.add(x) {
		s.rejectSession(w, r, jsonrpc.ID{}, legacy.ErrTooManySessions)
		return
	}
	// Whoever knows the endpoint may have subscribed before we go on here.
	notifications := x.session.Notifications()
	defer notifications.Close()
	_ = x.stream.write(ctx, func(dst []byte) []byte {
		return appendEvent(dst, "endpoint", []byte(pathOf(r)+"?"+pairParameter+"="+x.id))
	})
	x.run(s, notifications)
	s.pairs.remove(x)
	x.end()
	cancel(errStreamClosed)
	x.running.Wait()
}

// pathOf is the path under which the client knows this endpoint, which is not what
// the program's own routing has made of it.
func pathOf(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = r.URL.EscapedPath()
	}
	return "/" + strings.TrimLeft(path, "/") // two slashes would begin another host
}

// wait returns when the pair is to end: the client has gone, does not answer or has not
// begun a session, or the server shuts down and has answered everything.
func (x *pair) run(s *Server, notifications *legacy.NotificationQueue) {
	tick := time.NewTicker(s.KeepAlive)
	defer tick.Stop()
	handshake := time.NewTimer(pairHandshake)
	defer handshake.Stop()
	pinger := x.session.NewPinger(s.KeepAlive)
	for {
		select {
		case <-tick.C:
			if s.sendKeepAlive(x.ctx, x.initialized(), &pinger, x.stream) != nil {
				return
			}
		case <-notifications.Wake():
			if writeNotifications(x.stream, notifications) != nil {
				return
			}
		case <-x.expiry.expired():
			return
		case <-handshake.C:
			if !x.initialized() {
				return
			}
		case <-x.drain:
			x.mu.Lock()
			x.closed = true
			x.mu.Unlock()
			answered := make(chan struct{})
			go func() {
				x.running.Wait()
				close(answered)
			}()
			select {
			case <-answered:
			case <-x.ctx.Done():
			}
			return
		case <-x.ctx.Done():
			return
		}
	}
}

func (x *pair) notify(m *jsonrpc.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.session.ReceiveNotification(m)
}

func (x *pair) initialized() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.session.Initialized()
}

// end cancels what is in flight. What that has written is sent, if somebody is there.
func (x *pair) end() {
	x.mu.Lock()
	x.closed = true
	x.session.Close()
	x.mu.Unlock()
	x.stream.end()
}

// postToPair takes one message for a pair. Its answer goes to the event stream.
func (s *Server) postToPair(w http.ResponseWriter, r *http.Request, id string, m *jsonrpc.Message) {
	x := s.pairs.get(id, s.principalOf(r))
	if x == nil {
		s.rejectUnknownPair(w, m)
		return
	}
	x.expiry.extend(r)
	switch m.Kind {
	case jsonrpc.Notification:
		x.notify(m)
		if x.initialized() {
			x.session.ServeNotification(r.Context(), m)
		}
	case jsonrpc.Response:
		x.session.ReceiveResponse(m)
	case jsonrpc.Request:
		ctx := s.withToken(x.ctx, r)
		if s.Auth != nil {
			var err error
			if ctx, err = s.Legacy.Engine.Authorize(ctx, descriptionOf(r, m)); err != nil {
				x.serveUnauthorized(ctx, m)
				s.rejectCalls(w, r, m.ID, err)
				return
			}
		}
		switch ok, open := s.startOnPair(x, ctx, m); {
		case !open:
			s.rejectUnknownPair(w, m)
			return
		case !ok:
			rejectBusy(w, m.ID)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

func (s *Server) rejectUnknownPair(w http.ResponseWriter, m *jsonrpc.Message) {
	id := m.ID
	if m.Kind == jsonrpc.Response {
		id = jsonrpc.ID{}
	}
	reject(w, http.StatusNotFound, id, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "no such session, or no longer: open the event stream anew"})
}

// serveUnauthorized serves a call whose scopes are missing, so that middleware sees it. The client receives a
// challenge instead of the response.
func (x *pair) serveUnauthorized(ctx context.Context, m *jsonrpc.Message) {
	x.mu.Lock()
	if !x.session.Initialized() || m.Method == mcp.MethodInitialize {
		defer x.mu.Unlock()
	} else {
		x.mu.Unlock()
	}
	x.session.Serve(ctx, nil, m, nil)
}

// startOnPair begins to serve a request, unless too many are being served or the
// pair has ended.
func (s *Server) startOnPair(x *pair, ctx context.Context, m *jsonrpc.Message) (ok, open bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || x.ctx.Err() != nil {
		return false, false
	}
	if !x.session.Initialized() || m.Method == mcp.MethodInitialize {
		// In order: what comes next depends on it. The client is the only one whom a
		// full queue keeps waiting here.
		_ = x.stream.Write(x.ctx, x.session.Serve(ctx, nil, m, x.stream))
		return true, true
	}
	select {
	case x.slots <- struct{}{}:
	default:
		return false, true
	}
	x.running.Add(1)
	go s.serveOnPair(x, ctx, m)
	return true, true
}

func (s *Server) serveOnPair(x *pair, ctx context.Context, m *jsonrpc.Message) {
	var out []byte
	served := false
	defer func() {
		if !served { // the handler has panicked, or ended this goroutine
			if v := recover(); v != nil {
				s.Logger.Error("panic while serving a request", "method", m.Method, "panic", v, "stack", string(debug.Stack()))
			}
			out = jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}, false)
		}
		if len(out) > 0 {
			_ = x.stream.Write(x.ctx, out)
		}
		<-x.slots
		x.running.Done()
	}()
	out = x.session.Serve(ctx, nil, m, x.stream)
	served = true
}
