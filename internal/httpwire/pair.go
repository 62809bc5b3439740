package httpwire

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
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
	maxPairInflight    = 128
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
	close   context.CancelCauseFunc
	slots   chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex // orders the handshake; not held while handlers run
	session *legacy.Session
}

type pairs struct {
	mu        sync.Mutex
	byID      map[string]*pair
	addresses map[string]int
}

func (p *pairs) add(x *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.byID) >= maxPairs || p.addresses[x.address] >= maxPairsPerAddress {
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

func (p *pairs) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.byID {
		x.close(errShutdown)
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
	x := &pair{
		id:      base64.RawURLEncoding.EncodeToString(random[:]),
		address: addressOf(r),
		who:     principalOf(r),
		stream:  &eventStream{w: w, broken: cancel},
		ctx:     ctx,
		close:   cancel,
		slots:   make(chan struct{}, maxPairInflight),
	}
	x.session = s.Legacy.NewSession(x.who)
	if !s.pairs.add(x) {
		s.unavailable(w, r, jsonrpc.ID{}, legacy.ErrTooManySessions)
		return
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = r.URL.EscapedPath()
	}
	_ = x.stream.write(ctx, func(dst []byte) []byte {
		return appendEvent(dst, "endpoint", []byte(path+"?"+pairParameter+"="+x.id))
	})
	tick := time.NewTicker(s.KeepAlive)
	defer tick.Stop()
	for open := true; open; {
		select {
		case <-tick.C:
			open = x.stream.comment(ctx) == nil
		case <-ctx.Done():
			open = false
		}
	}
	s.pairs.remove(x)
	cancel(errStreamClosed)
	x.mu.Lock() // whoever is starting a request has started it, and nobody will again
	x.session.Close()
	x.mu.Unlock()
	x.stream.end() // before the handlers end: what they write has nowhere to go
	x.running.Wait()
}

// postToPair takes one message for a pair. Its answer goes to the event stream.
func (s *Server) postToPair(w http.ResponseWriter, r *http.Request, id string, m *jsonrpc.Message) {
	x := s.pairs.get(id, principalOf(r))
	if x == nil {
		refuse(w, http.StatusNotFound, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "no such session, or no longer: open the event stream anew"})
		return
	}
	if m.Kind == jsonrpc.Request && !s.startOnPair(x, m) {
		w.Header()["Retry-After"] = []string{"1"}
		refuse(w, http.StatusTooManyRequests, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "too many requests of this session are in flight: try again when one is answered"})
		return
	}
	switch m.Kind {
	case jsonrpc.Notification:
		x.session.Notify(m)
	case jsonrpc.Response:
		x.session.Receive(m)
	}
	w.WriteHeader(http.StatusAccepted)
}

// startOnPair begins to serve a request, unless too many are being served.
func (s *Server) startOnPair(x *pair, m *jsonrpc.Message) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() != nil {
		return false
	}
	if !x.session.Handshook() || m.Method == mcp.MethodInitialize {
		_ = x.stream.Write(x.ctx, x.session.Serve(x.ctx, nil, m, x.stream))
		return true
	}
	select {
	case x.slots <- struct{}{}:
	default:
		return false
	}
	x.running.Add(1)
	go func() {
		defer func() {
			<-x.slots
			x.running.Done()
		}()
		if out := x.session.Serve(x.ctx, nil, m, x.stream); len(out) > 0 {
			_ = x.stream.Write(x.ctx, out)
		}
	}()
	return true
}
